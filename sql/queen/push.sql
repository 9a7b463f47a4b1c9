-- Push: within a transaction of your own (push), or at once (push_messages).

CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload json, transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id text := COALESCE(NULLIF(transaction_id, ''), queend.id_make()::text);
BEGIN
    PERFORM queend.item_check(queue, COALESCE(partition, 'Default'), v_id), queend.payload_check(payload::text);
    IF EXISTS (SELECT FROM queend.queues q WHERE q.name = queue AND q.encryption_enabled) THEN
        RAISE feature_not_supported
              USING MESSAGE = format('queue "%s" is encrypted: SQL cannot seal what is pushed to it', queue);
    END IF;
    PERFORM pg_current_xact_id();      -- before an id of the outbox is drawn, see queend.outbox_mark
    INSERT INTO queend.outbox (queue, partition, transaction_id, trace_id, payload)
    VALUES (queue, COALESCE(partition, 'Default'), v_id, trace_id, COALESCE(payload, 'null'));
    RETURN v_id;
END $$;
COMMENT ON FUNCTION queen.push(text, text, json, text, uuid) IS
'Pushes a message within the calling transaction: it is stored if and only if that transaction commits. A daemon then
moves it to its queue (queend.relay), in commit order within a session. Takes no lock that delays others. If partition
is NULL, the message goes to Default. If transaction_id is NULL, an id is made. Returns the transaction id. If the
partition already holds the id when the message arrives, the older message is kept. Errors: 22023 a name that is too
long or empty, 54000 a payload of more than 64 MiB, 0A000 an encrypted queue.';

CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload jsonb, transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT queen.push(queue, partition, payload::json, transaction_id, trace_id)
$$;
COMMENT ON FUNCTION queen.push(text, text, jsonb, text, uuid) IS
'Takes a jsonb payload; see queen.push with json.';

CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload text, transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT queen.push(queue, partition, payload::json, transaction_id, trace_id)
$$;
COMMENT ON FUNCTION queen.push(text, text, text, text, uuid) IS
'Takes a text payload, for literals and drivers that send text; see queen.push with json. The text must be JSON;
otherwise the error is 22P02.';

CREATE OR REPLACE FUNCTION queen.push_messages_v3(items jsonb, check_duplicates boolean DEFAULT true,
    check_capacity boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    i record;
BEGIN
    PERFORM queend.items_served(items);
    SELECT array_agg(x.queue ORDER BY x.ord) AS queue, array_agg(x.partition ORDER BY x.ord) AS partition,
           array_agg(x.transaction ORDER BY x.ord) AS transaction, array_agg(x.payload ORDER BY x.ord) AS payload,
           array_agg(x.trace ORDER BY x.ord) AS trace, array_agg(x.producer ORDER BY x.ord) AS producer,
           array_agg(x.index ORDER BY x.ord) AS index
      INTO i
      FROM (SELECT e.ord, e.v->>'queue' AS queue, COALESCE(e.v->>'partition', 'Default') AS partition,
                   COALESCE(NULLIF(e.v->>'transactionId', ''), queend.id_make()::text) AS transaction,
                   COALESCE(e.v->'payload', '{}')::text AS payload, NULLIF(e.v->>'traceId', '')::uuid AS trace,
                   NULLIF(e.v->>'producerSub', '') AS producer, COALESCE((e.v->>'index')::bigint, e.ord - 1) AS index
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
          FROM queend.push_items(i.queue, i.partition, i.transaction, i.payload, i.trace, i.producer) AS s)
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
'Stores messages at once, all or nothing: [{"queue", "partition": "Default", "payload": {}, "transactionId", "traceId",
"producerSub", "index"}, …]. A transactionId is made if none is given. The index is the position in the list by default.
An item with headers, ttl, priority, delayMs or deliverAt is an error. The two flags are those of the reference server
and have no effect. Returns {"items": [...], "partition_updates": [{queue_name, partition_id, last_message_id,
last_message_created_at}, …]}. An item is {index, transaction_id, status, message_id, partition_id, trace_id,
queueName}. The status is queued, duplicate or duplicate_of_deleted. The message_id of a duplicate is that of the older
message. Use autocommit: the lanes of its partitions stay locked until the transaction ends. In your own transaction,
use queen.push.';

CREATE OR REPLACE FUNCTION queen.push_messages_v2(items jsonb, check_duplicates boolean DEFAULT true,
    check_capacity boolean DEFAULT false) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.push_messages_v3(items, check_duplicates, check_capacity)->'items'
$$;
COMMENT ON FUNCTION queen.push_messages_v2(jsonb, boolean, boolean) IS
'Returns only the items of queen.push_messages_v3. Use autocommit, as for that function.';
