-- Messages without their payloads, newest first: {"from": an hour ago, "to": now, "queue", "partition", "namespace", "task", "status", "limit": 200,
-- "offset": 0}. Shape and rules are those of GET /api/v1/messages; ids of rows that clients framed (codec 2) are those the daemon made.
CREATE OR REPLACE FUNCTION queen.list_messages_v1(filter jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('messages', COALESCE(jsonb_agg(jsonb_build_object(
               'id', queend.message_id(m.stored_at, m.partition_id, m.record_offset), 'transactionId', m.transaction_id, 'partitionId', queend.partition_uuid(m.partition_id),
               'queuePath', m.queue || '/' || m.partition, 'queue', m.queue, 'partition', m.partition, 'namespace', m.namespace, 'task', m.task, 'status', m.status,
               'queueStatus', m.queue_status, 'busStatus', jsonb_build_object('consumedBy', m.consumed_by, 'totalGroups', m.groups), 'traceId', m.trace_id,
               'producerSub', m.producer_sub, 'queuePriority', m.priority, 'createdAt', queend.iso(m.stored_at), 'leaseExpiresAt', queend.iso(m.lease_until), 'offset', m.record_offset)), '[]'))
      FROM queend.message_list(filter->>'queue', filter->>'partition', filter->>'namespace', filter->>'task', filter->>'status',
                               COALESCE(queend.moment_us(filter->>'from'), queend.now_us() - 3600000000), COALESCE(queend.moment_us(filter->>'to'), queend.now_us()),
                               LEAST(GREATEST(COALESCE((filter->>'limit')::int, 200), 0), 1000), LEAST(GREATEST(COALESCE((filter->>'offset')::int, 0), 0), 100000), 100000) AS m
$$;
