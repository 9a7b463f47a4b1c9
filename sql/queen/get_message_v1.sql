-- One message with its payload (null where SQL cannot read it, see queen.messages), also one that only the dead letters still have;
-- {"error": "Message not found"} if there is none.
CREATE OR REPLACE FUNCTION queen.get_message_v1(partition_id text, transaction_id text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE((
        SELECT jsonb_build_object(
                   'id', queend.message_id(m.stored_at, p.id, m.record_offset), 'transactionId', m.transaction_id, 'partitionId', queend.partition_uuid(p.id),
                   'queuePath', m.queue || '/' || m.partition, 'queue', m.queue, 'partition', m.partition, 'namespace', m.namespace, 'task', m.task,
                   'payload', CASE WHEN m.seal IS NULL THEN queend.as_jsonb(COALESCE(m.payload, (SELECT r.payload FROM queend.records(p.id, m.record_offset, 1) AS r))) END, 'traceId', m.trace_id, 'producerSub', m.producer_sub,
                   'createdAt', queend.iso(m.stored_at), 'errorMessage', m.dead_error, 'retryCount', m.dead_retries, 'offset', m.record_offset,
                   'queueConfig', jsonb_build_object('leaseTime', m.lease_time, 'retryLimit', m.retry_limit, 'retryDelay', m.retry_delay, 'ttl', m.ttl, 'priority', m.priority),
                   'consumerGroups', (SELECT COALESCE(jsonb_agg(jsonb_build_object('name', g.name, 'consumed', g.consumed, 'leaseExpiresAt', queend.iso(g.lease_until))), '[]')
                                        FROM queend.message_groups(p.id, m.record_offset) AS g))
          FROM (SELECT queend.partition_number(get_message_v1.partition_id) AS id) AS p
          CROSS JOIN LATERAL queend.message_show(p.id, queend.record_id(get_message_v1.transaction_id)) AS m WHERE p.id IS NOT NULL), '{"error": "Message not found"}')
$$;
