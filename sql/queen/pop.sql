-- Pop in one call, under all the names that the reference server has used.

CREATE OR REPLACE FUNCTION queen.pop_unified_batch_v4(requests jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    r        record;
    v_result jsonb := '[]';
BEGIN
    PERFORM queend.members_checked(requests, '{idx,queue_name,partition_name,consumer_group,batch_size,lease_seconds,
                                               worker_id,sub_mode,sub_from,auto_ack,max_partitions}');
    FOR r IN SELECT e.v, COALESCE(e.v->'idx', to_jsonb(e.ord - 1)) AS idx
               FROM jsonb_array_elements(requests) WITH ORDINALITY AS e (v, ord)
              ORDER BY COALESCE(e.v->>'partition_name', '') = '', e.v->>'queue_name', e.v->>'partition_name', e.ord LOOP
        v_result := v_result || jsonb_build_array(jsonb_build_object('idx', r.idx, 'result', queend.pop_request(r.v)));
    END LOOP;
    RETURN v_result;
END $$;
COMMENT ON FUNCTION queen.pop_unified_batch_v4(jsonb) IS
'Pops for several requests: [{"idx", "queue_name", "partition_name", "consumer_group", "batch_size", "lease_seconds",
"worker_id", "sub_mode", "sub_from", "auto_ack", "max_partitions"}, …]. An empty partition_name means any partition. The
worker_id becomes the lease id. The members sub_mode (all or new) and sub_from (now or a time) apply to the first pop of
a group. Defaults: consumer_group __QUEUE_MODE__, batch_size 10, lease_seconds 0 (the queue''s leaseTime), auto_ack
false, max_partitions 1. A batch_size above 10000 and a max_partitions above 1000 are errors. Returns [{"idx", "result":
{success, queue, partition, partitionId, leaseId, consumerGroup, partitionsClaimed, messages, error?, reason?,
windowBufferActive?}}, …]. A message has id, transactionId, traceId, data, producerSub, createdAt, partitionId,
partition, leaseId and consumerGroup. A redriven message also has its origin, as in queen.messages. The error is
no_available_partition, partition_not_found, lease_held or unreadable. Unreadable means that the next row is compressed
or encrypted, and only queend can read it; QUEEND_COMPRESS_FROM=0 turns compression off. The reason of an empty result
is queue_not_found, partition_not_found, paused, unreadable, leased or empty. If rows are compressed, a consumer group
should pop either in SQL or over HTTP. Use autocommit: cursors stay locked until the transaction ends.';

CREATE OR REPLACE FUNCTION queen.pop_unified_batch_v3(requests jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.pop_unified_batch_v4(requests)
$$;
COMMENT ON FUNCTION queen.pop_unified_batch_v3(jsonb) IS
'An older name of queen.pop_unified_batch_v4.';

CREATE OR REPLACE FUNCTION queen.pop_unified_batch_v2(requests jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.pop_unified_batch_v4(requests)
$$;
COMMENT ON FUNCTION queen.pop_unified_batch_v2(jsonb) IS
'An older name of queen.pop_unified_batch_v4.';

CREATE OR REPLACE FUNCTION queen.pop_unified_batch(requests jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.pop_unified_batch_v4(requests)
$$;
COMMENT ON FUNCTION queen.pop_unified_batch(jsonb) IS
'An older name of queen.pop_unified_batch_v4.';

CREATE OR REPLACE FUNCTION queen.pop_specific_batch(requests jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.pop_unified_batch_v4(requests)
$$;
COMMENT ON FUNCTION queen.pop_specific_batch(jsonb) IS
'Like queen.pop_unified_batch_v4, for requests that name their partition.';
