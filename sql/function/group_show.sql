-- Where a consumer group stands, in every queue that has one of the name: one row per cursor, by queue, at most p_limit of
-- each queue. oldest: when its oldest message that is not consumed was stored (NULL: it lags not). beyond: messages
-- behind `next` that are consumed all the same; consumed: how many it has consumed, wherever it was moved.
CREATE OR REPLACE FUNCTION queend.group_show(p_group text, p_limit bigint)
RETURNS TABLE (queue text, partition text, partition_id int, next bigint, head bigint, oldest bigint, consumed bigint, consumed_at bigint, lease_id uuid, leased boolean, beyond bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.name, k.name, k.partition_id, k.next, k.head, CASE WHEN k.head > k.next + k.beyond THEN queend.record_stored(k.partition_id, k.next) END,
           k.consumed, k.consumed_at, CASE WHEN k.lease_until > queend.now_us() THEN k.lease_id END, k.lease_until > queend.now_us(), k.beyond
      FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x WHERE x.name = p_group), p_limit) AS k
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
     ORDER BY q.name, k.partition_id;
END $$;
