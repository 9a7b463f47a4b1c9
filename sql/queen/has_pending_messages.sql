-- Whether a partition of the queue (any, or the one named) has something the group has not consumed and nobody else holds.
CREATE OR REPLACE FUNCTION queen.has_pending_messages(queue text, partition text DEFAULT NULL, consumer_group text DEFAULT '__QUEUE_MODE__') RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
BEGIN
    RETURN EXISTS (
        SELECT FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id
          LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id AND g.name = COALESCE(NULLIF(has_pending_messages.consumer_group, ''), '__QUEUE_MODE__')
          LEFT JOIN queend.cursors k ON k.partition_id = p.id AND k.group_id = g.id
         WHERE q.name = has_pending_messages.queue AND (COALESCE(has_pending_messages.partition, '') = '' OR p.name = has_pending_messages.partition)
           AND COALESCE(k.lease_until, 0) <= queend.now_us()
           AND queend.head(p.id) > COALESCE(queend.undone_from(k.beyond, k.committed + 1), CASE WHEN g.start_at IS NULL THEN COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p.id), 0)
                                                                  ELSE queend.offset_since(p.id, g.start_at) END));
END $$;
