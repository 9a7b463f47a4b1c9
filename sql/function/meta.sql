-- The format of a row's meta: the extras of its records besides their payloads, and their times where rows were merged.
-- Reads no table.

-- Returns the extras of a record, which it carries besides its payload; all NULL if the record has none. Parameter p_i
-- is the 0-based place in the row.
-- Format 1 is empty if no record has extras. Otherwise it begins with the byte 0x10. A piece per record with extras
-- follows, in order: varint place in the row, byte of flags, a value per flag from the lowest on. The trace id is 16
-- bytes; every other value has a varint length before it. Flags:
--   1   trace id
--   2   producer's subject (UTF-8)
--   4   the transaction id as text, if it differs from the record id
--   8   when the record may be delivered (8 bytes, big-endian, µs)
--   16  id of the key its payload is sealed with
--   32  headers (a JSON object)
--   64  empty: its payload was erased.
-- Unknown flags are passed over.
CREATE OR REPLACE FUNCTION queend.record_meta(p_meta bytea, p_i int, OUT trace_id uuid, OUT producer_sub text,
    OUT transaction_id text, OUT due bigint, OUT seal text, OUT headers text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    one record;
BEGIN
    SELECT r.piece INTO one FROM queend.meta_records(p_meta) AS r WHERE r.ord = p_i;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT m.trace_id, m.producer_sub, m.transaction_id, m.due, m.seal, m.headers
      INTO trace_id, producer_sub, transaction_id, due, seal, headers
      FROM queend.meta_piece(one.piece) AS m;
END $$;

-- Returns the records of a row that have extras: place in the row, and their bytes from the flags on (format:
-- record_meta).
CREATE OR REPLACE FUNCTION queend.meta_records(p_meta bytea) RETURNS TABLE (ord int, piece bytea)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    total int := COALESCE(octet_length(p_meta), 0);
    at    int := 1;
    start int;
    flags int;
    v     record;
BEGIN
    IF total = 0 THEN
        RETURN;
    ELSIF get_byte(p_meta, 0) = 17 THEN      -- times first (record_times)
        SELECT * INTO v FROM queend.varint(p_meta, 1, 1);
        at := v.next + v.numbers[1];
    ELSIF get_byte(p_meta, 0) <> 16 THEN
        RAISE EXCEPTION 'unknown meta format %', get_byte(p_meta, 0);
    END IF;
    WHILE at < total LOOP
        SELECT * INTO v FROM queend.varint(p_meta, at, 1);
        ord := v.numbers[1];
        start := v.next;
        flags := get_byte(p_meta, start);
        at := start + 1 + CASE WHEN flags & 1 <> 0 THEN 16 ELSE 0 END;
        FOR bit IN 1 .. 7 LOOP
            IF flags & (1 << bit) <> 0 THEN
                SELECT * INTO v FROM queend.varint(p_meta, at, 1);
                at := v.next + v.numbers[1];
            END IF;
        END LOOP;
        piece := substr(p_meta, start + 1, at - start);
        RETURN NEXT;
    END LOOP;
END $$;

-- Returns one record's extras, read from its flags on (format: record_meta).
CREATE OR REPLACE FUNCTION queend.meta_piece(p_piece bytea, OUT trace_id uuid, OUT producer_sub text,
    OUT transaction_id text, OUT due bigint, OUT seal text, OUT headers text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    flags int := get_byte(p_piece, 0);
    at    int := 1;
    value bytea;
    v     record;
BEGIN
    IF flags & 1 <> 0 THEN
        trace_id := encode(substr(p_piece, 2, 16), 'hex')::uuid;
        at := 17;
    END IF;
    FOR bit IN 1 .. 7 LOOP
        CONTINUE WHEN flags & (1 << bit) = 0;
        SELECT * INTO v FROM queend.varint(p_piece, at, 1);
        value := substr(p_piece, v.next + 1, v.numbers[1]);
        at := v.next + v.numbers[1];
        CASE bit
            WHEN 1 THEN producer_sub := convert_from(value, 'UTF8');
            WHEN 2 THEN transaction_id := convert_from(value, 'UTF8');
            WHEN 3 THEN due := ('x' || encode(value, 'hex'))::bit(64)::bigint;
            WHEN 4 THEN seal := convert_from(value, 'UTF8');
            WHEN 5 THEN headers := convert_from(value, 'UTF8');
            ELSE NULL;
        END CASE;
    END LOOP;
END $$;

-- Returns a row's meta with only the records at the given 0-based places, renumbered; empty if none of them has extras.
CREATE OR REPLACE FUNCTION queend.meta_pick(p_meta bytea, p_keep int[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT COALESCE(E'\\x10'::bytea
                    || string_agg(queend.varint_bytes(k.ord::int - 1) || r.piece, '' ORDER BY k.ord), '')
      FROM queend.meta_records(p_meta) AS r JOIN unnest(p_keep) WITH ORDINALITY AS k (i, ord) ON k.i = r.ord
$$;

-- Returns a row's meta in which the records at the given 0-based places keep only the mark that they were erased. All
-- times stay.
CREATE OR REPLACE FUNCTION queend.meta_erased(p_meta bytea, p_places int[]) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_head bytea := E'\\x10';
    v      record;
BEGIN
    IF octet_length(p_meta) > 0 AND get_byte(p_meta, 0) = 17 THEN      -- times first (record_times)
        SELECT * INTO v FROM queend.varint(p_meta, 1, 1);
        v_head := substr(p_meta, 1, v.next + v.numbers[1]);
    END IF;
    RETURN v_head || (SELECT string_agg(queend.varint_bytes(c.ord) || c.piece, '' ORDER BY c.ord)
                        FROM (SELECT r.ord, r.piece FROM queend.meta_records(p_meta) AS r WHERE r.ord <> ALL (p_places)
                              UNION ALL
                              SELECT DISTINCT i, E'\\x4000'::bytea FROM unnest(p_places) AS i) AS c);
END $$;

-- Returns the 0-based places of a row whose records were erased (meta_erased).
CREATE OR REPLACE FUNCTION queend.meta_gone(p_meta bytea) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT r.ord FROM queend.meta_records(p_meta) AS r WHERE get_byte(r.piece, 0) & 64 <> 0);
END $$;

-- Returns when one record of a row was stored. Parameter p_i is its 0-based place, p_created the row's created_at.
CREATE OR REPLACE FUNCTION queend.record_time(p_created bigint, p_meta bytea, p_i bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(p_meta) = 0 OR get_byte(p_meta, 0) <> 17 THEN p_created
                ELSE (queend.record_times(p_created, p_meta))[p_i + 1] END
$$;

-- Returns when each record of a row was stored, in order; NULL if all have the row's created_at. Rows merged of several
-- have their times in meta. Format: byte 0x11, a varint with the length of the times, then one varint per record, all
-- in µs. The first says how long before created_at the first record was stored, each other how long after the record
-- before.
CREATE OR REPLACE FUNCTION queend.record_times(p_created bigint, p_meta bytea) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_times bigint[] := '{}';
    v_at    bigint;
    v_stop  int;
    number  bigint;
    shift   int;
    octet   int;
    i       int;
    v       record;
BEGIN
    IF octet_length(p_meta) = 0 OR get_byte(p_meta, 0) <> 17 THEN
        RETURN NULL;
    END IF;
    SELECT * INTO v FROM queend.varint(p_meta, 1, 1);
    i := v.next;
    v_stop := i + v.numbers[1];
    WHILE i < v_stop LOOP
        number := 0;
        shift := 0;
        LOOP
            octet := get_byte(p_meta, i);
            i := i + 1;
            number := number | ((octet & 127)::bigint << shift);
            EXIT WHEN octet < 128;
            shift := shift + 7;
        END LOOP;
        v_at := CASE WHEN v_at IS NULL THEN p_created - number ELSE v_at + number END;
        v_times := v_times || v_at;
    END LOOP;
    RETURN v_times;
END $$;
