-- The number of a partition that is named as on the wire, or in decimals; NULL for what cannot be one.
CREATE OR REPLACE FUNCTION queend.partition_number(p_text text) RETURNS int
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_text ~ '^\d{1,9}$' THEN p_text::int
                WHEN p_text ~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN queend.partition_id(p_text::uuid) END
$$;
