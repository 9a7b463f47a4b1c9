-- The format of a row's body: the payloads of its records. Reads no table.

-- Returns where the payloads of a batch row lie. Format 1: one byte version << 4 | codec (codec 0: plain), then the n
-- payload sizes as varints, then the payloads back to back. The row has n, the body does not. Returns NULL for codecs 1
-- and 2, which are compressed and which only queend can read.
CREATE OR REPLACE FUNCTION queend.body_open(p_body bytea, p_n int, OUT sizes int[], OUT starts int[])
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    at int;
BEGIN
    IF get_byte(p_body, 0) IN (17, 18) THEN
        RETURN;
    ELSIF get_byte(p_body, 0) <> 16 THEN
        RAISE EXCEPTION 'unknown body format %', get_byte(p_body, 0);
    END IF;
    SELECT v.numbers, v.next INTO sizes, at FROM queend.varint(p_body, 1, p_n) AS v;
    starts := '{}';
    FOR i IN 1 .. p_n LOOP
        starts := starts || at;
        at := at + sizes[i];
    END LOOP;
END $$;

-- Returns a batch body with only the records at the given 0-based places, in that order.
CREATE OR REPLACE FUNCTION queend.body_pick(p_body bytea, p_n int, p_keep int[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT E'\\x10'::bytea || string_agg(queend.varint_bytes(b.sizes[k.i + 1]), '' ORDER BY k.ord)
           || string_agg(substr(p_body, b.starts[k.i + 1] + 1, b.sizes[k.i + 1]), '' ORDER BY k.ord)
      FROM queend.body_open(p_body, p_n) AS b, unnest(p_keep) WITH ORDINALITY AS k (i, ord)
$$;

-- Returns a plain batch body in which the payloads at the given 0-based places are empty.
CREATE OR REPLACE FUNCTION queend.body_erased(p_body bytea, p_n int, p_places int[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT E'\\x10'::bytea
           || string_agg(queend.varint_bytes(CASE WHEN u.ord - 1 = ANY (p_places) THEN 0 ELSE u.size END), ''
                         ORDER BY u.ord)
           || string_agg(CASE WHEN u.ord - 1 = ANY (p_places) THEN '' ELSE substr(p_body, u.start + 1, u.size) END, ''
                         ORDER BY u.ord)
      FROM queend.body_open(p_body, p_n) AS b,
           unnest(b.sizes, b.starts) WITH ORDINALITY AS u (size, start, ord)
$$;

-- Returns the size in bytes of a batch row's body once unpacked. A compressed body (format 0x11) has that size in a
-- varint behind the first byte. For any other body, returns the stored size. Fetches only the head of the body, once.
CREATE OR REPLACE FUNCTION queend.body_size(p_body bytea) RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    h bytea := substr(p_body, 1, 5);
    v int;
BEGIN
    IF octet_length(h) < 5 OR get_byte(h, 0) <> 17 THEN
        RETURN octet_length(p_body);
    END IF;
    v := get_byte(h, 1) & 127;
    IF get_byte(h, 1) > 127 THEN
        v := v + ((get_byte(h, 2) & 127) << 7);
        IF get_byte(h, 2) > 127 THEN
            v := v + ((get_byte(h, 3) & 127) << 14)
                + CASE WHEN get_byte(h, 3) > 127 THEN (get_byte(h, 4) & 127) << 21 ELSE 0 END;
        END IF;
    END IF;
    RETURN v;
END $$;

-- Reads p_count unsigned varints from byte p_at (0-based). The column next is the byte after them. A varint has 7 bits
-- per byte, low bits first, and the high bit set on all but the last byte.
CREATE OR REPLACE FUNCTION queend.varint(p_bytes bytea, p_at int, p_count int, OUT numbers int[], OUT next int)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    number int;
    shift  int;
    octet  int;
BEGIN
    numbers := '{}';
    next := p_at;
    FOR i IN 1 .. p_count LOOP
        number := 0;
        shift := 0;
        LOOP
            octet := get_byte(p_bytes, next);
            next := next + 1;
            number := number | ((octet & 127) << shift);
            EXIT WHEN octet < 128;
            shift := shift + 7;
        END LOOP;
        numbers := numbers || number;
    END LOOP;
END $$;

-- Returns a number as an unsigned varint.
CREATE OR REPLACE FUNCTION queend.varint_bytes(p_number int) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    rest   int := p_number;
    result bytea := '';
BEGIN
    WHILE rest > 127 LOOP
        result := result || set_byte(E'\\x00', 0, (rest & 127) | 128);
        rest := rest >> 7;
    END LOOP;
    RETURN result || set_byte(E'\\x00', 0, rest);
END $$;
