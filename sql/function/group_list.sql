-- Every consumer group of every queue that has a cursor, by name and queue. members: its cursors; lag: messages it has not
-- consumed; newest: the longest-stored of the newest messages of the partitions it lags in (NULL: it lags in none).
CREATE OR REPLACE FUNCTION queend.group_list()
RETURNS TABLE (name text, queue text, mode text, start_at bigint, created_at timestamptz, members bigint, lagging bigint, lag bigint, newest bigint, consumed boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, g.mode, g.start_at, g.created_at, s.members, s.lagging, s.lag, s.newest, s.consumed
      FROM queend.consumer_groups g
      JOIN queend.queues q ON q.id = g.queue_id
      JOIN (SELECT k.group_id, count(*) AS members, count(*) FILTER (WHERE k.head > k.next) AS lagging, sum(k.head - k.next)::bigint AS lag,
                   min(k.head_at) FILTER (WHERE k.head > k.next) AS newest, bool_or(k.consumed_at IS NOT NULL) AS consumed
              FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x), NULL) AS k GROUP BY k.group_id) AS s ON s.group_id = g.id
     ORDER BY g.name, q.name;
END $$;
