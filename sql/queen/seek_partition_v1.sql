-- Moves the cursor a group has in one partition to its end.
CREATE OR REPLACE FUNCTION queen.seek_partition_v1(consumer_group text, queue text, partition text) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    p record;
    s record;
BEGIN
    SELECT x.id, x.queue_id, g.id AS grp INTO p
      FROM queend.queues q JOIN queend.partitions x ON x.queue_id = q.id
      LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id AND g.name = seek_partition_v1.consumer_group
     WHERE q.name = seek_partition_v1.queue AND x.name = seek_partition_v1.partition;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('success', false, 'error', 'Partition not found');
    END IF;
    SELECT * INTO s FROM queend.group_seek(p.queue_id, p.grp, p.id, 0, 1, NULL, NULL) WHERE p.grp IS NOT NULL;
    RETURN jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'queueName', seek_partition_v1.queue, 'partitionName', seek_partition_v1.partition,
                              'updated', COALESCE(s.updated, 0) > 0, 'cursorMovedTo', queend.iso(s.moved_to));
END $$;
