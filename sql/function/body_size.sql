-- Bytes of a batch row's body once it is unpacked, as far as its head tells: a compressed one (format 0x11) says so in a
-- varint behind the first byte; any other counts as it is stored. Fetches the head once and nothing else of it.
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
            v := v + ((get_byte(h, 3) & 127) << 14) + CASE WHEN get_byte(h, 3) > 127 THEN (get_byte(h, 4) & 127) << 21 ELSE 0 END;
        END IF;
    END IF;
    RETURN v;
END $$;
