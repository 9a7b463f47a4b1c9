-- Returns the origin of a redriven dead letter, as daemons of editions 0 to 6 call it: without the message's headers.
CREATE OR REPLACE FUNCTION queend.message_origin(part int, message_offset bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT NULLIF(queend.message_beside(part, message_offset) - 'headers', '{}')
$$;
