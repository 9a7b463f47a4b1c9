-- Streams: queries, the state they keep per partition and key, and cycles over it. Owns queend.stream_queries and
-- queend.stream_state. Locks: in the order given at stream_cycle.

-- Runs one cycle of a stream: state, messages for the sink and the acknowledgment of their source messages, all or
-- nothing.
--   p_version   The caller's catalogue version for the partitions in p_row. If it differs: stale, and nothing was done.
--   p_query, p_part   Query and partition; one cycle of the pair at a time.
--   p_set, p_value, p_end, p_unset   Keys to write with their values and window ends, keys to delete; each key once.
--   p_lanes … p_meta  The push, as in queend.push (uncompressed bodies).
--   p_group, p_ack    Of the acknowledgment: consumer group and record id, NULL: no acknowledgment.
--   p_lease     Must be the live one. NULL: the group must hold one on the record, or have done the record.
--   p_count, p_dead, p_error, p_release   As in stream_ack. A lease that is kept must be moved along, or a cycle that
--                                         is sent again would count twice.
--   p_waited    Milliseconds since the request came.
-- A cycle without an acknowledgment that deletes keys closes windows beside the consumer, which may close or extend the
-- same windows. It is bound to the state that its client has read (stream_bound). If all of its keys are gone, it
-- stores nothing and `gone` is true. If a key has changed, it is refused, and its client reads again at its next tick.
-- While the group holds a lease, `waits` is true and nothing was done: the caller asks again, until 2 s have passed.
-- After that the cycle is done, and a cycle of the lease that rests on the same windows is refused.
--
-- Returns in error why nothing was done. Column queue: of the partition. Columns base, created_at: per push row. Column
-- dups: {row: [[offset or -1, …], [time, …]]} of the push rows that held duplicates, as push returns them. Columns
-- group_id, committed, head, released: of the acknowledgment.
--
-- Locks: the partition's row against deletion (FOR KEY SHARE), then two advisory locks, then lanes, cursor, and last
-- rows of stream_reads, stream_flushes and stream_state. The advisory locks are the query, shared, at (query id << 32),
-- and (query, partition) at (query id << 32) + partition id. Checks everything under these locks before the first
-- change.
CREATE OR REPLACE FUNCTION queend.stream_cycle(p_version bigint, p_query uuid, p_part int,
    p_set text[], p_value text[], p_end double precision[], p_unset text[],
    p_lanes int[], p_row int[], p_skip int[], p_n int[], p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[],
    p_body bytea[], p_meta bytea[], p_group text, p_ack bytea, p_lease uuid, p_count int, p_dead boolean, p_error text,
    p_release boolean, p_waited int, OUT error text, OUT stale bigint, OUT queue text, OUT base bigint[],
    OUT created_at bigint[], OUT dups json, OUT group_id int, OUT committed bigint, OUT head bigint,
    OUT released boolean, OUT waits boolean, OUT gone boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now   bigint;
    v_state bigint;
    v_query int;
    v_queue int;
    v_at    bigint;
    k       queend.cursors;
    b       record;
BEGIN
    SELECT p.queue_id INTO v_queue FROM queend.partitions p WHERE p.id = p_part FOR KEY SHARE;
    queue := (SELECT q.name FROM queend.queues q WHERE q.id = v_queue);
    v_query := (SELECT q.id FROM queend.stream_queries q WHERE q.query_uuid = p_query);
    IF queue IS NULL OR v_query IS NULL THEN
        error := CASE WHEN v_query IS NULL THEN 'Unknown query_id' ELSE 'Unknown partition_id' END;
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(v_query::bigint << 32);
    PERFORM pg_advisory_xact_lock(v_query::bigint << 32 | p_part);
    PERFORM pg_advisory_xact_lock(1903519076, lane) FROM unnest(p_lanes) AS lane;
    IF cardinality(p_row) > 0 THEN
        stale := (SELECT c.version FROM queend.catalog c WHERE c.version <> p_version);
        IF stale IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;

    v_now := queend.now_us();
    IF p_ack IS NOT NULL THEN
        group_id := (SELECT g.id FROM queend.consumer_groups g WHERE g.queue_id = v_queue AND g.name = p_group);
        SELECT c.* INTO k FROM queend.cursors c
         WHERE c.partition_id = p_part AND c.group_id = stream_cycle.group_id FOR NO KEY UPDATE;
        v_at := (queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ack))[1];
        IF v_at < 0 AND (queend.ack_found(k, p_part, p_lease, p_ack, v_now))[1] = -3 THEN
            -- Retention has removed the record and all before it: that counts as done.
            v_at := (SELECT f.floor - 1 FROM queend.floors f WHERE f.partition_id = p_part);
            p_release := p_release OR p_dead;
            p_dead := false;
        END IF;
        error := CASE WHEN v_at < 0 THEN 'Message not found'
                      WHEN p_lease IS NOT NULL AND (k.lease_id = p_lease AND k.lease_until > v_now) IS NOT TRUE
                           THEN 'Invalid or expired lease'
                      WHEN p_lease IS NULL AND group_id IS NOT NULL
                           AND (v_at <= k.committed OR k.lease_until > v_now AND v_at <= k.lease_end) IS NOT TRUE
                           THEN 'Invalid or expired lease: the consumer group holds none on this message'
                      WHEN p_lease IS NOT NULL AND v_at <= k.committed AND NOT p_release AND NOT p_dead
                           THEN 'Already acknowledged'
                      WHEN k.group_id IS NULL THEN 'Unknown consumer_group' END;
        IF error IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;

    -- The time is later than every remembered read, even if the clock was set back.
    v_state := GREATEST(v_now, (SELECT max(r.last_at) + 1 FROM queend.stream_reads r
                                 WHERE r.query_id = v_query AND r.partition_id = p_part));
    IF p_ack IS NULL AND cardinality(p_unset) > 0 THEN
        SELECT f.* INTO b FROM queend.stream_bound(v_query, p_part, p_unset, v_now - p_waited * 1000::bigint,
                                                   cardinality(p_row) > 0) AS f;
        -- The lock keeps pops of the group away until the windows are closed.
        SELECT c.* INTO k FROM queend.cursors c
         WHERE c.partition_id = p_part AND c.group_id = (SELECT g.id FROM queend.consumer_groups g
                                                          WHERE g.queue_id = v_queue AND g.name = p_group)
           FOR NO KEY UPDATE;
        IF k.lease_until <= v_now THEN
            k.lease_id := NULL;
        END IF;
        waits := b.verdict = 'same' AND k.lease_id IS NOT NULL AND p_waited < 2000;
        IF waits THEN
            error := 'The partition is being consumed: try again';
            RETURN;
        END IF;
        gone := b.verdict = 'gone' AND cardinality(p_row) > 0;
        PERFORM queend.stream_answered(v_query, p_part, b.ripe, b.keyset, v_now - p_waited * 1000::bigint);
        IF b.verdict = 'changed' AND (cardinality(p_row) > 0 OR EXISTS (
               SELECT FROM queend.stream_state s
                WHERE s.query_id = v_query AND s.partition_id = p_part AND s.key = ANY (p_unset))) THEN
            error := 'The state has changed since it was read: read it again';
        END IF;
        IF gone OR error IS NOT NULL THEN
            RETURN;
        END IF;
        IF k.lease_id IS NOT NULL THEN
            PERFORM queend.stream_flushed(v_query, p_part, k.lease_id, p_unset, v_state);
        END IF;
    ELSIF p_ack IS NOT NULL AND cardinality(p_set) + cardinality(p_unset) > 0 THEN
        IF p_lease IS NOT NULL AND queend.stream_overtaken(v_query, p_part, p_lease, p_set || p_unset) THEN
            error := 'The state has changed since it was read: read it again';
            RETURN;
        END IF;
        PERFORM queend.stream_answered(v_query, p_part, false, NULL, v_state);
    END IF;

    IF cardinality(p_unset) > 0 THEN
        DELETE FROM queend.stream_state s
         WHERE s.query_id = v_query AND s.partition_id = p_part AND s.key = ANY (p_unset);
    END IF;
    IF cardinality(p_set) > 0 THEN
        INSERT INTO queend.stream_state AS s (updated_at, window_end, query_id, partition_id, key, value)
        SELECT v_state, u.until, v_query, p_part, u.key, u.value
          FROM unnest(p_set, p_value, p_end) AS u (key, value, until)
        ON CONFLICT (query_id, partition_id, key) DO UPDATE
           SET updated_at = excluded.updated_at, window_end = excluded.window_end, value = excluded.value;
    END IF;
    IF cardinality(p_row) > 0 THEN
        SELECT array_agg(s.base ORDER BY s.ord), array_agg(s.created_at ORDER BY s.ord),
               json_object_agg(s.ord, json_build_array(s.dup_offset, s.dup_at)) FILTER (WHERE s.status = 1)
          INTO base, created_at, dups
          FROM queend.push(0, '{}', p_row, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta) AS s
         WHERE s.status IN (0, 1);
        IF cardinality(base) IS DISTINCT FROM cardinality(p_row) THEN
            RAISE EXCEPTION 'push has refused what cannot be refused';
        END IF;
    END IF;
    IF p_ack IS NOT NULL THEN
        SELECT a.committed, a.head, a.released INTO committed, head, released
          FROM queend.stream_ack(p_part, group_id, v_at, p_lease, p_count, p_dead, p_error, p_release) AS a;
        IF released THEN
            DELETE FROM queend.stream_flushes f
             WHERE f.query_id = v_query AND f.partition_id = p_part AND f.lease_id = p_lease;
        END IF;
    END IF;
