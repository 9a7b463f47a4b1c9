-- Consumer groups: the views, their positions, moving and deleting them.

CREATE OR REPLACE VIEW queen.consumer_groups_metadata AS
SELECT md5('g' || g.id)::uuid AS id, g.name AS consumer_group, q.name AS queue_name, ''::text AS partition_name,
       ''::text AS namespace, ''::text AS task, g.mode AS subscription_mode,
       queend.moment(g.start_at) AS subscription_timestamp, g.created_at
  FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id WHERE g.name <> '__QUEUE_MODE__';
COMMENT ON VIEW queen.consumer_groups_metadata IS
'Named consumer groups of each queue, with their start position: all; or new or timestamp, from subscription_timestamp
on.';

CREATE OR REPLACE VIEW queen.consumer_watermarks AS
SELECT q.name AS queue_name, g.name AS consumer_group, timestamptz 'epoch' AS last_empty_scan_at,
       g.created_at AS updated_at
  FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id;
COMMENT ON VIEW queen.consumer_watermarks IS
'One row per consumer group. The column last_empty_scan_at always has the value of a group without empty scans, because
queend does not record scans. UPDATE changes nothing and says so in a notice.';

CREATE OR REPLACE FUNCTION queen.watermarks_updated() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'nothing is changed: pops do not scan, so that watermarks have no effect here';
    RETURN NEW;
END $$;
COMMENT ON FUNCTION queen.watermarks_updated() IS
'Handles UPDATE on queen.consumer_watermarks: changes nothing and raises a notice.';
CREATE OR REPLACE TRIGGER updated INSTEAD OF UPDATE ON queen.consumer_watermarks
    FOR EACH ROW EXECUTE FUNCTION queen.watermarks_updated();

CREATE OR REPLACE VIEW queen.partition_consumers AS
SELECT md5(k.partition_id || ':' || k.group_id)::uuid AS id, queend.partition_uuid(k.partition_id) AS partition_id,
       g.name AS consumer_group, m.id AS last_consumed_id, m.created_at AS last_consumed_created_at,
       k.committed + 1 AS total_messages_consumed, NULL::bigint AS total_batches_consumed,
       queend.moment(NULLIF(k.consumed_at, 0)) AS last_consumed_at,
       CASE WHEN k.lease_until > 0 THEN queend.moment(k.lease_until) END AS lease_expires_at,
       NULL::timestamptz AS lease_acquired_at, CASE WHEN k.lease_until > 0 THEN k.lease_id::text END AS worker_id,
       NULL::jsonb AS message_batch,
       CASE WHEN k.lease_until > 0 THEN (k.lease_end - k.committed)::int ELSE 0 END AS batch_size, 0 AS acked_count,
       k.retries AS batch_retry_count,
       queend.cursor_lag(k.partition_id, k.group_id) AS pending_estimate, now() AS last_stats_update, g.created_at,
       q.name AS queue, p.name AS partition
  FROM queend.cursors k
  JOIN queend.consumer_groups g ON g.id = k.group_id
  JOIN queend.partitions p ON p.id = k.partition_id
  JOIN queend.queues q ON q.id = p.queue_id
  CROSS JOIN LATERAL queend.cursor_message(k.partition_id, k.committed) AS m;
COMMENT ON VIEW queen.partition_consumers IS
'Position of each consumer group in each partition, and the holder of the lease (worker_id: its lease id). Counts are
differences of offsets. If the group has consumed nothing, or retention removed the message, last_consumed_id is zero
and last_consumed_created_at is NULL.';

CREATE OR REPLACE FUNCTION queen.has_pending_messages(queue text, partition text DEFAULT NULL,
    consumer_group text DEFAULT '__QUEUE_MODE__') RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
BEGIN
    RETURN EXISTS (
        SELECT FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id
          LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id
                                                AND g.name = COALESCE(NULLIF(has_pending_messages.consumer_group, ''),
                                                                      '__QUEUE_MODE__')
         CROSS JOIN LATERAL queend.cursor_figures(ARRAY[p.id], g.id) AS c
         WHERE q.name = has_pending_messages.queue
           AND (COALESCE(has_pending_messages.partition, '') = '' OR p.name = has_pending_messages.partition)
           AND CASE WHEN g.id IS NULL THEN c.total > 0 ELSE c.lag > 0 AND c.lease_until = 0 END);
END $$;
COMMENT ON FUNCTION queen.has_pending_messages(text, text, text) IS
'Returns true if the queue, or the named partition of it, has a message that the group has still to consume and that is
free of leases.';

