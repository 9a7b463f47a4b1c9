-- Push: within a transaction of your own (push), or at once (push_messages).

CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload json, transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, headers jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id      text := COALESCE(NULLIF(transaction_id, ''), queend.id_make()::text);
    v_headers text := CASE WHEN headers IS NOT NULL OR traceparent IS NOT NULL
                           THEN queend.headers_made(headers, traceparent) END;
BEGIN
    PERFORM queend.item_check(queue, COALESCE(partition, 'Default'), v_id), queend.payload_check(payload::text);
    IF EXISTS (SELECT FROM queend.queues q WHERE q.name = queue AND q.encryption_enabled) THEN
        RAISE feature_not_supported
              USING MESSAGE = format('queue "%s" is encrypted: SQL cannot seal what is pushed to it', queue);
    END IF;
    PERFORM pg_current_xact_id();      -- before an id of the outbox is drawn, see queend.outbox_mark
    INSERT INTO queend.outbox (queue, partition, transaction_id, trace_id, payload, headers, due)
    VALUES (queue, COALESCE(partition, 'Default'), v_id, trace_id, COALESCE(payload, 'null'), v_headers,
            queend.due_checked(deliver_at));
    RETURN v_id;
END $$;
COMMENT ON FUNCTION queen.push(text, text, json, text, uuid, timestamptz, jsonb, text) IS
'Stores a message if the transaction that calls it commits. A daemon then moves the message into its queue
(queend.relay); messages of one session keep the order of its commits. It takes no locks that other sessions wait for.
partition NULL: Default. transaction_id NULL: a new id. Returns the transaction id. If the partition already has a
message with this id, the older one stays. deliver_at: delivered no sooner. headers: an object of texts, at most 64
names and 16 KiB. traceparent: W3C trace context. Errors: 22023 a name, deliver_at, headers or traceparent is invalid,
54000 the payload is larger than 64 MiB, 0A000 the queue is encrypted.';

CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload jsonb, transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, headers jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT queen.push(queue, partition, payload::json, transaction_id, trace_id, deliver_at, headers, traceparent)
$$;
COMMENT ON FUNCTION queen.push(text, text, jsonb, text, uuid, timestamptz, jsonb, text) IS
'With jsonb, it does what queen.push does with json.';

CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload text, transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, headers jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT queen.push(queue, partition, payload::json, transaction_id, trace_id, deliver_at, headers, traceparent)
$$;
COMMENT ON FUNCTION queen.push(text, text, text, text, uuid, timestamptz, jsonb, text) IS
'With text (literals, and drivers that send text), it does the same if the text is JSON; otherwise error 22P02.';

CREATE OR REPLACE FUNCTION queen.push_messages_v3(items jsonb, check_duplicates boolean DEFAULT true,
    check_capacity boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    i record;
BEGIN
    PERFORM queend.items_served(items, true);
    SELECT array_agg(x.queue ORDER BY x.ord) AS queue, array_agg(x.partition ORDER BY x.ord) AS partition,
           array_agg(x.transaction ORDER BY x.ord) AS transaction, array_agg(x.payload ORDER BY x.ord) AS payload,
           array_agg(x.trace ORDER BY x.ord) AS trace, array_agg(x.producer ORDER BY x.ord) AS producer,
           array_agg(x.index ORDER BY x.ord) AS index, array_agg(x.headers ORDER BY x.ord) AS headers
      INTO i
      FROM (SELECT e.ord, e.v->>'queue' AS queue, COALESCE(e.v->>'partition', 'Default') AS partition,
                   COALESCE(NULLIF(e.v->>'transactionId', ''), queend.id_make()::text) AS transaction,
                   COALESCE(e.v->'payload', '{}')::text AS payload, NULLIF(e.v->>'traceId', '')::uuid AS trace,
                   NULLIF(e.v->>'producerSub', '') AS producer, COALESCE((e.v->>'index')::bigint, e.ord - 1) AS index,
                   queend.headers_made(e.v->'headers', e.v->>'traceparent') AS headers
              FROM jsonb_array_elements(items) WITH ORDINALITY AS e (v, ord)) AS x;
    PERFORM queend.item_check(u.q, u.p, u.t), queend.payload_check(u.v)
       FROM unnest(i.queue, i.partition, i.transaction, i.payload) AS u (q, p, t, v);
    IF i.queue IS NULL THEN
        RETURN '{"items": [], "partition_updates": []}';
    END IF;
    RETURN (
    WITH stored AS MATERIALIZED (
        SELECT s.*, queend.message_id(abs(s.stored_at), s.partition_id, s.record_offset) AS message_id,
               queend.partition_uuid(s.partition_id) AS uuid, i.queue[s.ord + 1] AS queue
          FROM queend.push_items(i.queue, i.partition, i.transaction, i.payload, i.trace, i.producer,
                                 i.headers) AS s)
    SELECT jsonb_build_object(
        'items', (SELECT jsonb_agg(jsonb_build_object(
                      'index', i.index[s.ord + 1], 'transaction_id', i.transaction[s.ord + 1],
                      'status', CASE WHEN NOT s.duplicate THEN 'queued'
                                      WHEN s.stored_at < 0 THEN 'duplicate_of_deleted' ELSE 'duplicate' END,
                      'message_id', s.message_id, 'partition_id', s.uuid,
                      'trace_id', CASE WHEN NOT s.duplicate THEN i.trace[s.ord + 1] END, 'queueName', s.queue)
                                   ORDER BY s.ord)
                    FROM stored s),
        'partition_updates', (SELECT COALESCE(jsonb_agg(jsonb_build_object(
                      'queue_name', l.queue, 'partition_id', l.uuid, 'last_message_id', l.message_id,
                      'last_message_created_at', queend.iso(l.stored_at)) ORDER BY l.partition_id), '[]')
                    FROM (SELECT DISTINCT ON (s.partition_id) s.* FROM stored s WHERE NOT s.duplicate
                           ORDER BY s.partition_id, s.record_offset DESC) AS l)));
END $$;
COMMENT ON FUNCTION queen.push_messages_v3(jsonb, boolean, boolean) IS
'Stores messages at once, all or none: [{"queue", "partition": "Default", "payload": {}, "transactionId": a new id,
"traceId", "producerSub", "index": its place}, …]. Returns {"items": [{index, transaction_id, status, message_id,
partition_id, trace_id, queueName}, …], "partition_updates": [{queue_name, partition_id, last_message_id,
last_message_created_at}, …]}. The status is queued, duplicate or duplicate_of_deleted. The message_id of a duplicate is
that of the older message. An item may have headers and traceparent; ttl, priority, delayMs and deliverAt are errors.
The two flags exist for Queen MQ and have no effect. Call it in autocommit mode: the lanes of the partitions stay locked
until the transaction ends. In a transaction of your own, call queen.push.';

CREATE OR REPLACE FUNCTION queen.push_messages_v2(items jsonb, check_duplicates boolean DEFAULT true,
    check_capacity boolean DEFAULT false) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.push_messages_v3(items, check_duplicates, check_capacity)->'items'
$$;
COMMENT ON FUNCTION queen.push_messages_v2(jsonb, boolean, boolean) IS
'Does the same as queen.push_messages_v3, and returns only the items. Call it in autocommit mode.';
