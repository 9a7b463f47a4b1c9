-- The wire spelling of a queue id (format: id_uuid.sql).
CREATE OR REPLACE FUNCTION queend.queue_uuid(p_id int) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    SELECT queend.id_uuid(p_id, 'q', 'r')
$$;
