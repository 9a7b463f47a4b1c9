-- The wire id of a message by its partition and record id; NULL where there is none. For the views of the schema queen: its result stays as it is.
CREATE OR REPLACE FUNCTION queend.record_message(part int, record_id bytea) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_at bigint := queend.message_find(part, record_id);
BEGIN
    RETURN queend.message_id(queend.record_stored(part, v_at), part, v_at);
END $$;
