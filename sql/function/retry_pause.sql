-- How long (µs) a batch of a partition waits that has just failed, p_failures times before: what the options of its queue say.
-- retryBackoff: the step of that number, the last one repeated, or initial * multiplier ^ p_failures, at most max; jitter
-- takes up to that share of it away. Without it retryDelay where it was configured, else nothing: it comes again at once.
CREATE OR REPLACE FUNCTION queend.retry_pause(p_part int, p_failures int) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    q    record;
    b    jsonb;
    v_ms float8;
BEGIN
    SELECT x.retry_backoff, x.retry_delay, x.retry_delay_set INTO q
      FROM queend.partitions p CROSS JOIN LATERAL (SELECT y.* FROM queend.queues y WHERE y.id = p.queue_id OFFSET 0) AS x WHERE p.id = p_part;
    b := q.retry_backoff;
    IF b IS NULL THEN
        RETURN CASE WHEN q.retry_delay_set THEN q.retry_delay * 1000::bigint ELSE 0 END;
    END IF;
    IF b ? 'steps' THEN
        RETURN (b->'steps'->>LEAST(p_failures, jsonb_array_length(b->'steps') - 1))::bigint * 1000;
    END IF;
    -- the exponent is bounded: 1000 doublings are beyond every max, and beyond them a float8 overflows
    v_ms := LEAST((b->>'initial')::float8 * exp(LEAST(p_failures * ln((b->>'multiplier')::float8), 600)), (b->>'max')::float8);
    RETURN (v_ms * (1 - (b->>'jitter')::float8 * random()) * 1000)::bigint;
END $$;
