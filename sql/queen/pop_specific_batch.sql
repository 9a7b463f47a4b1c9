-- queen.pop_unified_batch_v4, for requests that name their partition.
CREATE OR REPLACE FUNCTION queen.pop_specific_batch(requests jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queen.pop_unified_batch_v4(requests)
$$;
