-- Is there nothing in a partition that somebody would miss, and was it left alone since a moment (µs)?
CREATE OR REPLACE FUNCTION queend.partition_idle(p_part int, p_before bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM queend.log l WHERE l.partition_id = p_part
                          AND l.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0))
       AND NOT EXISTS (SELECT FROM queend.cursors k WHERE k.partition_id = p_part AND (k.consumed_at >= p_before OR k.lease_until >= p_before))
       AND NOT EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = p_part)
       AND NOT EXISTS (SELECT FROM queend.stream_queries q CROSS JOIN LATERAL (
            SELECT FROM queend.stream_state s WHERE s.query_id = q.id AND s.partition_id = p_part LIMIT 1) AS s);
END $$;
