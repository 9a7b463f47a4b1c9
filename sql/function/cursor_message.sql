-- The message at an offset of a partition; a zero id and NULL where the log does not hold it. For the views of the schema queen: its result stays as it is.
CREATE OR REPLACE FUNCTION queend.cursor_message(part int, message_offset bigint, OUT id uuid, OUT created_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_at bigint := queend.record_stored(part, message_offset);
BEGIN
    id := COALESCE(queend.message_id(v_at, part, message_offset), '00000000-0000-0000-0000-000000000000');
    created_at := queend.moment(v_at);
END $$;
