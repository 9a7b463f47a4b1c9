-- Which of these ids stand in the rows of a partition with p_from <= base < p_stop: 0-based place in p_ids, offset, moment.
-- All ids of those rows against all ids asked for: a hash join, never a loop in a loop.
CREATE OR REPLACE FUNCTION queend.ids_match(p_part int, p_from bigint, p_stop bigint, p_ids bytea) RETURNS TABLE (ord int, at bigint, stored_at bigint)
LANGUAGE plpgsql STABLE SET enable_nestloop = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT i.ord, r.base + s.ord, COALESCE(r.times[s.ord + 1], r.created_at)
      FROM (SELECT l.base, l.created_at, CASE WHEN octet_length(l.meta) > 0 THEN queend.record_times(l.created_at, l.meta) END AS times, l.ids FROM queend.log l WHERE l.partition_id = p_part AND l.base >= p_from AND l.base < p_stop OFFSET 0) AS r
      CROSS JOIN LATERAL queend.id_spread(r.ids) AS s
      JOIN queend.id_spread(p_ids) AS i ON i.id = s.id;
END $$;
