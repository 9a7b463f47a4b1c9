-- One record's extras, from its flags on (format: record_meta.sql).
CREATE OR REPLACE FUNCTION queend.meta_piece(p_piece bytea, OUT trace_id uuid, OUT producer_sub text, OUT transaction_id text, OUT due bigint, OUT seal text, OUT headers text)
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
