-- The moment inside a version-7 record id (16 bytes), in microseconds.
CREATE OR REPLACE FUNCTION queend.id_us(p_id bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ((get_byte(p_id, 0)::bigint << 40) + (get_byte(p_id, 1)::bigint << 32) + (get_byte(p_id, 2)::bigint << 24)
          + (get_byte(p_id, 3) << 16) + (get_byte(p_id, 4) << 8) + get_byte(p_id, 5)) * 1000
$$;
