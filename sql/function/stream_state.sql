-- The state of a partition in a query, by key: where given, of these keys, of keys that begin so, of windows that end at or before
-- p_ripe (ms). Filters combine. After p_most bytes of keys and values one row whose key is NULL says that there is more.
CREATE OR REPLACE FUNCTION queend.stream_state(p_query uuid, p_part int, p_keys text[], p_prefix text, p_ripe double precision, p_most bigint)
RETURNS TABLE (key text, value text, updated_at bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_left bigint := p_most;
    s      record;
BEGIN
    FOR s IN SELECT t.key, t.value, t.updated_at FROM queend.stream_state t
              WHERE t.query_id = (SELECT q.id FROM queend.stream_queries q WHERE q.query_uuid = p_query) AND t.partition_id = p_part
                AND (p_keys IS NULL OR t.key = ANY (p_keys)) AND (p_prefix IS NULL OR starts_with(t.key, p_prefix))
                AND t.key >= COALESCE(p_prefix, '') AND (p_ripe IS NULL OR t.window_end <= p_ripe)
              ORDER BY t.key LOOP
        v_left := v_left - octet_length(s.key) - octet_length(s.value);
        IF v_left < 0 THEN
            RETURN QUERY SELECT NULL::text, NULL::text, NULL::bigint;
            RETURN;
        END IF;
        key := s.key;
        value := s.value;
        updated_at := s.updated_at;
        RETURN NEXT;
    END LOOP;
END $$;
