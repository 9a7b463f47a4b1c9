-- When one record of a row was stored: i is its 0-based place, p_created the row's created_at.
CREATE OR REPLACE FUNCTION queend.record_time(p_created bigint, p_meta bytea, p_i bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(p_meta) = 0 OR get_byte(p_meta, 0) <> 17 THEN p_created ELSE (queend.record_times(p_created, p_meta))[p_i + 1] END
$$;
