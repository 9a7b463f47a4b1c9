-- The same in one queue.
CREATE OR REPLACE FUNCTION queen.delete_consumer_group_for_queue_v1(consumer_group text, queue text, delete_metadata boolean DEFAULT true) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'queueName', delete_consumer_group_for_queue_v1.queue,
                              'deletedPartitions', COALESCE(sum(d.partitions), 0), 'metadataDeleted', delete_metadata)
      FROM queend.group_delete(consumer_group, delete_consumer_group_for_queue_v1.queue, delete_metadata) AS d
$$;
