-- When the record at an offset leaves its delay: 0 if it was stored at or before p_ripe, else how long after p_ripe it
-- was stored, counted from now.
CREATE OR REPLACE FUNCTION queend.delayed_until(p_part int, p_offset bigint, p_ripe bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
    SELECT CASE WHEN t.at > p_ripe THEN queend.now_us() + t.at - p_ripe ELSE 0 END
      FROM queend.log l CROSS JOIN LATERAL queend.record_time(l.created_at, l.meta, GREATEST(p_offset - l.base, 0)) AS t (at) WHERE l.partition_id = p_part AND l.base + l.n > p_offset
       AND l.base >= COALESCE((SELECT b.base FROM queend.log b WHERE b.partition_id = p_part AND b.base <= p_offset ORDER BY b.base DESC LIMIT 1), 0)
     ORDER BY l.base LIMIT 1);
END $$;
