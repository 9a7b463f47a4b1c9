-- Partitions whose oldest message that a group has not consumed is older than so many seconds, oldest first, at most 10 000; of this moment: every
-- cursor is visited.
CREATE OR REPLACE FUNCTION queen.get_lagging_partitions_v1(min_lag_seconds int DEFAULT 3600) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'consumer_group', l.grp, 'queue_name', l.queue, 'partition_name', l.partition, 'partition_id', queend.partition_uuid(l.partition_id), 'worker_id', l.worker,
               'offset_lag', l.lag, 'time_lag_seconds', l.age, 'lag_hours', round(l.age / 3600.0, 2), 'oldest_unconsumed_at', queend.iso(l.oldest),
               'last_consumed_at', queend.iso(l.consumed_at)) ORDER BY l.oldest, l.grp, l.queue, l.partition_id), '[]')
      FROM (SELECT g.name AS grp, q.name AS queue, k.name AS partition, k.partition_id, CASE WHEN k.lease_until > queend.now_us() THEN k.lease_id END AS worker,
                   k.head - k.next - k.beyond AS lag, (queend.now_us() - o.oldest) / 1000000 AS age, o.oldest, k.consumed_at
              FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x), NULL) AS k
              JOIN queend.consumer_groups g ON g.id = k.group_id JOIN queend.queues q ON q.id = g.queue_id
              CROSS JOIN LATERAL (SELECT queend.record_stored(k.partition_id, k.next) AS oldest WHERE k.head > k.next + k.beyond OFFSET 0) AS o
             WHERE o.oldest < queend.now_us() - min_lag_seconds * 1000000::bigint
             ORDER BY o.oldest LIMIT 10000) AS l
$$;
