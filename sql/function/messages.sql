-- One message: showing it, burying it, deleting it. A deletion makes a hole, overwrites the payload and removes dead
-- letters and traces; cursors stay. Owns nothing. Locks: those of partition_hold.

-- Returns one message by its partition and record id, from the log or, if the log has lost it, from the dead letters.
-- Returns no row if the message is unknown or deleted. Columns body, n, place: the row that holds it and its 0-based
-- place there (payload NULL). A dead letter that has its payload returns the payload instead. Columns dead_error,
-- dead_retries: of its newest dead letter. Column seal: id of the key its payload is sealed with. Column encrypted: the
-- queue's option.
CREATE OR REPLACE FUNCTION queend.message_show(p_part int, p_id bytea)
RETURNS TABLE (queue text, namespace text, task text, lease_time int, retry_limit int, retry_delay int, ttl int,
               priority int, partition text, record_offset bigint, stored_at bigint, transaction_id text, trace_id uuid,
               producer_sub text, payload text, body bytea, n int, place int,
               dead_error text, dead_retries int, seal text, encrypted boolean, deliver_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_at bigint := queend.message_find(p_part, p_id);
BEGIN
    RETURN QUERY
    WITH dead AS (SELECT d.* FROM queend.dead_letters d
                   WHERE d.partition_id = p_part AND d.record_id = p_id AND (v_at IS NULL OR d.record_offset = v_at)
                   ORDER BY d.id DESC LIMIT 1),
    record AS (
        SELECT v_at AS at, queend.record_time(l.created_at, l.meta, v_at - l.base) AS stored_at, m.transaction_id,
               m.trace_id, m.producer_sub, m.seal, NULL::text AS payload, l.body, l.n, (v_at - l.base)::int AS place,
               m.due
          FROM (SELECT x.* FROM queend.log x WHERE x.partition_id = p_part AND x.base <= v_at
                 ORDER BY x.base DESC LIMIT 1) AS l
          CROSS JOIN LATERAL queend.record_meta(l.meta, (v_at - l.base)::int) AS m
        UNION ALL
        SELECT d.record_offset, d.created_at, d.transaction_id, d.trace_id, d.producer_sub, d.seal, d.payload, b.body,
               b.n, (d.record_offset - b.base)::int, NULL
          FROM dead d
          LEFT JOIN LATERAL (SELECT x.* FROM queend.dead_bodies x
                              WHERE x.partition_id = p_part AND x.base <= d.record_offset AND d.payload IS NULL
                              ORDER BY x.base DESC LIMIT 1) AS b ON true
         WHERE v_at IS NULL)
    SELECT q.name, q.namespace, q.task, q.lease_time, q.retry_limit, q.retry_delay, q.ttl, q.priority, p.name,
           r.at, r.stored_at, COALESCE(r.transaction_id, encode(p_id, 'hex')::uuid::text), r.trace_id, r.producer_sub,
           r.payload, r.body, r.n, r.place, d.error, d.retry_count, r.seal, q.encryption_enabled, r.due
      FROM record r
      JOIN queend.partitions p ON p.id = p_part
      JOIN queend.queues q ON q.id = p.queue_id
      LEFT JOIN dead d ON true;
END $$;

-- Returns the origin of a redriven dead letter from its headers: originTransactionId, originQueue, originPartition and
-- originOffset. NULL if the message was not redriven. The views of the schema queen need this result type: it stays.
CREATE OR REPLACE FUNCTION queend.origin_of(p_headers text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_all jsonb;
BEGIN
    IF p_headers IS NULL OR strpos(p_headers, '"originTransactionId"') = 0 THEN
        RETURN NULL;
    END IF;
    v_all := queend.as_jsonb(p_headers);
    RETURN CASE WHEN v_all ? 'originTransactionId'
                THEN jsonb_build_object('originTransactionId', v_all->'originTransactionId',
                                        'originQueue', v_all->'originQueue',
                                        'originPartition', v_all->'originPartition',
                                        'originOffset', v_all->'originOffset') END;
END $$;

-- Returns what lists show of a record's headers: the origin (origin_of), and in `headers` those that its sender gave.
-- NULL if there is neither.
CREATE OR REPLACE FUNCTION queend.headers_shown(p_headers text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_origin jsonb := queend.origin_of(p_headers);
    v_own    jsonb;
BEGIN
    IF strpos(p_headers, '"headers":{') > 0 THEN
        v_own := queend.as_jsonb(p_headers)->'headers';
    END IF;
    RETURN CASE WHEN v_own IS NULL THEN v_origin
                ELSE jsonb_build_object('headers', v_own) || COALESCE(v_origin, '{}') END;
END $$;

-- Returns headers and origin (headers_shown) of the message at an offset of a partition, from the log or from its dead
-- letter. Parses the extras of a row only if one of them has either.
CREATE OR REPLACE FUNCTION queend.message_beside(part int, message_offset bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    l record;
BEGIN
    SELECT x.base, x.n, x.meta INTO l FROM queend.log x
     WHERE x.partition_id = part AND x.base <= message_offset ORDER BY x.base DESC LIMIT 1;
    IF l.base + l.n > message_offset THEN
        RETURN CASE WHEN position('"originTransactionId"'::bytea IN l.meta) > 0
                         OR position('"headers":{'::bytea IN l.meta) > 0
                    THEN (SELECT queend.headers_shown(m.headers)
                            FROM queend.record_meta(l.meta, (message_offset - l.base)::int) AS m) END;
    END IF;
    RETURN (SELECT queend.headers_shown(d.headers) FROM queend.dead_letters d
             WHERE d.partition_id = part AND d.record_offset = message_offset ORDER BY d.id DESC LIMIT 1);
END $$;

-- Returns the offset of the record with this id (16 bytes) in a partition; NULL if the id is unknown or the record
-- deleted.
CREATE OR REPLACE FUNCTION queend.message_find(p_part int, p_id bytea) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT max(f.found) FROM queend.ids_find(p_part, p_id) AS f
             WHERE NOT EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = f.found));
END $$;

-- Returns the consumer groups of a partition's queue, by name, and whether each has consumed the message at an offset,
-- or is not given it. A group without a cursor in the partition counts as well. Column lease_until: end of the group's
-- lease, 0 unless the lease holds the message.
CREATE OR REPLACE FUNCTION queend.message_groups(p_part int, p_offset bigint)
RETURNS TABLE (name text, consumed boolean, lease_until bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_stored bigint := COALESCE(
        (SELECT CASE WHEN l.base + l.n > p_offset THEN queend.record_time(l.created_at, l.meta, p_offset - l.base) END
           FROM (SELECT x.base, x.n, x.created_at, x.meta FROM queend.log x
                  WHERE x.partition_id = p_part AND x.base <= p_offset ORDER BY x.base DESC LIMIT 1) AS l),
        (SELECT d.created_at FROM queend.dead_letters d
          WHERE d.partition_id = p_part AND d.record_offset = p_offset ORDER BY d.id DESC LIMIT 1));
BEGIN
    RETURN QUERY
    SELECT g.name, queend.group_did(g.committed, g.beyond, g.start_at, p_offset, v_stored)
                   OR queend.is_addressed_away(p_part, p_offset, g.name),
           CASE WHEN g.lease_end >= p_offset THEN g.lease_until ELSE 0 END
      FROM queend.partition_groups(p_part) AS g;
END $$;

-- Moves one message into the dead letters of a consumer group: it is kept there and not delivered any more. A message
-- that is already a dead letter of the group stays one dead letter. A redrive of it now delivers to all groups. Returns
-- NULL if the message is unknown, false if it was already moved. Looks for the message after partition_hold: of
-- several calls at once, one moves it. Creates no group: without a group of the name __QUEUE_MODE__, the dead letter
-- has that name and the group number 0. Error 42704: the queue has no group of any other name.
CREATE OR REPLACE FUNCTION queend.message_bury(p_part int, p_id bytea, p_group text, p_error text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_at    bigint;
    v_group int;
    v_dead  bigint;
BEGIN
    IF NOT queend.partition_hold(p_part) THEN
        RETURN NULL;
    END IF;
    v_at := queend.message_find(p_part, p_id);
    IF v_at IS NULL THEN
        RETURN CASE WHEN EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = p_part AND d.record_id = p_id)
                         THEN false END;
    END IF;
    v_group := COALESCE((SELECT g.id FROM queend.consumer_groups g JOIN queend.partitions p ON p.queue_id = g.queue_id
                          WHERE p.id = p_part AND g.name = p_group), 0);
    IF v_group = 0 AND p_group <> '__QUEUE_MODE__' THEN
        RAISE undefined_object USING MESSAGE = 'Consumer group not found';
    END IF;
    FOR v_try IN 1 .. 2 LOOP
        v_dead := (SELECT max(d.id) FROM queend.dead_letters d
                    WHERE d.partition_id = p_part AND d.record_offset = v_at
                      AND COALESCE(d.group_name = p_group, d.group_id = v_group));
        EXIT WHEN v_dead IS NOT NULL;
        PERFORM queend.dead_letter(p_part, v_group, ARRAY[v_at], ARRAY[p_error], 0);
    END LOOP;
    UPDATE queend.dead_letters d SET from_all = true, group_name = p_group WHERE d.id = v_dead;
    PERFORM queend.hole_make(p_part, v_at);
    PERFORM queend.leases_moot(ARRAY[p_part]);
    RETURN true;
END $$;

-- Deletes one message by its partition and record id. Returns false if the message is unknown. The message is not
-- delivered any more, its payload is overwritten (messages_erase), and its dead letters and traces are deleted. Cursors
-- stay where they are. The id stays with the row until retention removes the row. Looks for the message after
-- partition_hold: of several calls at once, one returns true.
CREATE OR REPLACE FUNCTION queend.message_delete(p_part int, p_id bytea) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
DECLARE
    v_at   bigint;
    v_dead bigint[];
BEGIN
    IF NOT queend.partition_hold(p_part) THEN
        RETURN false;
    END IF;
    v_at := queend.message_find(p_part, p_id);
    v_dead := ARRAY(SELECT DISTINCT d.record_offset FROM queend.dead_letters d
                     WHERE d.partition_id = p_part AND d.record_id = p_id);
    PERFORM queend.messages_erase(p_part, v_dead || ARRAY(SELECT f.found FROM queend.ids_find(p_part, p_id) AS f));
    PERFORM queend.traces_drop(p_part, ARRAY[p_id]);
    RETURN v_at IS NOT NULL OR v_dead <> '{}';
END $$;
