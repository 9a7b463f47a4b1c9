-- Where the payloads of a batch row lie. Format 1: one byte version << 4 | codec (codec 0: plain), then the n payload
-- sizes as varints, then the payloads back to back. n is not in the body: the row has it. Codecs 1 and 2 are compressed
-- and readable by queend only: NULL.
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
