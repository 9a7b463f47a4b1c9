-- Messages: the view, lists, one message, deletion.

CREATE OR REPLACE VIEW queen.messages AS
SELECT m.id, m.transaction_id, m.trace_id, queend.partition_uuid(p.id) AS partition_id,
       queend.as_jsonb(m.payload_text) AS payload, m.created_at, m.payload_state = 'sealed' AS is_encrypted,
       m.producer_sub, q.name AS queue, p.name AS partition, m.message_offset, m.payload_state, m.payload_text,
       m.origin
  FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id
  CROSS JOIN LATERAL queend.records_all(p.id) AS m;
-- Dropped after the view was replaced, which depended on it in earlier versions.
DROP FUNCTION IF EXISTS queend.partition_messages(int);
COMMENT ON VIEW queen.messages IS
'Stored messages. payload_state says what SQL can read: plain, packed or sealed. The daemon compressed the row of a
packed payload (QUEEND_COMPRESS_FROM), and encrypted a sealed one. Their payload is NULL here; read them over HTTP. If
jsonb cannot represent the JSON (\u0000), payload is NULL, and payload_text has the text. Name both the queue and the
partition: any other search reads the whole log. The origin is the first dead letter, if the message was redriven
(originTransactionId, originQueue, originPartition, originOffset). DELETE removes a message from its queue.';

CREATE OR REPLACE FUNCTION queen.messages_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN queend.message_delete(queend.partition_id(OLD.partition_id), queend.record_id(OLD.transaction_id))
                     THEN OLD END;
END $$;
COMMENT ON FUNCTION queen.messages_deleted() IS
'Handles DELETE on queen.messages: deletes the message with its dead letters and traces, and overwrites its payload.';
CREATE OR REPLACE TRIGGER deleted INSTEAD OF DELETE ON queen.messages
    FOR EACH ROW EXECUTE FUNCTION queen.messages_deleted();

CREATE OR REPLACE FUNCTION queen.list_messages_v1(filter jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('messages', COALESCE(jsonb_agg(jsonb_build_object(
               'id', queend.message_id(m.stored_at, m.partition_id, m.record_offset), 'transactionId', m.transaction_id,
               'partitionId', queend.partition_uuid(m.partition_id), 'queuePath', m.queue || '/' || m.partition,
               'queue', m.queue, 'partition', m.partition, 'namespace', m.namespace, 'task', m.task, 'status', m.status,
               'queueStatus', m.queue_status,
               'busStatus', jsonb_build_object('consumedBy', m.consumed_by, 'totalGroups', m.groups),
               'traceId', m.trace_id, 'producerSub', m.producer_sub, 'queuePriority', m.priority,
               'createdAt', queend.iso(m.stored_at), 'leaseExpiresAt', queend.iso(m.lease_until),
               'offset', m.record_offset) || COALESCE(queend.message_beside(m.partition_id, m.record_offset), '{}')),
               '[]'))
      FROM queend.message_list(filter->>'queue', filter->>'partition', filter->>'namespace', filter->>'task',
                               filter->>'status',
                               COALESCE(queend.moment_us(filter->>'from'), queend.now_us() - 3600000000),
                               COALESCE(queend.moment_us(filter->>'to'), queend.now_us()),
                               queend.filter_number(queend.filter_checked(filter,
                                   '{queue,partition,namespace,task,status,from,to,limit,offset}'), 'limit', 200, 0,
                                                    10000),
                               queend.filter_number(filter, 'offset', 0, 0, 100000), 100000) AS m
$$;
COMMENT ON FUNCTION queen.list_messages_v1(jsonb) IS
'Returns messages without their payloads, newest first, as GET /api/v1/messages. Filter: {"from": an hour ago, "to":
now, "queue", "partition", "namespace", "task", "status", "limit": 200 (at most 10000), "offset": 0}. Messages of rows
that clients framed (codec 2) have the ids that the daemon computed. Error 22023: an unknown key, or an invalid limit or
time.';

