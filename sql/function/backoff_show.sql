-- The option retryBackoff as it was configured, its defaults filled in.
CREATE OR REPLACE FUNCTION queend.backoff_show(p_backoff jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_backoff ? 'steps' THEN p_backoff->'steps' ELSE jsonb_build_object('type', 'exponential') || p_backoff END
$$;
