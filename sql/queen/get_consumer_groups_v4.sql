-- Every consumer group of every queue that has a cursor, as GET /api/v1/consumer-groups shows it, but of this moment: every cursor is visited.
-- totalLag is exact.
CREATE OR REPLACE FUNCTION queen.get_consumer_groups_v4() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'name', g.name, 'topics', jsonb_build_array(q.name), 'queueName', q.name, 'members', s.members, 'partitionsWithLag', s.lagging, 'totalLag', s.lag,
               'maxTimeLag', s.age, 'state', CASE WHEN s.age > 300 THEN 'Lagging' WHEN s.consumed THEN 'Stable' ELSE 'Dead' END,
               'subscriptionMode', CASE WHEN g.start_at IS NOT NULL THEN g.mode END, 'subscriptionTimestamp', queend.iso(g.start_at),
               'subscriptionCreatedAt', CASE WHEN g.start_at IS NOT NULL THEN g.created_at END) ORDER BY g.name, q.name), '[]')
      FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
      JOIN (SELECT k.group_id, count(*) AS members, count(*) FILTER (WHERE k.head > k.next + k.beyond) AS lagging, sum(k.head - k.next - k.beyond)::bigint AS lag, bool_or(k.consumed_at IS NOT NULL) AS consumed,
                   COALESCE(GREATEST(queend.now_us() - min(k.head_at) FILTER (WHERE k.head > k.next + k.beyond), 0) / 1000000, 0) AS age
              FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x), NULL) AS k GROUP BY k.group_id) AS s ON s.group_id = g.id
$$;
