-- Reads p_count unsigned varints (7 bits per byte, low bits first, the high bit set on all but the last byte) from byte
-- p_at (0-based). `next` is the byte after them.
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
