-- Acknowledges many batches at once. One element per (partition, group, lease):
--   p_lease     NULL = whoever holds the lease     p_group NULL = a group nobody knows
--   p_ids       16 bytes per record     p_status: one byte per record: 0 completed, 1 failed, 2 dlq, 3 retry, 4 completed
--                                                       with all that stands before it
--   p_retry_limit   of the queue     p_retry_delay_us   asked for by the acknowledgment, NULL: as the queue's options say
--   f_row, f_idx, f_error             error texts of failed and dead letters: 0-based element, 0-based record
-- One result row per element: status 0, or 2 where the group has no cursor; codes: one byte per record, 1 success,
-- 2 dead-lettered, 4 this one released the lease, 8 message not found, 16 lease not live, 32 nothing to do, 64 too late,
-- 128 too many gaps; released; the new cursor; head;
-- retry_until. status 9 with ord -1: stale catalogue version (in committed), nothing was done.
--
-- Nearly all acks complete what was delivered, in its order: the ids are then exactly the first ones of the window under
-- lease. Those are found out and applied together; ack_group decides the others one by one. All
-- cursors are locked at the start, in ascending order: the sort is below the join, or the planner would walk the whole index of cursors for its order.
CREATE OR REPLACE FUNCTION queend.ack(p_version bigint, p_part int[], p_group int[], p_lease uuid[], p_n int[], p_ids bytea[],
    p_status bytea[], p_retry_limit int[], p_retry_delay_us bigint[], f_row int[], f_idx int[], f_error text[])
RETURNS TABLE (ord int, status smallint, codes bytea, released boolean, committed bigint, head bigint, retry_until bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_now     bigint := queend.now_us();
    v_ord     int[];
    v_end     bigint[];
    v_row     bigint[];
    v_head    bigint[];
    v_full    boolean[];
    i         int;
BEGIN
    IF p_version <> 0 THEN
        SELECT c.version INTO v_version FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN QUERY SELECT -1, 9::smallint, NULL::bytea, false, v_version, 0::bigint, 0::bigint;
            RETURN;
        END IF;
    END IF;

    WITH held AS MATERIALIZED (
        SELECT a.*, k.committed, k.row_base, k.lease_end, k.lease_id, k.lease_until, k.beyond
          FROM (SELECT * FROM unnest(p_part, p_group, p_lease, p_n, p_ids, p_status) WITH ORDINALITY AS u (part, grp, lease, n, ids, status, ord)
                 ORDER BY u.part, u.grp) AS a
          CROSS JOIN LATERAL (SELECT c.* FROM queend.cursors c WHERE c.partition_id = a.part AND c.group_id = a.grp FOR NO KEY UPDATE) AS k)
    SELECT array_agg(c.ord), array_agg(c.committed + c.n), array_agg(w.row_base),
           array_agg(COALESCE((SELECT l.base + l.n FROM queend.log l WHERE l.partition_id = c.part AND l.base >= w.last_base
                                ORDER BY l.base DESC LIMIT 1), 0)),
           array_agg(c.committed + c.n = c.lease_end)
      INTO v_ord, v_end, v_row, v_head, v_full
      FROM held c
      CROSS JOIN LATERAL (
        SELECT max(r.base) AS last_base, CASE WHEN max(r.base + r.n) = c.committed + c.n + 1 THEN c.committed + c.n + 1 ELSE max(r.base) END AS row_base,
               substr(string_agg(CASE WHEN r.base > c.committed THEN r.ids ELSE substr(r.ids, (16 * (c.committed + 1 - r.base))::int + 1) END, ''), 1, 16 * c.n) AS ids
          FROM (SELECT l.base, l.n, l.ids FROM queend.log l WHERE l.partition_id = c.part AND l.base >= c.row_base
                   AND l.base <= c.committed + c.n AND l.base + l.n > c.committed + 1 ORDER BY l.base) AS r) AS w
     WHERE c.lease_id = c.lease AND c.lease_until > v_now AND c.committed + c.n <= c.lease_end AND rtrim(c.status, '\x00') = '' AND w.ids = c.ids
       AND c.beyond IS NULL;

    IF v_ord IS NOT NULL THEN
        RETURN QUERY
        WITH moved AS (
            INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_until)      -- by the primary key, see pop
            SELECT p_part[c.ord], p_group[c.ord], c.committed, c.row_base, CASE WHEN c.whole THEN 0 ELSE 1 END
              FROM unnest(v_ord, v_end, v_row, v_full) AS c (ord, committed, row_base, whole)
            ON CONFLICT (partition_id, group_id) DO UPDATE
               SET committed   = excluded.committed, row_base = excluded.row_base, consumed_at = v_now,
                   lease_until = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.lease_until END,
                   lease_id    = CASE WHEN excluded.lease_until = 0 THEN '00000000-0000-0000-0000-000000000000' ELSE k.lease_id END,
                   retries     = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.retries END)
        SELECT c.ord - 1, 0::smallint,
               CASE WHEN c.whole THEN set_byte(decode(repeat('01', p_n[c.ord]), 'hex'), p_n[c.ord] - 1, 5) ELSE decode(repeat('01', p_n[c.ord]), 'hex') END,
               c.whole, c.committed, c.head, 0::bigint
          FROM unnest(v_ord, v_end, v_head, v_full) AS c (ord, committed, head, whole);
        IF cardinality(v_ord) = cardinality(p_part) THEN
            RETURN;
        END IF;
    END IF;

    FOR i IN SELECT a.ord FROM unnest(p_part, p_group) WITH ORDINALITY AS a (part, grp, ord)
              WHERE v_ord IS NULL OR a.ord <> ALL (v_ord) ORDER BY a.part, a.grp, a.ord LOOP
        RETURN QUERY
        SELECT i - 1, g.status, g.codes, g.released, g.committed, g.head, g.retry_until
          FROM queend.ack_group(p_part[i], p_group[i], p_lease[i], p_n[i], p_ids[i], p_status[i], p_retry_limit[i], p_retry_delay_us[i],
                                ARRAY(SELECT f.idx FROM unnest(f_row, f_idx) WITH ORDINALITY AS f (r, idx, o) WHERE f.r = i - 1 ORDER BY f.o),
                                ARRAY(SELECT f.error FROM unnest(f_row, f_error) WITH ORDINALITY AS f (r, error, o) WHERE f.r = i - 1 ORDER BY f.o)) AS g;
    END LOOP;
END $$;
