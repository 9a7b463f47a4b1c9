-- The ids of a row, one per line: ord is the 0-based place in the row.
CREATE OR REPLACE FUNCTION queend.id_spread(p_ids bytea) RETURNS TABLE (ord int, id bytea)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT i, substr(p_ids, 16 * i + 1, 16) FROM generate_series(0, octet_length(p_ids) / 16 - 1) AS i
$$;
