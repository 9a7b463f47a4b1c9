-- The outbox: messages pushed within transactions of programs, and their way into the log. Owns queend.outbox. Locks:
-- one relay at a time (advisory), then those of push_items.

-- Moves messages of the outbox into the log: at most p_limit and about 8 MB, in the order of their ids, from p_from on.
-- One transaction stores them and deletes them from the outbox, so each is stored exactly once. Returns one row per
-- queue with the number of messages moved. A second concurrent caller gets a row with -1. A session draws ids in the
-- order of its transactions, and the lock is held until the commit. So messages of one session are stored in its order.
-- Messages for an encrypted queue, or larger than payload_most, cannot be stored here. Too large messages come from
-- direct inserts into the outbox, which queen.push does not limit. Such messages are marked and skipped (a row with 0),
-- and delay no other message.
CREATE OR REPLACE FUNCTION queend.relay(p_limit int DEFAULT 1000, p_from bigint DEFAULT 0)
RETURNS TABLE (queue text, moved bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids   bigint[];
    v_large bigint[];
    v       record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1903519077, 1) THEN
        RETURN QUERY SELECT NULL::text, -1::bigint;
        RETURN;
    END IF;
    SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.size > queend.payload_most()) INTO v_ids, v_large
      FROM (SELECT x.id, x.size, sum(x.size) OVER (ORDER BY x.id) - x.size AS before
              FROM (SELECT o.id, octet_length(o.payload::text) AS size FROM queend.outbox o
                     WHERE o.id >= p_from AND o.refused IS NULL
                     ORDER BY o.id LIMIT p_limit) AS x) AS r
     WHERE r.before < 8388608;
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH marked AS (
        UPDATE queend.outbox o SET refused = x.why
          FROM (SELECT u.id, 'the payload has more than ' || queend.payload_most() || ' bytes' AS why
                  FROM unnest(v_large) AS u (id)
                UNION ALL
                SELECT e.id, 'the queue is encrypted: SQL cannot seal what is pushed to it'
                  FROM queend.outbox e JOIN queend.queues q ON q.name = e.queue
                 WHERE e.id = ANY (v_ids) AND e.id <> ALL (COALESCE(v_large, '{}')) AND q.encryption_enabled) AS x
         WHERE o.id = x.id RETURNING o.queue)
    SELECT DISTINCT m.queue, 0::bigint FROM marked m;
    WITH taken AS (DELETE FROM queend.outbox o WHERE o.id = ANY (v_ids) AND o.refused IS NULL RETURNING o.*)
    SELECT array_agg(t.queue ORDER BY t.id) AS queue, array_agg(t.partition ORDER BY t.id) AS partition,
           array_agg(t.transaction_id ORDER BY t.id) AS transaction,
           array_agg(t.payload::text ORDER BY t.id) AS payload, array_agg(t.trace_id ORDER BY t.id) AS trace,
           array_agg(t.headers ORDER BY t.id) AS headers,
           CASE WHEN count(t.due) > 0 THEN array_agg(t.due ORDER BY t.id) END AS due INTO v
      FROM taken t;
    IF v.queue IS NOT NULL THEN
        PERFORM 1 FROM queend.push_items(v.queue, v.partition, v.transaction, v.payload, v.trace, NULL, v.headers,
                                         v.due);
        RETURN QUERY SELECT u.name, count(*) FROM unnest(v.queue) AS u (name) GROUP BY u.name;
    END IF;
END $$;

-- Relays only the first message of the outbox, to find the message on which relay failed. Marks a message that cannot
-- be stored with the reason (refused), so that the others go on. Returns the rows of relay. Raises every error whose
-- cause is not the message (queend/core/pg/sqlstate.pyx has the table).
CREATE OR REPLACE FUNCTION queend.relay_one() RETURNS TABLE (queue text, moved bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1903519077, 1) THEN
        RETURN QUERY SELECT NULL::text, -1::bigint;
        RETURN;
    END IF;
    SELECT o.id INTO v_id FROM queend.outbox o WHERE o.refused IS NULL ORDER BY o.id LIMIT 1;
    BEGIN
        RETURN QUERY SELECT r.queue, r.moved FROM queend.relay(1, v_id) AS r;
    EXCEPTION WHEN data_exception OR check_violation OR feature_not_supported OR program_limit_exceeded THEN
        RETURN QUERY UPDATE queend.outbox o SET refused = SQLERRM WHERE o.id = v_id RETURNING o.queue, 0::bigint;
    END;
END $$;

-- Returns up to which id the outbox need not be searched again, to a caller that found it empty below p_low. Column
-- last: the newest id that was drawn (0: none). Column after: the number of a transaction younger than all that drew
-- those ids (queen.push takes its number before an id). Column oldest: the oldest number of a running transaction. When
-- `oldest` is above an earlier `after`, all of those transactions have ended. An id up to `last` that is missing in the
-- outbox then stays missing. That matters while a long snapshot elsewhere keeps the index entries of deleted rows. If
-- p_low is NULL or all drawn ids are below p_low, after is NULL and no transaction number is spent.
CREATE OR REPLACE FUNCTION queend.outbox_mark(p_low bigint, OUT last bigint, OUT after bigint, OUT oldest bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The id is read first, because the transaction number must be younger.
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END INTO last FROM queend.outbox_id_seq s;
    IF last >= p_low THEN
        after := pg_current_xact_id()::text::bigint;
    END IF;
    oldest := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
END $$;
