-- One cycle of a stream: state, messages for the sink and the acknowledgement of what they were made of, all or nothing.
--   p_version            the caller's catalogue version for the partitions in p_row; another one: stale, nothing was done
--   p_query, p_part      whose state; one cycle of the pair at a time
--   p_set, p_value, p_end, p_unset   keys to write with their values and where their windows end, keys to drop; none twice
--   p_lanes … p_meta     the push, as in queend.push (plain bodies)
--   p_group, p_ack       of the acknowledgement: consumer group and record id, NULL = none
--   p_lease              must be the live one; NULL = whoever holds it
--   p_count, p_dead, p_error, p_release   as in stream_ack. A lease that is kept must be moved along, or a cycle that is sent again would count twice
-- A cycle without an acknowledgement that sends messages and drops keys closes windows beside the consumer, which may close the same ones:
-- both have read them, and each would send what is in them. So it is refused while the group holds a lease there, and when a key it drops is
-- gone; its client reads again at its next tick.
-- error: why nothing was done. queue: of the partition. base, created_at: per push row; dups: {row: [[offset or -1, …], [moment, …]]} of
-- the push rows that held duplicates, as push tells them. group_id, committed, head, released: of the acknowledgement.
--
-- Locks: the partition's row against deletion (FOR KEY SHARE), the query shared and (query, partition), both advisory: (query id << 32) and
-- (query id << 32) + partition id; then as ever lanes, cursor, and last rows of stream_state. Everything is checked under
-- them before anything is changed.
CREATE OR REPLACE FUNCTION queend.stream_cycle(p_version bigint, p_query uuid, p_part int,
    p_set text[], p_value text[], p_end double precision[], p_unset text[],
    p_lanes int[], p_row int[], p_skip int[], p_n int[], p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    p_group text, p_ack bytea, p_lease uuid, p_count int, p_dead boolean, p_error text, p_release boolean,
    OUT error text, OUT stale bigint, OUT queue text, OUT base bigint[], OUT created_at bigint[], OUT dups json,
    OUT group_id int, OUT committed bigint, OUT head bigint, OUT released boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now   bigint;
    v_query int;
    v_queue int;
    v_at    bigint;
    k       queend.cursors;
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
        IF p_lease IS NULL THEN
            PERFORM queend.cursors_open(ARRAY[p_part], ARRAY[stream_cycle.group_id], ARRAY[true]);
        END IF;
        SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = stream_cycle.group_id FOR NO KEY UPDATE;
        v_at := (queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ack))[1];
        error := CASE WHEN v_at < 0 THEN 'Message not found'
                      WHEN p_lease IS NOT NULL AND (k.lease_id = p_lease AND k.lease_until > v_now) IS NOT TRUE THEN 'Invalid or expired lease'
                      WHEN p_lease IS NOT NULL AND v_at <= k.committed AND NOT p_release AND NOT p_dead THEN 'Already acknowledged'
                      WHEN k.group_id IS NULL THEN 'Unknown consumer_group' END;
        IF error IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;

    IF p_ack IS NULL AND cardinality(p_row) > 0 AND cardinality(p_unset) > 0 THEN
        error := CASE WHEN EXISTS (SELECT FROM queend.consumer_groups g JOIN queend.cursors c ON c.partition_id = p_part AND c.group_id = g.id
                                    WHERE g.queue_id = v_queue AND g.name = p_group AND c.lease_until > v_now)
                      THEN 'The partition is being consumed: try again'
                      WHEN EXISTS (SELECT FROM unnest(p_unset) AS u (key) WHERE NOT EXISTS (
                           SELECT FROM queend.stream_state s WHERE s.query_id = v_query AND s.partition_id = p_part AND s.key = u.key))
                      THEN 'The state has changed since it was read: read it again' END;
        IF error IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;

    IF cardinality(p_unset) > 0 THEN
        DELETE FROM queend.stream_state s WHERE s.query_id = v_query AND s.partition_id = p_part AND s.key = ANY (p_unset);
    END IF;
    IF cardinality(p_set) > 0 THEN
        INSERT INTO queend.stream_state AS s (updated_at, window_end, query_id, partition_id, key, value)
        SELECT v_now, u.until, v_query, p_part, u.key, u.value FROM unnest(p_set, p_value, p_end) AS u (key, value, until)
        ON CONFLICT (query_id, partition_id, key) DO UPDATE SET updated_at = excluded.updated_at, window_end = excluded.window_end, value = excluded.value;
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
    END IF;
END $$;
