-- Log rows by offset, for a read without a group: nothing is claimed and nothing moves. One element of the arrays per
-- entry asked for: queue and partition by name, the first offset wanted, and most bytes; p_total: most bytes of all.
-- At least one result row per entry, in order. status 0: read; 1: no such queue; 2: the offset lies below floor or above
-- head. A partition that was never written has head and floor 0. The arrays hold the log rows from the one with the first
-- offset on, at most 1000 of them per result row, so a long answer has several result rows per entry; NULL: none.
-- One snapshot: what is told of the marks is true of the rows. Bytes are of unpacked bodies (body_size.sql) and 32 per record
-- (ids and what an answer has around a payload); the first row of an entry comes however large it is, while any are left.
CREATE OR REPLACE FUNCTION queend.read_rows(p_queue text[], p_partition text[], p_offset bigint[], p_max bigint[], p_total bigint)
RETURNS TABLE (ord int, status int, head bigint, floor bigint, base bigint[], n int[], created_at bigint[], ids bytea[], body bytea[], meta bytea[])
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_total bigint := p_total;
    v_left  bigint;
    v_at    bigint;
    v_rows  int;
    v_size  bigint;
    e       record;
BEGIN
    FOR e IN
        SELECT u.ord::int - 1 AS ord, q.id AS queue, p.id AS part, u.start, u.most, COALESCE(h.head, 0) AS head, COALESCE(f.floor, 0) AS floor
          FROM unnest(p_queue, p_partition, p_offset, p_max) WITH ORDINALITY AS u (queue, partition, start, most, ord)
          LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
          LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true
          LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
          LEFT JOIN LATERAL (SELECT queend.head(p.id) AS head WHERE p.id IS NOT NULL) AS h ON true
         ORDER BY u.ord
    LOOP
        ord := e.ord;
        head := e.head;
        floor := e.floor;
        status := CASE WHEN e.queue IS NULL THEN 1 WHEN e.start < e.floor OR e.start > e.head THEN 2 ELSE 0 END;
        v_left := LEAST(e.most, v_total);
        IF status <> 0 OR e.start >= e.head OR v_left <= 0 THEN
            base := NULL; n := NULL; created_at := NULL; ids := NULL; body := NULL; meta := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        v_at := COALESCE((SELECT CASE WHEN l.base + l.n > e.start THEN l.base END FROM queend.log l
                           WHERE l.partition_id = e.part AND l.base <= e.start AND l.base >= e.floor ORDER BY l.base DESC LIMIT 1), e.start);
        LOOP
            SELECT array_agg(c.base), array_agg(c.n), array_agg(c.created_at), array_agg(c.ids), array_agg(c.body), array_agg(c.meta),
                   count(*), sum(c.size), max(c.base + c.n)
              INTO base, n, created_at, ids, body, meta, v_rows, v_size, v_at
              FROM (SELECT r.*, sum(r.size) OVER (ORDER BY r.base ROWS UNBOUNDED PRECEDING) AS run
                      FROM (SELECT l.base, l.n, l.created_at, l.ids, l.body, l.meta, queend.body_size(l.body) + 32 * l.n AS size FROM queend.log l
                             WHERE l.partition_id = e.part AND l.base >= v_at AND l.base < e.head ORDER BY l.base LIMIT 1000) AS r) AS c
             WHERE c.run - c.size < v_left;
            RETURN NEXT;
            EXIT WHEN v_rows = 0;
            v_total := v_total - v_size;
            v_left := v_left - v_size;
            EXIT WHEN v_rows < 1000 OR v_left <= 0 OR v_at >= e.head;
        END LOOP;
    END LOOP;
END $$;
