-- When each record of a row was stored, in order; NULL where that was one moment, the row's created_at. Rows that were
-- merged of several have their times in meta: byte 0x11, a varint with the length of the times, then for the first record
-- how long before created_at it was stored and for each of the others how long after the one before, all in µs.
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
