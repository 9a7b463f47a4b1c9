-- The items of queen.push_messages_v3 alone. For autocommit, as that is.
CREATE OR REPLACE FUNCTION queen.push_messages_v2(items jsonb, check_duplicates boolean DEFAULT true, check_capacity boolean DEFAULT false) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.push_messages_v3(items, check_duplicates, check_capacity)->'items'
$$;
