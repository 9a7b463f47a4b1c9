-- Dead letters, newest failure first: {"queue", "consumerGroup", "partition", "from", "to", "limit": 100, "offset": 0}, as GET /api/v1/dlq gives them.
-- data is null where SQL cannot read it (see queen.messages).
CREATE OR REPLACE FUNCTION queen.get_dlq_messages_v1(filter jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('messages', COALESCE(jsonb_agg(jsonb_build_object(
               'id', queend.message_id(d.created_at, d.partition_id, d.record_offset), 'transactionId', d.transaction_id, 'partitionId', queend.partition_uuid(d.partition_id),
               'queue', d.queue, 'partition', d.partition, 'consumerGroup', d.group_name, 'errorMessage', d.error, 'retryCount', d.retries, 'data', CASE WHEN d.seal IS NULL THEN queend.as_jsonb(d.payload) END,
               'producerSub', d.producer_sub, 'createdAt', queend.iso(d.created_at), 'failedAt', queend.iso(d.failed_at), 'offset', d.record_offset) ORDER BY d.failed_at DESC, d.id DESC) FILTER (WHERE d.id IS NOT NULL), '[]'),
               'pagination', jsonb_build_object('limit', p.most, 'offset', p.skip))
      FROM (SELECT LEAST(GREATEST(COALESCE((filter->>'limit')::int, 100), 0), 1000) AS most, LEAST(GREATEST(COALESCE((filter->>'offset')::int, 0), 0), 1000000) AS skip) AS p
      LEFT JOIN LATERAL queend.dead_show(ARRAY(SELECT f FROM queend.dead_find(CASE WHEN filter->>'queue' IS NOT NULL THEN COALESCE((SELECT q.id FROM queend.queues q WHERE q.name = filter->>'queue'), 0) END,
                                  filter->>'partition', filter->>'consumerGroup', queend.moment_us(filter->>'from'), queend.moment_us(filter->>'to'), p.most, p.skip) AS f)) AS d ON true
     GROUP BY p.most, p.skip
$$;
