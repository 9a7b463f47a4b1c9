-- A number as an unsigned varint.
CREATE OR REPLACE FUNCTION queend.varint_bytes(p_number int) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    rest   int := p_number;
    result bytea := '';
BEGIN
    WHILE rest > 127 LOOP
        result := result || set_byte('\x00', 0, (rest & 127) | 128);
        rest := rest >> 7;
    END LOOP;
    RETURN result || set_byte('\x00', 0, rest);
END $$;
