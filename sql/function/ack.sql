-- Acknowledgments by id: move cursors and end leases. In: ids and a status for each. Out: a result code per id. Owns
-- the progress in queend.cursors, and the queend.pauses of batches that wait for a retry. Locks: cursors ascending;
-- then pauses and dead letters.

-- Acknowledges many batches at once. Each element is one (partition, group, lease).
--   p_lease                 NULL: the lease that is live
--   p_group                 NULL: an unknown group
--   p_ids                   16 bytes per record
--   p_status                one byte per record: 0 completed, 1 failed, 2 dlq, 3 retry, 4 completed with every record
--                           before it. A status plus 16 is for all records that the lease still has. Such a status is
--                           the only one, and its id is ignored. Then codes has a byte for each of those records.
--   p_retry_limit           of the queue
--   p_retry_delay_us        as the acknowledgment asks, NULL: as the queue's options say
--   f_row, f_idx, f_error   error texts of failed records and dead letters: 0-based element, 0-based record, text.
-- Returns one row per element: status 0, or 2 if the group has no cursor. The column codes has one byte per record, a
-- sum: 1 success, 2 dead-lettered, 4 this record released the lease, 8 message not found. 16 lease expired or released,
-- 32 already done, 64 too late, 128 too many gaps. The other columns: released, the new cursor (committed), head,
-- retry_until. A stale catalogue version returns one row with ord -1, status 9 and the version in committed; then
-- nothing is done.
--
-- Nearly all acknowledgments complete records in the order of delivery: their ids are the first ids of the window under
-- lease. These are recognized and applied together; ack_group decides the others one by one. All cursors are locked at
-- the start, in ascending order. The sort stands below the join: otherwise the planner would walk the whole index of
-- cursors for its order.
CREATE OR REPLACE FUNCTION queend.ack(p_version bigint, p_part int[], p_group int[], p_lease uuid[], p_n int[],
    p_ids bytea[], p_status bytea[], p_retry_limit int[], p_retry_delay_us bigint[], f_row int[], f_idx int[],
    f_error text[])
RETURNS TABLE (ord int, status smallint, codes bytea, released boolean, committed bigint, head bigint,
               retry_until bigint)
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
          FROM (SELECT *
                  FROM unnest(p_part, p_group, p_lease, p_n, p_ids, p_status) WITH ORDINALITY AS u (part, grp, lease, n,
                          ids, status, ord)
                 ORDER BY u.part, u.grp) AS a
          CROSS JOIN LATERAL (SELECT c.* FROM queend.cursors c
                               WHERE c.partition_id = a.part AND c.group_id = a.grp FOR NO KEY UPDATE) AS k)
    SELECT array_agg(c.ord), array_agg(c.committed + c.n), array_agg(w.row_base),
           array_agg(COALESCE((SELECT l.base + l.n FROM queend.log l
                                WHERE l.partition_id = c.part AND l.base >= w.last_base
                                ORDER BY l.base DESC LIMIT 1), 0)),
           array_agg(c.committed + c.n = c.lease_end)
      INTO v_ord, v_end, v_row, v_head, v_full
      FROM held c
      CROSS JOIN LATERAL (
        SELECT max(r.base) AS last_base,
               CASE WHEN max(r.base + r.n) = c.committed + c.n + 1 THEN c.committed + c.n + 1
                    ELSE max(r.base) END AS row_base,
               substr(string_agg(CASE WHEN r.base > c.committed THEN r.ids
                                      ELSE substr(r.ids, (16 * (c.committed + 1 - r.base))::int + 1) END, ''), 1,
                      16 * c.n) AS ids
          FROM (SELECT l.base, l.n, l.ids FROM queend.log l WHERE l.partition_id = c.part AND l.base >= c.row_base
                   AND l.base <= c.committed + c.n AND l.base + l.n > c.committed + 1 ORDER BY l.base) AS r) AS w
     WHERE c.lease_id = c.lease AND c.lease_until > v_now AND c.committed + c.n <= c.lease_end
       AND rtrim(c.status, E'\\x00') = '' AND w.ids = c.ids
       AND c.beyond IS NULL;

    IF v_ord IS NOT NULL THEN
        RETURN QUERY
        WITH moved AS (
            -- On conflict the primary key finds the cursor, see pop.
            INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_until)
            SELECT p_part[c.ord], p_group[c.ord], c.committed, c.row_base, CASE WHEN c.whole THEN 0 ELSE 1 END
              FROM unnest(v_ord, v_end, v_row, v_full) AS c (ord, committed, row_base, whole)
            ON CONFLICT (partition_id, group_id) DO UPDATE
               SET committed   = excluded.committed, row_base = excluded.row_base, consumed_at = v_now,
                   lease_until = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.lease_until END,
                   lease_id    = CASE WHEN excluded.lease_until = 0 THEN '00000000-0000-0000-0000-000000000000'
                                      ELSE k.lease_id END,
                   retries     = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.retries END)
        SELECT c.ord - 1, 0::smallint,
               CASE WHEN c.whole THEN set_byte(decode(repeat('01', p_n[c.ord]), 'hex'), p_n[c.ord] - 1, 5)
                    ELSE decode(repeat('01', p_n[c.ord]), 'hex') END,
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
          FROM queend.ack_group(p_part[i], p_group[i], p_lease[i], p_n[i], p_ids[i], p_status[i], p_retry_limit[i],
                                p_retry_delay_us[i],
                                ARRAY(SELECT f.idx FROM unnest(f_row, f_idx) WITH ORDINALITY AS f (r, idx, o)
                                       WHERE f.r = i - 1 ORDER BY f.o),
                                ARRAY(SELECT f.error FROM unnest(f_row, f_error) WITH ORDINALITY AS f (r, error, o)
                                       WHERE f.r = i - 1 ORDER BY f.o)) AS g;
    END LOOP;
