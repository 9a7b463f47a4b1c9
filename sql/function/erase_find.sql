-- Search for an erasure: pages of all tables that may hold a payload of a queue. A daemon reads these payloads, since
-- SQL cannot unpack or open all of them, and passes the matches to messages_erase. Reads only, except erase_ids. Locks:
-- the queue, then those of messages_erase, in erase_ids alone.

-- Reads rows of a queue's log in the order (partition_id, base), from a place on, including deleted records. If p_name
-- is given, only in this partition. Ends after p_rows rows, p_bytes of unpacked bodies or p_parts partitions. The last
-- result row has n = 0 and the place to continue from; partition_id NULL: the end.
CREATE OR REPLACE FUNCTION queend.erase_log(p_queue int, p_name text, p_part int, p_base bigint, p_rows int,
    p_bytes bigint, p_parts int)
RETURNS TABLE (partition_id int, base bigint, n int, ids bytea, body bytea, meta bytea)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_rows  int := p_rows;
    v_bytes bigint := p_bytes;
    v_parts int := p_parts;
    part    record;
    l       record;
BEGIN
    FOR part IN
        SELECT x.id FROM queend.partitions x
         WHERE x.queue_id = p_queue AND x.id >= p_part AND (p_name IS NULL OR x.name = p_name)
         ORDER BY x.id LIMIT p_parts + 1
    LOOP
        IF v_parts <= 0 THEN
            RETURN QUERY SELECT part.id, 0::bigint, 0, ''::bytea, ''::bytea, ''::bytea;
            RETURN;
        END IF;
        v_parts := v_parts - 1;
        FOR l IN
            SELECT x.base, x.n, x.ids, x.body, x.meta FROM queend.log x
             WHERE x.partition_id = part.id AND x.base >= CASE WHEN part.id = p_part THEN p_base ELSE 0 END
               AND x.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = part.id), 0)
             ORDER BY x.base
        LOOP
            IF v_rows <= 0 OR v_bytes <= 0 THEN
                RETURN QUERY SELECT part.id, l.base, 0, ''::bytea, ''::bytea, ''::bytea;
                RETURN;
            END IF;
            v_rows := v_rows - 1;
            v_bytes := v_bytes - queend.body_size(l.body);
            RETURN QUERY SELECT part.id, l.base, l.n, l.ids, l.body, l.meta;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT NULL::int, 0::bigint, 0, ''::bytea, ''::bytea, ''::bytea;
END $$;

-- Returns ids of dead letters of a queue in the order (failed_at, id), behind a place, for dead_show. If p_name is
-- given, only in this partition.
CREATE OR REPLACE FUNCTION queend.erase_dead(p_queue int, p_name text, p_failed bigint, p_after bigint, p_most int)
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT d.id FROM queend.dead_letters d
     WHERE d.queue_id = p_queue AND d.failed_at >= p_failed AND (d.failed_at > p_failed OR d.id > p_after)
       AND (p_name IS NULL OR d.partition_id = (SELECT p.id FROM queend.partitions p
                                                 WHERE p.queue_id = p_queue AND p.name = p_name))
     ORDER BY d.queue_id, d.failed_at, d.id LIMIT p_most;
END $$;

-- Reads traces of a queue in the order (partition_id, record_id, ord), behind a place. If p_name is given, only in this
-- partition. Ends after p_most traces or p_parts partitions. The last result row has id NULL and the place to continue
-- behind; partition_id NULL there: the end.
CREATE OR REPLACE FUNCTION queend.erase_traces(p_queue int, p_name text, p_part int, p_record bytea, p_ord bigint,
    p_most int, p_parts int)
RETURNS TABLE (id uuid, partition_id int, record_id bytea, ord bigint, transaction_id text, data text)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_left  int := p_most;
    v_parts int := p_parts;
    part    record;
    t       record;
