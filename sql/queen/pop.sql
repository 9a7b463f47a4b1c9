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
'Pops for several requests: [{"idx", "queue_name", "partition_name", "consumer_group": "__QUEUE_MODE__", "batch_size":
10, "lease_seconds": 0, "worker_id", "sub_mode", "sub_from", "auto_ack": false, "max_partitions": 1}, …]. An empty
partition_name means any partition, and 0 lease_seconds the leaseTime of the queue. The worker_id becomes the lease id.
Subscription: sub_mode (all or new) and sub_from (now or a time) set the start position of a new group. Limits:
batch_size is at most 10000 and max_partitions at most 1000; larger values are an error. Returns [{"idx", "result":
{success, queue, partition, partitionId, leaseId, consumerGroup, partitionsClaimed, messages: […], error?, reason?,
windowBufferActive?}}, …]. A message: {id, transactionId, traceId, data, producerSub, createdAt, partitionId, partition,
leaseId, consumerGroup}. A redriven one also has its origin, as in queen.messages. Errors: no_available_partition,
partition_not_found, lease_held or unreadable. In the last case, the next message is compressed or encrypted, so only
the daemon can read it (QUEEND_COMPRESS_FROM=0 turns compression off). Reasons of an empty result: queue_not_found,
partition_not_found, paused, unreadable, leased or empty. Call it in autocommit mode: cursors stay locked until the
transaction ends. If rows are compressed, a consumer group should pop either by SQL or over HTTP.';

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
'Does the same as queen.pop_unified_batch_v4, for requests that name their partition.';