END $$;

-- Acknowledges some records of one partition for one group, by all rules. Takes the parameters and returns the columns
-- of ack.
--
-- 1. A given lease must be live; otherwise every record answers 16, but a record that the partition does not hold
--    answers 8. If no lease is given, the group must hold a live one. A record outside its window answers 16, unless
--    the group has done it.
-- 2. A record that is done already is not changed. It answers 33 if it is completed again, and 64 (no success) for
--    failed, dlq and retry. A record that is gone counts as done, whatever the status: 33 (ack_found).
-- 3. One decision per call covers all failed records: with retries left they all go back, otherwise they are all
--    dead-lettered.
-- 4. `stop` is the lowest record that goes back (failed with retries left, or `retry`). No status from there on takes
--    effect in this call: those records are delivered again with it, in their order. Records that other calls completed
--    stay done.
-- 5. Below stop, completed and dead-lettered records are done. Records before them are done only if the acknowledgment
--    is cumulative.
-- 6. The cursor moves behind the records that are done without a gap, and only forward. Records done beyond a gap are
--    kept with the cursor (cursors.beyond) and are not delivered again.
-- 7. The lease is released when a record goes back (failed records count a retry) or when the cursor reaches the end of
--    the window. A whole window or a dead letter resets the retry count.
-- 8. A status of 16 and more gives that status and error to each record of the lease's window that is not done.
-- 9. For a group that conflates (pop_newest), every record that is done completes all records before it, and a whole
--    window is its last record.
-- 10. Records that go back wait as long as the acknowledgment asks. If it asks for nothing (NULL), failed records wait
--    as the options of the queue say (retry_pause), and others are delivered again at once. The partition waits as a
--    whole, so order is kept.
CREATE OR REPLACE FUNCTION queend.ack_group(p_part int, p_group int, p_lease uuid, p_n int, p_ids bytea, p_status bytea,
    p_retry_limit int, p_retry_delay_us bigint, f_idx int[], f_error text[],
    OUT status smallint, OUT codes bytea, OUT released boolean, OUT committed bigint, OUT head bigint,
    OUT retry_until bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    none    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_now   bigint := queend.now_us();
    v_found bigint[];         -- offset of record i, -1 = not here, -2 = not under the lease, -3 = gone
    v_reach bigint;           -- last offset of the live lease; without one, the committed offset
    v_done  int8multirange;   -- records that this call completes
    v_upto  bigint;           -- last record that a cumulative acknowledgment completes
    v_last  bigint;           -- the record that completed the window
    v_stop  bigint;
    v_back  boolean;          -- failed records go back
    v_dead  int[];            -- places of the records to dead-letter
    v_pause bigint := 0;      -- wait of the records that go back, in µs
    v_newest boolean;         -- the group conflates
    v_new   record;
    k       queend.cursors;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    v_newest := k.conflates IS TRUE;
    status := CASE WHEN k.partition_id IS NULL THEN 2 ELSE 0 END;
    released := false;
    committed := COALESCE(k.committed, -1);
    retry_until := 0;
    head := queend.head(p_part);
    IF get_byte(p_status, 0) < 16 THEN
        v_found := queend.ack_found(k, p_part, p_lease, p_ids, v_now);
    ELSIF k.lease_id = p_lease AND k.lease_until > v_now AND k.committed < k.lease_end THEN
        v_found := CASE WHEN v_newest THEN ARRAY[k.lease_end]      -- the record that was delivered
                        ELSE ARRAY(SELECT o FROM generate_series(k.committed + 1, k.lease_end) AS o
                                    WHERE (k.beyond @> o) IS NOT TRUE ORDER BY o) END;
        p_n := cardinality(v_found);
        p_status := decode(repeat('0' || get_byte(p_status, 0) - 16, p_n), 'hex');
        f_error := CASE WHEN cardinality(f_error) > 0 THEN array_fill(f_error[1], ARRAY[p_n]) ELSE f_error END;
        f_idx := ARRAY(SELECT generate_series(0, cardinality(f_error) - 1));
    ELSE
        codes := E'\\x10';
        RETURN;
    END IF;

    IF status = 2 OR p_lease IS NOT NULL AND (k.lease_id <> p_lease OR k.lease_until <= v_now) THEN
        -- leases_moot ended the lease, and the daemon may not know that yet.
        released := status = 0 AND k.lease_id <> none AND k.lease_until = 0;
        SELECT string_agg(CASE f.at WHEN -3 THEN E'\\x21'::bytea WHEN -1 THEN E'\\x08' ELSE E'\\x10' END,
                          '' ORDER BY f.ord)
          INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
        RETURN;
    END IF;
    v_reach := CASE WHEN k.lease_until > v_now THEN k.lease_end ELSE k.committed END;
    IF v_reach < ANY (v_found) THEN
        v_found := ARRAY(SELECT CASE WHEN f.at > v_reach
                                          AND (get_byte(p_status, f.ord::int - 1) = 4 OR (k.beyond @> f.at) IS NOT TRUE)
                                     THEN -2 ELSE f.at END
                           FROM unnest(v_found) WITH ORDINALITY AS f (at, ord) ORDER BY f.ord);
    END IF;

    v_back := k.retries < p_retry_limit;
    SELECT min(f.at) INTO v_stop FROM unnest(v_found) WITH ORDINALITY AS f (at, ord)
     WHERE f.at > k.committed AND (k.beyond @> f.at) IS NOT TRUE
       AND (get_byte(p_status, f.ord::int - 1) = 3 OR v_back AND get_byte(p_status, f.ord::int - 1) = 1);
    SELECT range_agg(int8range(f.at, f.at, '[]')), max(f.at) FILTER (WHERE v_newest OR f.status = 4),
           array_agg(f.i ORDER BY f.at) FILTER (WHERE f.status IN (1, 2))
      INTO v_done, v_upto, v_dead
      FROM (SELECT u.at, u.ord::int - 1 AS i, get_byte(p_status, u.ord::int - 1) AS status
              FROM unnest(v_found) WITH ORDINALITY AS u (at, ord)) AS f
     WHERE f.at > k.committed AND (v_stop IS NULL OR f.at < v_stop)
       AND (f.status = 4 OR (k.beyond @> f.at) IS NOT TRUE);
    IF v_upto IS NOT NULL THEN
        v_done := v_done + int8multirange(int8range(k.committed + 1, v_upto, '[]'));
    END IF;
    IF -3 = ANY (v_found) AND k.lease_until > v_now THEN
        -- Records that are gone may complete the window. For a group that conflates they were all of it.
        v_done := COALESCE(v_done, '{}')
                  + CASE WHEN v_newest AND v_stop IS NULL
                         THEN int8multirange(int8range(k.committed + 1, GREATEST(k.lease_end, k.committed) + 1))
                         ELSE '{}' END;
    END IF;
    v_back := v_back AND EXISTS (SELECT 1 FROM unnest(v_found) WITH ORDINALITY AS f (at, ord)
                                  WHERE f.at >= v_stop AND (k.beyond @> f.at) IS NOT TRUE
                                    AND get_byte(p_status, f.ord::int - 1) = 1);
    SELECT w.* INTO v_new FROM queend.done_with(p_part, p_group, k.committed, k.beyond, v_done) AS w;
    IF v_new.too_many THEN
        codes := decode(repeat('80', p_n), 'hex');
        RETURN;
    END IF;
    committed := v_new.committed;
    IF v_dead IS NOT NULL THEN
        PERFORM queend.dead_letter(p_part, p_group, array_agg(v_found[d.i + 1] ORDER BY d.ord),
                                   array_agg(COALESCE(e.error, 'Retries exhausted') ORDER BY d.ord), k.retries)
           FROM unnest(v_dead) WITH ORDINALITY AS d (i, ord)
           LEFT JOIN unnest(f_idx, f_error) AS e (i, error) ON e.i = d.i;
    END IF;
    -- Passing the end of the window completes it; without a window there is nothing to release.
    released := k.lease_until > 0 AND (v_stop IS NOT NULL OR committed >= k.lease_end AND committed > k.committed);
    IF v_stop IS NOT NULL THEN
        v_pause := COALESCE(p_retry_delay_us, CASE WHEN v_back THEN queend.retry_pause(p_part, k.retries) ELSE 0 END);
    END IF;
    retry_until := CASE WHEN v_pause > 0 THEN v_now + v_pause WHEN k.retry_until > v_now THEN k.retry_until ELSE 0 END;
    IF v_pause > 0 THEN
        INSERT INTO queend.pauses (ends_at, partition_id, group_id) VALUES (retry_until, p_part, p_group)
        ON CONFLICT (partition_id, group_id) DO UPDATE SET ends_at = excluded.ends_at;
    END IF;
    UPDATE queend.cursors c
       SET committed   = ack_group.committed,
           beyond      = v_new.beyond,
           row_base    = CASE WHEN ack_group.committed = k.committed THEN k.row_base
                              ELSE COALESCE((SELECT l.base FROM queend.log l
                                              WHERE l.partition_id = p_part AND l.base <= ack_group.committed + 1
                                              ORDER BY l.base DESC LIMIT 1), 0) END,
           lease_id    = CASE WHEN released THEN none ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retry_until = COALESCE(NULLIF(ack_group.retry_until, 0), k.retry_until),
           retries     = CASE WHEN v_back THEN k.retries + 1
                              WHEN v_dead IS NOT NULL OR v_stop IS NULL AND ack_group.committed >= k.lease_end THEN 0
                              ELSE k.retries END,
           consumed_at = v_now
     WHERE c.partition_id = p_part AND c.group_id = p_group AND (v_done IS NOT NULL OR v_stop IS NOT NULL);

    -- Code 4 (released) goes to the records that went back and to those left alone because of them. If no record went
    -- back, it goes to the record that completed the window.
    v_last := CASE WHEN released AND v_stop IS NULL
                        THEN (SELECT max(f) FROM unnest(v_found) AS f WHERE f > k.committed AND f <= committed) END;
    SELECT string_agg(CASE WHEN f.at = -3
                               THEN CASE WHEN released AND v_last IS NULL THEN E'\\x25'::bytea ELSE E'\\x21' END
                           WHEN f.at = -2 THEN E'\\x10'
                           WHEN f.at < 0 THEN E'\\x08'
                           WHEN f.at <= k.committed OR k.beyond @> f.at AND get_byte(p_status, f.ord::int - 1) <> 4
                               THEN CASE WHEN get_byte(p_status, f.ord::int - 1) IN (0, 4) THEN E'\\x21'::bytea
                                         ELSE E'\\x40' END
                           WHEN f.at >= v_stop THEN CASE WHEN released THEN E'\\x05'::bytea ELSE E'\\x01' END
                           WHEN f.ord - 1 = ANY (v_dead) THEN E'\\x03'
                           WHEN f.at = v_last THEN E'\\x05'
                           ELSE E'\\x01' END, '' ORDER BY f.ord)
      INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
END $$;

-- Finds the records of an acknowledgment. Returns the offset of each id, as ack_offsets does, or -3 if the record is
-- gone. Deleted records are known by queend.holes. Retention leaves no trace of a record that it removes. So an unknown
-- id counts as gone if the lease has lost records to retention, or ended because of that or later (lease_was).
CREATE OR REPLACE FUNCTION queend.ack_found(k queend.cursors, p_part int, p_lease uuid, p_ids bytea, p_now bigint)
RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    none    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_found bigint[] := queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ids);
    v_floor bigint := CASE WHEN -1 = ANY (v_found) THEN (SELECT f.floor FROM queend.floors f
                                                          WHERE f.partition_id = p_part) END;
    v_gone  boolean := false;
