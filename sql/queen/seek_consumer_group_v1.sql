-- Moves the cursors a group has in a queue: to the end, or behind target_timestamp. Leases of the moved cursors are void.
CREATE OR REPLACE FUNCTION queen.seek_consumer_group_v1(consumer_group text, queue text, target_timestamp timestamptz DEFAULT NULL, seek_to_end boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at    bigint := CASE WHEN NOT seek_to_end THEN (extract(epoch FROM target_timestamp) * 1000000)::bigint END;
    v_moved int := 0;
    v_after int := 0;
    g       record;
    s       record;
BEGIN
    IF NOT seek_to_end AND target_timestamp IS NULL THEN
        RETURN jsonb_build_object('success', false, 'error', 'Must specify either seek_to_end or target_timestamp');
    END IF;
    SELECT x.queue_id, x.id INTO g FROM queend.consumer_groups x JOIN queend.queues q ON q.id = x.queue_id
     WHERE q.name = seek_consumer_group_v1.queue AND x.name = seek_consumer_group_v1.consumer_group;
    WHILE g.id IS NOT NULL AND v_after IS NOT NULL LOOP
        SELECT * INTO s FROM queend.group_seek(g.queue_id, g.id, NULL, v_after, 1000, v_at, NULL);
        v_moved := v_moved + s.updated;
        v_after := s.next;
    END LOOP;
    RETURN jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'queueName', seek_consumer_group_v1.queue, 'seekToEnd', seek_to_end,
                              'targetTimestamp', queend.iso(v_at), 'partitionsUpdated', v_moved);
END $$;
