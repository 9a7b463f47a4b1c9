-- The id inside such a UUID (see id_uuid.sql); NULL if it is not one of ours.
CREATE OR REPLACE FUNCTION queend.uuid_id(p_uuid uuid, p_tag text, p_mask text) RETURNS int
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    v_raw bytea := uuid_send(p_uuid);
    v_id  int := ('x' || encode(substr(v_raw, 13, 4), 'hex'))::bit(32)::int
                 # queend.id_mask((SELECT c.seed FROM queend.catalog c), p_mask, substr(v_raw, 1, 12));
BEGIN
    RETURN CASE WHEN queend.id_uuid(v_id, p_tag, p_mask) = p_uuid THEN v_id END;
END $$;
