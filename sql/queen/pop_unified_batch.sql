-- An older name of queen.pop_unified_batch_v4.
CREATE OR REPLACE FUNCTION queen.pop_unified_batch(requests jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.pop_unified_batch_v4(requests)
$$;
