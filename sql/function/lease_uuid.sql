-- The lease id of a name that a SQL caller gave: the UUID it is, else one made of it. NULL for NULL and ''.
CREATE OR REPLACE FUNCTION queend.lease_uuid(p_text text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(queend.record_id(NULLIF(p_text, '')), 'hex')::uuid
$$;
