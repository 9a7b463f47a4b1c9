-- The queue id inside its wire spelling; NULL if it is not one of ours. Whether it exists is another question.
CREATE OR REPLACE FUNCTION queend.queue_id(p_uuid uuid) RETURNS int
LANGUAGE sql STABLE STRICT AS $$
    SELECT queend.uuid_id(p_uuid, 'q', 'r')
$$;
