-- Pauses that end, and records that are due, between two moments (µs), the earliest first, at most p_limit behind (p_from, p_after): how
-- daemons learn when to look at a partition again, whoever made it wait.
-- at: the moment; group_id: whose, 0 = every group's.
CREATE OR REPLACE FUNCTION queend.waking(p_from bigint, p_after int, p_to bigint, p_limit int)
RETURNS TABLE (partition_id int, queue_id int, group_id int, at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT w.part, p.queue_id, w.grp, w.at
      FROM ((SELECT u.partition_id AS part, u.group_id AS grp, u.ends_at AS at FROM queend.pauses u
              WHERE (u.ends_at, u.partition_id) > (p_from, p_after) AND u.ends_at <= p_to ORDER BY u.ends_at, u.partition_id LIMIT p_limit)
            UNION ALL
            (SELECT s.partition_id, 0, s.due FROM queend.schedule s
              WHERE (s.due, s.partition_id) > (p_from, p_after) AND s.due <= p_to ORDER BY s.due, s.partition_id LIMIT p_limit)) AS w
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = w.part OFFSET 0) AS p
     ORDER BY w.at, w.part LIMIT p_limit;
END $$;