BEGIN
    FOR part IN
        SELECT x.id FROM queend.partitions x
         WHERE x.queue_id = p_queue AND x.id >= p_part AND (p_name IS NULL OR x.name = p_name)
         ORDER BY x.id LIMIT p_parts + 1
    LOOP
        IF v_parts <= 0 THEN
            RETURN QUERY SELECT NULL::uuid, part.id, ''::bytea, 0::bigint, NULL::text, NULL::text;
            RETURN;
        END IF;
        v_parts := v_parts - 1;
        FOR t IN
            SELECT x.* FROM queend.traces x
             WHERE x.partition_id = part.id
               AND (part.id <> p_part OR (x.record_id, x.ord) > (p_record, p_ord))
             ORDER BY x.partition_id, x.record_id, x.ord LIMIT v_left + 1
        LOOP
            IF v_left <= 0 THEN
                RETURN QUERY SELECT NULL::uuid, partition_id, record_id, ord, NULL::text, NULL::text;
                RETURN;
            END IF;
            v_left := v_left - 1;
            id := t.id; partition_id := t.partition_id; record_id := t.record_id; ord := t.ord;
            transaction_id := t.transaction_id; data := t.data;
            RETURN NEXT;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT NULL::uuid, NULL::int, ''::bytea, 0::bigint, NULL::text, NULL::text;
END $$;

-- Erases the messages of a queue with one of these record ids (NULL: all), and those redriven from such a dead letter.
-- Reads p_rows rows of the log from a place on, and the dead letters and traces of their partitions. If p_name is
-- given, only in this partition. Returns messages, dead and traces (how many were erased or deleted). Returns in
-- next_part and next_base the place to continue from, NULL at the end. Takes the lock of the queue first, so that no
-- redrive moves a dead letter to the log between the two.
CREATE OR REPLACE FUNCTION queend.erase_ids(p_queue int, p_name text, p_ids bytea[], p_part int, p_base bigint,
    p_rows int, OUT messages int, OUT dead int, OUT traces int, OUT next_part int, OUT next_base bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_parts int[];
    v_base  bigint[];
    v_part  int;
    v_at    bigint[];
    d       record;
BEGIN
    messages := 0; dead := 0; traces := 0;
    PERFORM FROM queend.queues q WHERE q.id = p_queue FOR NO KEY UPDATE;
    SELECT array_agg(l.partition_id) FILTER (WHERE l.n > 0), array_agg(l.base + i.ord) FILTER (WHERE l.n > 0),
           max(l.partition_id) FILTER (WHERE l.n = 0), max(l.base) FILTER (WHERE l.n = 0)
      INTO v_parts, v_base, next_part, next_base
      FROM queend.erase_log(p_queue, p_name, p_part, p_base, p_rows, 9223372036854775807, 1000) AS l
      LEFT JOIN LATERAL (
           SELECT s.ord FROM queend.id_spread(l.ids) AS s WHERE p_ids IS NULL OR s.id = ANY (p_ids)
            UNION SELECT r.ord FROM queend.meta_records(l.meta) AS r CROSS JOIN LATERAL queend.meta_piece(r.piece) AS m
             WHERE queend.record_id(queend.origin_of(m.headers)->>'originTransactionId') = ANY (p_ids)) AS i ON true
     WHERE l.n = 0 OR i.ord IS NOT NULL;
    FOR v_part IN
        SELECT p.id FROM queend.partitions p
         WHERE p.queue_id = p_queue AND p.id >= p_part AND (next_part IS NULL OR p.id <= next_part)
           AND (p_name IS NULL OR p.name = p_name) ORDER BY p.id
    LOOP
        v_at := ARRAY(SELECT u.at FROM unnest(v_parts, v_base) AS u (part, at) WHERE u.part = v_part
                       UNION SELECT x.record_offset FROM queend.dead_letters x
                              WHERE x.partition_id = v_part AND (p_ids IS NULL OR x.record_id = ANY (p_ids)
                                    OR queend.record_id(queend.origin_of(x.headers)->>'originTransactionId')
                                       = ANY (p_ids)));
        IF v_at <> '{}' THEN
            SELECT * INTO d FROM queend.messages_erase(v_part, v_at);
            messages := messages + d.messages;
            dead := dead + d.dead;
            traces := traces + d.traces;
        END IF;
        traces := traces + queend.trace_remove(ARRAY(SELECT t.id FROM queend.traces t WHERE t.partition_id = v_part
                                                        AND (p_ids IS NULL OR t.record_id = ANY (p_ids))));
    END LOOP;
END $$;
