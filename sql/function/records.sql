-- Records for readers of SQL, one per row. Reads only. Views of the schema queen depend on the functions whose comment
-- says so: their result types never change.

-- Returns the records of a partition from an offset on, one per row, for callers that read SQL; deleted records are
-- left out. Column state: plain, packed (a compressed row) or sealed. Only queend can read a packed or sealed payload,
-- which is NULL here. Column origin: see origin_of; NULL for a message that was not redriven. The extras of a row are
-- parsed once.
CREATE OR REPLACE FUNCTION queend.records(p_part int, p_first bigint, p_take bigint)
RETURNS TABLE (record_offset bigint, record_id bytea, stored_at bigint, transaction_id text, trace_id uuid,
               producer_sub text, payload text, state text, origin jsonb)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    l       record;
    v_body  bytea;
    v_holes boolean := EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part);
BEGIN
    FOR l IN SELECT x.* FROM queend.log x
              WHERE x.partition_id = p_part AND x.base >= queend.row_of(p_part, p_first) AND x.base - p_first < p_take
              ORDER BY x.base LOOP
        v_body := l.body || ''::bytea;      -- read from TOAST once
        RETURN QUERY
        SELECT l.base + i.ord, i.id, COALESCE(t.times[i.ord + 1], l.created_at),
               COALESCE(m.transaction_id, encode(i.id, 'hex')::uuid::text), m.trace_id, m.producer_sub,
               CASE WHEN m.seal IS NULL
                         THEN convert_from(substr(v_body, b.starts[i.ord + 1] + 1, b.sizes[i.ord + 1]), 'UTF8') END,
               CASE WHEN m.seal IS NOT NULL THEN 'sealed' WHEN b.sizes IS NULL THEN 'packed' ELSE 'plain' END,
               CASE WHEN m.headers IS NOT NULL THEN queend.origin_of(m.headers) END
          FROM queend.id_spread(l.ids) AS i
          CROSS JOIN queend.body_open(v_body, l.n) AS b
          CROSS JOIN queend.record_times(l.created_at, l.meta) AS t (times)
          LEFT JOIN (SELECT r.ord, p.* FROM queend.meta_records(l.meta) AS r
                       CROSS JOIN LATERAL queend.meta_piece(r.piece) AS p) AS m ON m.ord = i.ord
         WHERE l.base + i.ord >= p_first AND l.base + i.ord - p_first < p_take
           AND NOT (v_holes
                    AND EXISTS (SELECT FROM queend.holes h
                                 WHERE h.partition_id = p_part AND h.record_offset = l.base + i.ord))
         ORDER BY i.ord;
    END LOOP;
END $$;

-- Returns the messages of a partition, by the partition's number, in order. The views of the schema queen need this
-- result type: it stays.
CREATE OR REPLACE FUNCTION queend.records_all(part int)
RETURNS TABLE (id uuid, transaction_id text, trace_id uuid, payload_text text, created_at timestamptz,
               producer_sub text, message_offset bigint, payload_state text, origin jsonb)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT queend.message_id(r.stored_at, part, r.record_offset), r.transaction_id, r.trace_id, r.payload,
           queend.moment(r.stored_at), r.producer_sub, r.record_offset, r.state, r.origin
      FROM queend.records(part, 0, 9223372036854775807) AS r;
END $$;

-- Returns the message at an offset of a partition; a zero id and NULL if the log does not hold it. The views of the
-- schema queen need this result type: it stays.
CREATE OR REPLACE FUNCTION queend.cursor_message(part int, message_offset bigint, OUT id uuid,
    OUT created_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_at bigint := queend.record_stored(part, message_offset);
BEGIN
    id := COALESCE(queend.message_id(v_at, part, message_offset), '00000000-0000-0000-0000-000000000000');
    created_at := queend.moment(v_at);
END $$;

-- Returns the offset and the time of the newest stored message of a partition; NULL if all were deleted or removed.
CREATE OR REPLACE FUNCTION queend.newest_stored(p_part int, OUT at bigint, OUT stored bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    e record;
BEGIN
    SELECT x.floor, x.head, x.written_at INTO e FROM queend.log_end(p_part) AS x;
    IF NOT EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = e.head - 1) THEN
        at := CASE WHEN e.head > e.floor THEN e.head - 1 END;
        stored := e.written_at;
    ELSE
        at := upper(int8multirange(int8range(e.floor, e.head)) - queend.withheld(p_part, NULL, e.floor)) - 1;
        stored := queend.record_stored(p_part, at);
    END IF;
END $$;

-- Returns the newest stored message of a partition (newest_stored); NULL if all were deleted or removed. The views of
-- the schema queen need this result type: it stays.
CREATE OR REPLACE FUNCTION queend.newest_message(part int, OUT message_id uuid, OUT created_at timestamptz)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    SELECT queend.message_id(n.stored, part, n.at), queend.moment(n.stored) INTO message_id, created_at
      FROM queend.newest_stored(part) AS n;
END $$;

-- Returns the wire id of a message by its partition and record id; NULL if the message is unknown. The views of the
-- schema queen need this result type: it stays.
CREATE OR REPLACE FUNCTION queend.record_message(part int, record_id bytea) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_at bigint := queend.message_find(part, record_id);
BEGIN
    RETURN queend.message_id(queend.record_stored(part, v_at), part, v_at);
END $$;

-- Returns a payload as jsonb; NULL if jsonb cannot hold that JSON (\u0000, half surrogates, numbers beyond numeric).
-- The views of the schema queen need this result type: it stays.
CREATE OR REPLACE FUNCTION queend.as_jsonb(p_payload text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN p_payload::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
