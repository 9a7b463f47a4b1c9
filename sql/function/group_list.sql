-- Every consumer group of every queue that has a cursor, by name and queue, from the kept figures. members: its cursors; lag:
-- messages it has not consumed; newest: the longest-stored of the newest messages of the partitions it lags in (NULL: it lags
-- in none).
CREATE OR REPLACE FUNCTION queend.group_list()
RETURNS TABLE (name text, queue text, mode text, start_at bigint, created_at timestamptz, members bigint, lagging bigint, lag bigint, newest bigint, consumed boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, g.mode, g.start_at, g.created_at, s.members, s.lagging, s.lag, n.newest, s.consumed > 0
      FROM (SELECT x.* FROM queend.stat_groups x ORDER BY x.group_id) AS s
      CROSS JOIN LATERAL (SELECT x.* FROM queend.consumer_groups x WHERE x.id = s.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      LEFT JOIN LATERAL (SELECT c.newest FROM queend.stat_cursors c WHERE c.group_id = s.group_id AND c.lag > 0 ORDER BY c.newest LIMIT 1) AS n ON true
     WHERE s.members > 0
     ORDER BY g.name, q.name;
END $$;