BEGIN
    IF v_floor > 0 THEN
        v_gone := CASE WHEN COALESCE(p_lease, k.lease_id) = k.lease_id AND k.lease_id <> none AND k.lease_until = 0
                            THEN true
                       WHEN COALESCE(p_lease, k.lease_id) = k.lease_id AND k.lease_until > p_now
                            THEN v_floor > k.committed + 1
                       ELSE p_lease IS NOT NULL AND queend.lease_was(p_lease, p_part, k.group_id) END;
    END IF;
    IF v_gone OR (SELECT c.holes FROM queend.catalog c) THEN
        RETURN ARRAY(SELECT CASE WHEN f.at = -1 AND v_gone THEN -3
                                 WHEN EXISTS (SELECT FROM queend.holes h
                                               WHERE h.partition_id = p_part AND h.record_offset = f.at) THEN -3
                                 ELSE f.at END
                       FROM unnest(v_found) WITH ORDINALITY AS f (at, ord) ORDER BY f.ord);
    END IF;
    RETURN v_found;
END $$;

-- Returns the offset of each id, -1 if the partition does not hold it. Searches the last delivered window first, one or
-- two rows; only ids that are missing there are searched in the whole partition. If records share an id (no push stores
-- such records, but a log may hold them), the first uncommitted one counts, else the last. An id that is named twice
-- gets the second such record the second time, and so on. A window of more than 10 000 records is one of a group that
-- conflates: only its last row is searched first, because its last record was delivered.
CREATE OR REPLACE FUNCTION queend.ack_offsets(p_part int, p_row bigint, p_committed bigint, p_end bigint, p_ids bytea)
RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_found bigint[];
    v_rest  bytea;
