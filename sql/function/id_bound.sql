-- The smallest version-7 id of a moment: its milliseconds, then zeros. Ids of two moments compare like the moments.
CREATE OR REPLACE FUNCTION queend.id_bound(p_us bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(GREATEST(p_us / 1000, 0)), 12, '0') || '00000000000000000000')::uuid
$$;