END $$;

-- Applies the acknowledgment of a cycle: moves the cursor forward to the record at p_at, past all records before it. A
-- failed record becomes a dead letter. If p_release is true, or the record failed, the lease is given back even if part
-- of the delivery is left. Parameter p_whole: the number of records that the caller says it has done. If these are the
-- whole delivery, the cursor moves to the end of it. A client that sorts by ids of its producer may name another record
-- than the last. Requires that the cursor is locked and was checked.
CREATE OR REPLACE FUNCTION queend.stream_ack(p_part int, p_group int, p_at bigint, p_lease uuid, p_whole int,
    p_dead boolean, p_error text, p_release boolean, OUT committed bigint, OUT head bigint, OUT released boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    k     queend.cursors;
    v_new record;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    IF p_dead AND p_at > k.committed AND (k.beyond @> p_at) IS NOT TRUE THEN
        PERFORM queend.dead_letter(p_part, p_group, ARRAY[p_at], ARRAY[p_error], k.retries);
    END IF;
    committed := GREATEST(k.committed, p_at);
    IF NOT p_dead AND p_release AND k.lease_id = p_lease AND p_at > k.committed AND p_at <= k.lease_end
       AND p_whole = k.lease_end - k.committed THEN
        committed := k.lease_end;
    END IF;
    IF committed > k.committed THEN
        SELECT w.* INTO v_new
          FROM queend.done_with(p_part, p_group, k.committed, k.beyond,
                                int8multirange(int8range(k.committed + 1, committed, '[]'))) AS w;
        committed := v_new.committed;
        k.beyond := v_new.beyond;
    END IF;
    released := (p_dead OR p_release) AND (p_lease IS NOT NULL OR p_at > k.committed);
    head := queend.head(p_part);
    UPDATE queend.cursors c
       SET committed   = stream_ack.committed,
           beyond      = k.beyond,
           row_base    = COALESCE((SELECT l.base FROM queend.log l
                                    WHERE l.partition_id = p_part AND l.base <= stream_ack.committed + 1
                                    ORDER BY l.base DESC LIMIT 1), 0),
           lease_id    = CASE WHEN released THEN '00000000-0000-0000-0000-000000000000' ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retries     = CASE WHEN released THEN 0 ELSE k.retries END,
           consumed_at = queend.now_us()
     WHERE c.partition_id = p_part AND c.group_id = p_group;
END $$;

-- Returns the state of a partition in a query, by key. Optional filters, which combine: these keys, keys with this
-- prefix, windows that end at or before p_ripe (ms). After p_most bytes of keys and values a row whose key is NULL says
-- that there is more. Remembers the read (stream_reads.sql) without waiting for the disk: after a crash that forgot a
-- read, its cycle is refused and the client reads again.
CREATE OR REPLACE FUNCTION queend.stream_state(p_query uuid, p_part int, p_keys text[], p_prefix text,
    p_ripe double precision, p_most bigint)
RETURNS TABLE (key text, value text, updated_at bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_query int := (SELECT q.id FROM queend.stream_queries q WHERE q.query_uuid = p_query);
    v_left  bigint := p_most;
    v_keys  text[] := '{}';
    v_seen  bigint := 0;
    s       record;
BEGIN
    IF v_query IS NULL OR p_part IS NULL THEN
        RETURN;
    END IF;
    FOR s IN SELECT t.key, t.value, t.updated_at FROM queend.stream_state t
              WHERE t.query_id = v_query AND t.partition_id = p_part
                AND (p_keys IS NULL OR t.key = ANY (p_keys)) AND (p_prefix IS NULL OR starts_with(t.key, p_prefix))
                AND t.key >= COALESCE(p_prefix, '') AND (p_ripe IS NULL OR t.window_end <= p_ripe)
              ORDER BY t.key LOOP
        v_left := v_left - octet_length(s.key) - octet_length(s.value);
        IF v_left < 0 THEN
            RETURN QUERY SELECT NULL::text, NULL::text, NULL::bigint;
            RETURN;
        END IF;
        key := s.key;
        value := s.value;
        updated_at := s.updated_at;
        v_keys := v_keys || s.key;
        v_seen := GREATEST(v_seen, s.updated_at);
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM queend.stream_read(v_query, p_part, p_ripe IS NOT NULL, v_keys, v_seen);
END $$;

-- Creates a query or finds it by its name. If the hash of its operators changed, p_reset decides: true deletes all its
-- state and keeps its id, false changes nothing and answers mismatch. The same hash keeps the state, whatever p_reset
-- says. A reset waits for the running cycles of the query, and holds off new ones.
CREATE OR REPLACE FUNCTION queend.stream_register(p_name text, p_source text, p_sink text, p_hash text, p_reset boolean,
    OUT query uuid, OUT fresh boolean, OUT reset boolean, OUT mismatch boolean)
LANGUAGE plpgsql AS $$
DECLARE
    q queend.stream_queries;
BEGIN
    reset := false;
    mismatch := false;
    INSERT INTO queend.stream_queries AS s (name, source_queue, sink_queue, config_hash) VALUES (p_name, p_source,
            p_sink, p_hash)
    ON CONFLICT (name) DO NOTHING RETURNING s.query_uuid INTO query;
    fresh := FOUND;
    IF fresh THEN
        RETURN;
    END IF;
    SELECT s.* INTO q FROM queend.stream_queries s WHERE s.name = p_name FOR UPDATE;
    query := q.query_uuid;
    reset := p_reset AND q.config_hash <> p_hash;
    mismatch := NOT p_reset AND q.config_hash <> p_hash;
    IF mismatch THEN
        RETURN;
    END IF;
    IF reset THEN
        PERFORM pg_advisory_xact_lock(q.id::bigint << 32);
        DELETE FROM queend.stream_state s WHERE s.query_id = q.id;
        DELETE FROM queend.stream_reads r WHERE r.query_id = q.id;
        DELETE FROM queend.stream_flushes f WHERE f.query_id = q.id;
    END IF;
    UPDATE queend.stream_queries s
       SET source_queue = p_source, sink_queue = p_sink, config_hash = p_hash, updated_at = now()
     WHERE s.id = q.id AND (s.source_queue, s.sink_queue, s.config_hash) IS DISTINCT FROM (p_source, p_sink, p_hash);
END $$;