BEGIN
    SELECT array_agg(CASE WHEN cardinality(w.at) > 1
                               THEN w.at[LEAST((SELECT count(*) FROM queend.id_spread(p_ids) AS x
                                                 WHERE x.id = i.id AND x.ord <= i.ord), cardinality(w.at))]
                          ELSE COALESCE(w.at[1], -1) END ORDER BY i.ord),
           string_agg(i.id, '' ORDER BY i.ord) FILTER (WHERE w.at IS NULL)
      INTO v_found, v_rest
      FROM queend.id_spread(p_ids) AS i
      LEFT JOIN (SELECT m.ord, array_agg(m.at ORDER BY m.at) AS at
                   FROM queend.ids_match(p_part,
                                         CASE WHEN p_end - p_committed > 10000 THEN queend.row_of(p_part, p_end)
                                              ELSE p_row END, p_end + 1, p_ids) AS m
                  WHERE m.at > p_committed GROUP BY m.ord) AS w ON w.ord = i.ord;
    IF v_rest IS NULL THEN
        RETURN v_found;
    END IF;
    RETURN (SELECT array_agg(CASE WHEN v_found[i.ord + 1] >= 0 THEN v_found[i.ord + 1] ELSE COALESCE(f.found, -1) END
                             ORDER BY i.ord)
              FROM queend.id_spread(p_ids) AS i
              LEFT JOIN (SELECT substr(v_rest, 16 * r.ord + 1, 16) AS id,
                                COALESCE(min(r.found) FILTER (WHERE r.found > p_committed), max(r.found)) AS found
                           FROM queend.ids_find(p_part, v_rest) AS r GROUP BY 1) AS f ON f.id = i.id);
