-- Partitions with a record stored at or after a moment, in order of creation, a page at a time. One element of the arrays
-- per entry: the queue by name; p_since in µs, NULL: all of its partitions, also those never written; p_after: the page
-- begins behind this partition id, 0: at the first; p_limit: most partitions.
-- The first result row (ord -1) has in written_at the moment up to which every write is in this answer (safe_time.sql);
-- where that is unknown the earliest p_since, or 0, which is true in any case. Then per entry, in order: its partitions
-- (status 0), and one row that ends it: status 1 no such queue, 2 there is no more, 3 there may be more behind partition_id.
-- written_at: of the newest record, NULL when none is there. head: the next offset the partition will give.
--   1. What was written lately is found by time (written_since), at a cost of what was written since, whatever else is stored.
--   2. When that is much, the queue's partitions are walked, one probe of the newest row each, at most 20 000 per call, or
--      20 per entry: then a page may end before it is full.
CREATE OR REPLACE FUNCTION queend.partitions_changed(p_queue text[], p_since bigint[], p_after int[], p_limit int[])
RETURNS TABLE (ord int, status int, partition_id int, name text, head bigint, floor bigint, written_at bigint)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    walk    CONSTANT int := GREATEST(20000 / GREATEST(cardinality(p_queue), 1), 20);
    v_known bigint;      -- the moment that v_parts is of
    v_parts int[];
    v_page  int[];
    v_last  int;         -- where the next page begins behind
    e       record;
BEGIN
    RETURN QUERY SELECT -1, 0, 0, ''::text, 0::bigint, 0::bigint,
                        COALESCE(queend.safe_time(), (SELECT CASE WHEN count(*) = count(s) THEN min(s) END FROM unnest(p_since) AS s), 0);
    FOR e IN SELECT u.ord::int - 1 AS ord, q.id AS queue, u.since, u.after, u.most
               FROM unnest(p_queue, p_since, p_after, p_limit) WITH ORDINALITY AS u (queue, since, after, most, ord)
               LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
              ORDER BY u.ord
    LOOP
        IF e.queue IS NULL THEN
            RETURN QUERY SELECT e.ord, 1, 0, ''::text, 0::bigint, 0::bigint, NULL::bigint;
            CONTINUE;
        END IF;
        v_last := NULL;
        IF e.since IS NULL THEN
            SELECT array_agg(p.id) INTO v_page
              FROM (SELECT x.id FROM queend.partitions x WHERE x.queue_id = e.queue AND x.id > e.after ORDER BY x.id LIMIT e.most + 1) AS p;
        ELSE
            IF v_known IS DISTINCT FROM e.since THEN
                v_known := e.since;
                v_parts := queend.written_since(e.since, 100000);
            END IF;
            IF v_parts IS NOT NULL THEN
                SELECT array_agg(r.id) INTO v_page
                  FROM (SELECT u.id FROM unnest(v_parts) WITH ORDINALITY AS u (id, ord)
                         CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
                         WHERE u.id > e.after AND p.queue_id = e.queue ORDER BY u.ord LIMIT e.most + 1) AS r;
            ELSE
                SELECT array_agg(r.id ORDER BY r.id) FILTER (WHERE r.written), CASE WHEN count(*) = walk THEN max(r.id) END INTO v_page, v_last
                  FROM (SELECT p.id, COALESCE(t.created_at >= e.since, false) AS written
                          FROM (SELECT x.id FROM queend.partitions x WHERE x.queue_id = e.queue AND x.id > e.after ORDER BY x.id LIMIT walk) AS p
                          LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
                          LEFT JOIN LATERAL (SELECT l.created_at FROM queend.log l
                                              WHERE l.partition_id = p.id AND l.base >= COALESCE(f.floor, 0) ORDER BY l.base DESC LIMIT 1) AS t ON true) AS r;
            END IF;
        END IF;
        IF cardinality(v_page) > e.most THEN
            v_last := v_page[e.most];
        END IF;
        RETURN QUERY
        SELECT e.ord, 0, p.id, p.name, COALESCE(t.head, f.floor, 0), COALESCE(f.floor, 0), t.created_at
          FROM unnest(v_page[1:e.most]) WITH ORDINALITY AS u (id, ord)
         CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
          LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
          LEFT JOIN LATERAL (SELECT l.base + l.n AS head, l.created_at FROM queend.log l
                              WHERE l.partition_id = p.id AND l.base >= COALESCE(f.floor, 0) ORDER BY l.base DESC LIMIT 1) AS t ON true
         ORDER BY u.ord;
        RETURN QUERY SELECT e.ord, CASE WHEN v_last IS NULL THEN 2 ELSE 3 END, COALESCE(v_last, 0), ''::text, 0::bigint, 0::bigint, NULL::bigint;
    END LOOP;
END $$;
