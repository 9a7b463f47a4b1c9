-- Head and floor of every partition of a queue in order of creation, a page at a time: behind partition id p_after, at most
-- p_limit. at: the first offset whose record was stored at or after p_at (µs), head when there is none, NULL when p_at is.
-- written_at: moment of the newest record, NULL when none is there.
CREATE OR REPLACE FUNCTION queend.offsets(p_queue int, p_after int, p_limit int, p_at bigint)
RETURNS TABLE (partition_id int, name text, head bigint, floor bigint, written_at bigint, at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.id, p.name, COALESCE(t.head, f.floor, 0), COALESCE(f.floor, 0), t.created_at,
           CASE WHEN p_at IS NULL THEN NULL
                WHEN COALESCE(t.created_at < p_at, true) THEN COALESCE(t.head, f.floor, 0)
                ELSE GREATEST(queend.offset_since(p.id, p_at), COALESCE(f.floor, 0)) END
      FROM (SELECT x.id, x.name FROM queend.partitions x WHERE x.queue_id = p_queue AND x.id > p_after ORDER BY x.id LIMIT p_limit) AS p
      LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
      LEFT JOIN LATERAL (SELECT l.base + l.n AS head, l.created_at FROM queend.log l
                              WHERE l.partition_id = p.id AND l.base >= COALESCE(f.floor, 0) ORDER BY l.base DESC LIMIT 1) AS t ON true
     ORDER BY p.id;
END $$;
