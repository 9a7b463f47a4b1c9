-- One id: the offset it is stored at in a partition and the moment it was stored, or no row.
CREATE OR REPLACE FUNCTION queend.find(p_part int, p_id bytea) RETURNS TABLE (found_offset bigint, created_at bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.found, f.stored_at FROM queend.ids_find(p_part, p_id) AS f LIMIT 1
$$;
