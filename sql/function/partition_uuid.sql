-- The wire spelling of a partition id (format: id_uuid.sql).
CREATE OR REPLACE FUNCTION queend.partition_uuid(p_id int) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    SELECT queend.id_uuid(p_id, 'p', 'm')
$$;
