-- The payload of one record of a batch row, as the producer wrote it: i is the 0-based place in the row.
-- Format 1: one byte version << 4 | codec (codec 0: plain), the payload sizes as varints, the payloads back to back.
-- The number of sizes is not written down: payloads fill the body exactly, which says where the sizes end. Codecs 1
-- (the same, as one zstd frame) and 2 (a client's message frames in one) are readable by queend only: NULL.
CREATE OR REPLACE FUNCTION queend.record_payload(p_body bytea, p_i int) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    total int := octet_length(p_body);
    at    int := 1;
    sum_  int := 0;
    start int := 0;
    size  int := 0;
    one   record;
    count_ int := 0;
BEGIN
    IF get_byte(p_body, 0) IN (17, 18) THEN
        RETURN NULL;
    ELSIF get_byte(p_body, 0) <> 16 THEN
        RAISE EXCEPTION 'unknown body format %', get_byte(p_body, 0);
    END IF;
    WHILE at + sum_ < total LOOP
        SELECT v.numbers[1] AS size, v.next INTO one FROM queend.varint(p_body, at, 1) AS v;
        at := one.next;
        IF count_ < p_i THEN
            start := start + one.size;
        ELSIF count_ = p_i THEN
            size := one.size;
        END IF;
        sum_ := sum_ + one.size;
        count_ := count_ + 1;
    END LOOP;
    IF p_i >= count_ OR p_i < 0 THEN
        RETURN NULL;
    END IF;
    RETURN convert_from(substr(p_body, at + start + 1, size), 'UTF8');
END $$;
