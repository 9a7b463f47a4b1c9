-- The records of a row that have extras: place in the row, and their bytes from the flags on (format: record_meta.sql).
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
    ELSIF get_byte(p_meta, 0) = 17 THEN      -- times first (record_times.sql)
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
