-- A message that is stored if, and only if, the transaction it is called in commits; a daemon moves it into its queue right after
-- (function/relay.sql), in the order of commits as far as one session goes. Takes no lock anybody waits for.
-- partition NULL: Default; transaction_id NULL: one is made. Returns the transaction id. A partition that holds the id already when
-- the message arrives there keeps the older one. Errors: 22023 a name that is too long or empty, 0A000 the queue is encrypted.
CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload json, transaction_id text DEFAULT NULL, trace_id uuid DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id text := COALESCE(NULLIF(transaction_id, ''), queend.id_make()::text);
BEGIN
    PERFORM queend.item_check(queue, COALESCE(partition, 'Default'), v_id);
    IF EXISTS (SELECT FROM queend.queues q WHERE q.name = queue AND q.encryption_enabled) THEN
        RAISE feature_not_supported USING MESSAGE = format('queue "%s" is encrypted: SQL cannot seal what is pushed to it', queue);
    END IF;
    PERFORM pg_current_xact_id();      -- before an id of the outbox is drawn: see queend.outbox_mark
    INSERT INTO queend.outbox (queue, partition, transaction_id, trace_id, payload)
    VALUES (queue, COALESCE(partition, 'Default'), v_id, trace_id, COALESCE(payload, 'null'));
    RETURN v_id;
END $$;
CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload jsonb, transaction_id text DEFAULT NULL, trace_id uuid DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT queen.push(queue, partition, payload::json, transaction_id, trace_id)
$$;
-- For literals and drivers that send text: it must be JSON (22P02 otherwise).
CREATE OR REPLACE FUNCTION queen.push(queue text, partition text, payload text, transaction_id text DEFAULT NULL, trace_id uuid DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT queen.push(queue, partition, payload::json, transaction_id, trace_id)
$$;
