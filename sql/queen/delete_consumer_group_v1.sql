-- Deletes a consumer group in every queue, its subscription too unless delete_metadata is false; it starts afresh when used again.
CREATE OR REPLACE FUNCTION queen.delete_consumer_group_v1(consumer_group text, delete_metadata boolean DEFAULT true) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'deletedPartitions', COALESCE(sum(d.partitions), 0), 'metadataDeleted', delete_metadata)
      FROM queend.group_delete(consumer_group, NULL, delete_metadata) AS d
$$;
