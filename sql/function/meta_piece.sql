-- One record's extras, from its flags on (format: record_meta.sql).
CREATE OR REPLACE FUNCTION queend.meta_piece(p_piece bytea, OUT trace_id uuid, OUT producer_sub text, OUT transaction_id text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    flags int := get_byte(p_piece, 0);
    at    int := 1;
    v     record;
BEGIN
    IF flags & 1 <> 0 THEN
        trace_id := encode(substr(p_piece, 2, 16), 'hex')::uuid;
        at := 17;
    END IF;
    IF flags & 2 <> 0 THEN
        SELECT * INTO v FROM queend.varint(p_piece, at, 1);
        producer_sub := convert_from(substr(p_piece, v.next + 1, v.numbers[1]), 'UTF8');
        at := v.next + v.numbers[1];
    END IF;
    IF flags & 4 <> 0 THEN
        SELECT * INTO v FROM queend.varint(p_piece, at, 1);
        transaction_id := convert_from(substr(p_piece, v.next + 1, v.numbers[1]), 'UTF8');
    END IF;
END $$;