CREATE OR REPLACE FUNCTION queen.get_consumer_groups_v4() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'name', g.name, 'topics', jsonb_build_array(q.name), 'queueName', q.name, 'members', s.members,
               'partitionsWithLag', s.lagging, 'totalLag', s.lag, 'maxTimeLag', s.age,
               'state', CASE WHEN s.age > 300 THEN 'Lagging' WHEN s.due AND s.members > 0 AND NOT s.consumed
                             THEN 'Dead' ELSE 'Stable' END,
               'subscriptionMode', CASE WHEN g.start_at IS NOT NULL THEN g.mode END,
               'subscriptionTimestamp', queend.iso(g.start_at),
               'subscriptionCreatedAt', CASE WHEN g.start_at IS NOT NULL THEN g.created_at END) ORDER BY g.name,
                              q.name), '[]')
      FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
      CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE k.has_cursor) AS members, count(*) FILTER (WHERE k.lag > 0) AS lagging,
                   COALESCE(sum(k.lag), 0)::bigint AS lag,
                   COALESCE(bool_or(k.consumed_at IS NOT NULL), false) AS consumed,
                   COALESCE(min(k.waiting_since) <= queend.now_us(), false) AS due,
                   COALESCE(GREATEST(queend.now_us() - min(k.waiting_since), 0) / 1000000, 0) AS age
              FROM queend.cursor_figures(ARRAY(SELECT p.id FROM queend.partitions p WHERE p.queue_id = g.queue_id),
                                         g.id) AS k) AS s
$$;
COMMENT ON FUNCTION queen.get_consumer_groups_v4() IS
'Returns every consumer group of every queue, like GET /api/v1/consumer-groups, but with current and exact figures: it
reads every partition.';

CREATE OR REPLACE FUNCTION queen.get_consumer_group_details_v1(consumer_group text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(jsonb_object_agg(x.queue, jsonb_build_object('partitions', x.partitions)), '{}')
      FROM (SELECT s.queue, jsonb_agg(jsonb_build_object(
                       'partition', s.partition, 'workerId', s.lease_id, 'lastConsumedAt', queend.iso(s.consumed_at),
                       'totalConsumed', s.consumed, 'offset', s.next, 'head', s.head,
                       'offsetLag', s.lag,
                       'timeLagSeconds', COALESCE(GREATEST(queend.now_us() - s.waiting_since, 0) / 1000000, 0),
                       'leaseActive', s.leased) ORDER BY s.partition_id) AS partitions
              FROM queend.group_show(consumer_group, 10000) AS s GROUP BY s.queue) AS x
$$;
COMMENT ON FUNCTION queen.get_consumer_group_details_v1(text) IS
'Returns the cursors of a consumer group by queue, like GET /api/v1/consumer-groups/:group, at most 10 000 partitions
per queue.';

CREATE OR REPLACE FUNCTION queen.get_lagging_partitions_v1(min_lag_seconds int DEFAULT 3600) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'consumer_group', l.grp, 'queue_name', l.queue, 'partition_name', l.partition,
               'partition_id', queend.partition_uuid(l.partition_id), 'worker_id', l.worker,
               'offset_lag', l.lag, 'time_lag_seconds', l.age, 'lag_hours', round(l.age / 3600.0, 2),
               'oldest_unconsumed_at', queend.iso(l.oldest), 'last_consumed_at', queend.iso(l.consumed_at))
                              ORDER BY l.waiting_since, l.grp, l.queue, l.partition_id), '[]')
      FROM (SELECT g.name AS grp, q.name AS queue, k.name AS partition, k.partition_id,
                   k.lease_id AS worker, k.lag, (queend.now_us() - k.waiting_since) / 1000000 AS age, k.oldest,
                   k.waiting_since, k.consumed_at
              FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x), NULL) AS k
              JOIN queend.consumer_groups g ON g.id = k.group_id JOIN queend.queues q ON q.id = g.queue_id
             WHERE k.waiting_since < queend.now_us() - queend.required('min_lag_seconds', min_lag_seconds)
                                                       * 1000000::bigint
             ORDER BY k.waiting_since LIMIT 10000) AS l
$$;
COMMENT ON FUNCTION queen.get_lagging_partitions_v1(integer) IS
'Returns up to 10 000 partitions in which a group has left a message unconsumed for more than min_lag_seconds, longest
first. The figures are current: it reads every partition.';

CREATE OR REPLACE FUNCTION queen.update_consumer_group_subscription_v1(consumer_group text, new_timestamp timestamptz)
RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'newTimestamp', new_timestamp,
                              'rowsUpdated', count(*))
      FROM queend.group_subscribe(queend.required('consumer_group', consumer_group),
                                  (extract(epoch FROM queend.required('new_timestamp', new_timestamp))
                                   * 1000000)::bigint) AS s
$$;
COMMENT ON FUNCTION queen.update_consumer_group_subscription_v1(text, timestamp with time zone) IS
'Changes the start position in the group''s recorded subscriptions. Consumed messages stay consumed.';