CREATE OR REPLACE FUNCTION queen.get_message_v1(partition_id text, transaction_id text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT COALESCE((
        SELECT jsonb_build_object(
                   'id', queend.message_id(m.stored_at, p.id, m.record_offset), 'transactionId', m.transaction_id,
                   'partitionId', queend.partition_uuid(p.id), 'queuePath', m.queue || '/' || m.partition,
                   'queue', m.queue, 'partition', m.partition, 'namespace', m.namespace, 'task', m.task,
                   'payload',
                   CASE WHEN m.seal IS NULL
                             THEN queend.as_jsonb(COALESCE(m.payload,
                                                           (SELECT r.payload
                                                              FROM queend.records(p.id, m.record_offset, 1) AS r))) END,
                   'traceId', m.trace_id, 'producerSub', m.producer_sub, 'createdAt', queend.iso(m.stored_at),
                   'errorMessage', m.dead_error, 'retryCount', m.dead_retries, 'offset', m.record_offset,
                   'queueConfig',
                   jsonb_build_object('leaseTime', m.lease_time, 'retryLimit', m.retry_limit,
                                      'retryDelay', m.retry_delay, 'ttl', m.ttl, 'priority', m.priority),
                   'consumerGroups',
                   (SELECT COALESCE(jsonb_agg(jsonb_build_object('name', g.name, 'consumed', g.consumed,
                                                                 'leaseExpiresAt', queend.iso(g.lease_until))), '[]')
                      FROM queend.message_groups(p.id, m.record_offset) AS g))
               || COALESCE(queend.message_beside(p.id, m.record_offset), '{}')
          FROM (SELECT queend.partition_number(get_message_v1.partition_id) AS id) AS p
          CROSS JOIN LATERAL queend.message_show(p.id, queend.record_id(get_message_v1.transaction_id)) AS m
         WHERE p.id IS NOT NULL), '{"error": "Message not found"}')
$$;
COMMENT ON FUNCTION queen.get_message_v1(text, text) IS
'Returns a message with its payload (null if SQL cannot read it, see queen.messages). It finds messages that exist only
as a dead letter too. Otherwise: {"error": "Message not found"}.';

CREATE OR REPLACE FUNCTION queen.delete_message_v1(partition_id text, transaction_id text) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', d.gone, 'partitionId', delete_message_v1.partition_id,
                              'transactionId', delete_message_v1.transaction_id,
                              'message',
                              CASE WHEN d.gone THEN 'Message deleted successfully' ELSE 'Message not found' END)
      FROM (SELECT COALESCE(queend.message_delete(queend.partition_number(delete_message_v1.partition_id),
                                                  queend.record_id(delete_message_v1.transaction_id)),
                            false) AS gone) AS d
$$;
COMMENT ON FUNCTION queen.delete_message_v1(text, text) IS
'Deletes a message with its dead letters and traces, and overwrites its payload in the log. If SQL cannot read the
payload (see queen.messages), a daemon overwrites it within a second. Cursors stay. Call it in autocommit mode:
consumers of the partition wait until the transaction ends.';

CREATE OR REPLACE FUNCTION queen.erase_v1(filter jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_keys  jsonb := queend.filter_given(CASE filter->'after' WHEN 'null' THEN filter - 'after' ELSE filter END,
                                         '{queue,partition,transactionIds,after}');
    v_queue int := (SELECT q.id FROM queend.queues q WHERE q.name = queend.required('queue', v_keys->>'queue'));
    v_after bigint[];
    v_ids   bytea[];
    v_out   int := 0;
    r       record;
BEGIN
    IF v_queue IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('there is no queue %s', filter->>'queue');
    ELSIF NOT v_keys ?| '{partition,transactionIds}' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'A filter is required: give partition or transactionIds',
              HINT = 'SQL cannot read compressed payloads: queend erase and POST /api/v1/queues/{queue}/erase find '
                     'messages by what payloads say.';
    ELSIF (CASE WHEN COALESCE(filter->>'after', '0.0') ~ '^[0-9]{1,10}[.][0-9]{1,18}$'
                THEN split_part(COALESCE(filter->>'after', '0.0'), '.', 1)::bigint > 2147483647 ELSE true END) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'after must be a text that an earlier call gave as next';
    ELSIF filter ? 'partition' AND NOT EXISTS (SELECT FROM queend.partitions p WHERE p.queue_id = v_queue
                                                  AND p.name = filter->>'partition') THEN
        RAISE invalid_parameter_value USING MESSAGE = format('there is no partition %s', filter->>'partition');
    END IF;
    v_after := string_to_array(COALESCE(filter->>'after', '0.0'), '.');
    IF filter ? 'transactionIds' THEN
        v_ids := ARRAY(SELECT queend.record_id(t) FROM jsonb_array_elements_text(filter->'transactionIds') AS t);
    END IF;
    IF v_after = '{0,0}' THEN      -- read before the log: a message that the relay moves meanwhile is found in the log
        DELETE FROM queend.outbox o
         WHERE o.queue = filter->>'queue' AND o.partition = COALESCE(filter->>'partition', o.partition)
           AND (v_ids IS NULL OR queend.record_id(o.transaction_id) = ANY (v_ids));
        GET DIAGNOSTICS v_out = ROW_COUNT;
    END IF;
    SELECT * INTO r FROM queend.erase_ids(v_queue, filter->>'partition', v_ids, v_after[1]::int, v_after[2], 1000);
    RETURN jsonb_build_object('erased', r.messages, 'deadLetters', r.dead, 'traces', r.traces,
                              'complete', r.next_part IS NULL,
                              'next', CASE WHEN r.next_part IS NOT NULL THEN r.next_part || '.' || r.next_base END)
           || CASE WHEN v_out > 0 THEN jsonb_build_object('outbox', v_out) ELSE '{}' END;
END $$;
COMMENT ON FUNCTION queen.erase_v1(jsonb) IS
'Overwrites the payloads of messages, including consumed and deleted ones, and deletes their dead letters and traces.
Filter: {"queue", "partition", "transactionIds": [...], "after"}; partition or transactionIds is required. A call visits
1000 rows of the log. If complete is false, call it again with next as "after". A daemon overwrites compressed rows
within a second. Returns {erased, deadLetters, traces, complete, next, outbox}. If messages were deleted from the outbox
of queen.push, outbox is their number. Call it in autocommit mode, like delete_message_v1.';
