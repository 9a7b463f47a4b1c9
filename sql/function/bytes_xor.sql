-- Four bytes masked by four others.
CREATE OR REPLACE FUNCTION queend.bytes_xor(p_a bytea, p_b bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(set_byte('\x00', 0, get_byte(p_a, i) # get_byte(p_b, i)), '' ORDER BY i) FROM generate_series(0, 3) AS i
$$;