CREATE OR REPLACE FUNCTION queen.seek_consumer_group_v1(consumer_group text, queue text,
    target_timestamp timestamptz DEFAULT NULL, seek_to_end boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at    bigint := CASE WHEN NOT seek_to_end THEN (extract(epoch FROM target_timestamp) * 1000000)::bigint END;
    v_moved int := 0;
    v_after int := 0;
    g       record;
    s       record;
BEGIN
    PERFORM queend.required('consumer_group', seek_consumer_group_v1.consumer_group),
            queend.required('queue', seek_consumer_group_v1.queue), queend.required('seek_to_end', seek_to_end);
    IF seek_to_end = (target_timestamp IS NOT NULL) THEN
        RETURN jsonb_build_object('success', false, 'error',
                                  CASE WHEN seek_to_end THEN 'Specify seek_to_end or target_timestamp, not both'
                                       ELSE 'Must specify either seek_to_end or target_timestamp' END);
    END IF;
    SELECT q.id AS queue_id, x.id INTO g FROM queend.queues q
      LEFT JOIN queend.consumer_groups x ON x.queue_id = q.id AND x.name = seek_consumer_group_v1.consumer_group
     WHERE q.name = seek_consumer_group_v1.queue;
    IF g.id IS NULL THEN
        RETURN jsonb_build_object('success', false, 'error', CASE WHEN g.queue_id IS NULL THEN 'Queue not found'
                                                                  ELSE 'Consumer group not found' END);
    END IF;
    WHILE v_after IS NOT NULL LOOP
        SELECT * INTO s FROM queend.group_seek(g.queue_id, g.id, NULL, v_after, 1000, v_at, NULL);
        v_moved := v_moved + s.updated;
        v_after := s.next;
    END LOOP;
    RETURN jsonb_build_object('success', true, 'consumerGroup', consumer_group,
                              'queueName', seek_consumer_group_v1.queue, 'seekToEnd', seek_to_end,
                              'targetTimestamp', queend.iso(v_at), 'partitionsUpdated', v_moved);
END $$;
COMMENT ON FUNCTION queen.seek_consumer_group_v1(text, text, timestamp with time zone, boolean) IS
'Moves a group in all partitions of a queue, including those that it has not read: to the end, or past target_timestamp.
Leases of the moved cursors become void. The result has success false if the queue or the group does not exist.';

CREATE OR REPLACE FUNCTION queen.seek_partition_v1(consumer_group text, queue text, partition text) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    p record;
    s record;
BEGIN
    PERFORM queend.required('consumer_group', seek_partition_v1.consumer_group),
            queend.required('queue', seek_partition_v1.queue);
    IF seek_partition_v1.partition IS NULL THEN      -- '' is a partition's name, not "all"
        PERFORM queend.required('partition', seek_partition_v1.partition);
    END IF;
    SELECT x.id, x.queue_id, g.id AS grp INTO p
      FROM queend.queues q JOIN queend.partitions x ON x.queue_id = q.id
      LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id AND g.name = seek_partition_v1.consumer_group
     WHERE q.name = seek_partition_v1.queue AND x.name = seek_partition_v1.partition;
    IF NOT FOUND OR p.grp IS NULL THEN
        RETURN jsonb_build_object('success', false, 'error', CASE WHEN p.id IS NULL THEN 'Partition not found'
                                                                  ELSE 'Consumer group not found' END);
    END IF;
    SELECT * INTO s FROM queend.group_seek(p.queue_id, p.grp, p.id, 0, 1, NULL, NULL);
    RETURN jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'queueName', seek_partition_v1.queue,
                              'partitionName', seek_partition_v1.partition, 'updated', COALESCE(s.updated, 0) > 0,
                              'cursorMovedTo', queend.iso(s.moved_to));
END $$;
COMMENT ON FUNCTION queen.seek_partition_v1(text, text, text) IS
'Moves a group to the end of one partition, even if it has not read it. The result has success false if the partition or
the group does not exist.';

CREATE OR REPLACE FUNCTION queen.delete_consumer_group_v1(consumer_group text, delete_metadata boolean DEFAULT true)
RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', true, 'consumerGroup', consumer_group,
                              'deletedPartitions', COALESCE(sum(d.partitions), 0), 'metadataDeleted', delete_metadata,
                              'existed', count(*) > 0)
      FROM queend.group_delete(queend.required('consumer_group', consumer_group), NULL,
                               queend.required('delete_metadata', delete_metadata)) AS d
$$;
COMMENT ON FUNCTION queen.delete_consumer_group_v1(text, boolean) IS
'Deletes a consumer group in every queue, with its subscription unless delete_metadata is false. If the group is used
again, it starts as a new group. The member existed says whether the group existed.';

CREATE OR REPLACE FUNCTION queen.delete_consumer_group_for_queue_v1(consumer_group text, queue text,
    delete_metadata boolean DEFAULT true) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', true, 'consumerGroup', consumer_group,
                              'queueName', delete_consumer_group_for_queue_v1.queue,
                              'deletedPartitions', COALESCE(sum(d.partitions), 0), 'metadataDeleted', delete_metadata,
                              'existed', count(*) > 0)
      FROM queend.group_delete(queend.required('consumer_group', consumer_group),
                               queend.required('queue', delete_consumer_group_for_queue_v1.queue),
                               queend.required('delete_metadata', delete_metadata)) AS d
$$;
COMMENT ON FUNCTION queen.delete_consumer_group_for_queue_v1(text, text, boolean) IS
'Deletes a consumer group in one queue, with its subscription unless delete_metadata is false. If the group is used
again, it starts as a new group. The member existed says whether the group existed.';
