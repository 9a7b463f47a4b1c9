-- Where a consumer group stands, by queue, as GET /api/v1/consumer-groups/:group shows it; at most 10 000 partitions of each.
CREATE OR REPLACE FUNCTION queen.get_consumer_group_details_v1(consumer_group text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(jsonb_object_agg(x.queue, jsonb_build_object('partitions', x.partitions)), '{}')
      FROM (SELECT s.queue, jsonb_agg(jsonb_build_object(
                       'partition', s.partition, 'workerId', s.lease_id, 'lastConsumedAt', queend.iso(s.consumed_at), 'totalConsumed', s.consumed, 'offset', s.next, 'head', s.head,
                       'offsetLag', s.head - s.next - s.beyond, 'timeLagSeconds', COALESCE(GREATEST(queend.now_us() - s.oldest, 0) / 1000000, 0), 'leaseActive', s.leased) ORDER BY s.partition_id) AS partitions
              FROM queend.group_show(consumer_group, 10000) AS s GROUP BY s.queue) AS x
$$;