END $$;

-- Returns how long (µs) a batch waits that has just failed, p_failures times before, by the options of its queue. If
-- retryBackoff has steps: the step of that number; the last step repeats. If retryBackoff has no steps: initial *
-- multiplier ^ p_failures, at most max; jitter subtracts up to that share. If retryBackoff is NULL: retryDelay if it
-- was configured, else 0 (the batch is delivered again at once).
CREATE OR REPLACE FUNCTION queend.retry_pause(p_part int, p_failures int) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    q    record;
    b    jsonb;
    v_ms float8;
BEGIN
    SELECT x.retry_backoff, x.retry_delay, x.retry_delay_set INTO q
      FROM queend.partitions p
      CROSS JOIN LATERAL (SELECT y.* FROM queend.queues y WHERE y.id = p.queue_id OFFSET 0) AS x WHERE p.id = p_part;
    b := q.retry_backoff;
    IF b IS NULL THEN
        RETURN CASE WHEN q.retry_delay_set THEN q.retry_delay * 1000::bigint ELSE 0 END;
    END IF;
    IF b ? 'steps' THEN
        RETURN (b->'steps'->>LEAST(p_failures, jsonb_array_length(b->'steps') - 1))::bigint * 1000;
    END IF;
    -- The exponent is bounded: 1000 doublings are beyond every max, and beyond them a float8 overflows.
    v_ms := LEAST((b->>'initial')::float8 * exp(LEAST(p_failures * ln((b->>'multiplier')::float8), 600)),
                  (b->>'max')::float8);
    RETURN (v_ms * (1 - (b->>'jitter')::float8 * random()) * 1000)::bigint;
END $$;
