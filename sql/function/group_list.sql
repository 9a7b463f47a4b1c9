-- Every consumer group of every queue, by name and queue, from the kept figures; one that polls stands here before its first message, without
-- members. members: its cursors; lag:
-- messages it has not consumed; newest: the longest-stored of the newest messages of the partitions it lags in (NULL: it lags
-- in none).
CREATE OR REPLACE FUNCTION queend.group_list()
RETURNS TABLE (name text, queue text, mode text, start_at bigint, created_at timestamptz, members bigint, lagging bigint, lag bigint, newest bigint, consumed boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, g.mode, g.start_at, g.created_at, COALESCE(s.members, 0), COALESCE(s.lagging, 0), COALESCE(s.lag, 0), n.newest, COALESCE(s.consumed, 0) > 0
      FROM (SELECT x.* FROM queend.consumer_groups x ORDER BY x.id) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      LEFT JOIN LATERAL (SELECT x.* FROM queend.stat_groups x WHERE x.group_id = g.id OFFSET 0) AS s ON true
      LEFT JOIN LATERAL (SELECT c.newest FROM queend.stat_cursors c WHERE c.group_id = g.id AND c.lag > 0 ORDER BY c.newest LIMIT 1) AS n ON true
     ORDER BY g.name, q.name;
END $$;
