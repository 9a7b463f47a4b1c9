-- Which consumer groups have come to a partition, by name, and whether each has consumed an offset; lease_until: 0 = no live lease.
CREATE OR REPLACE FUNCTION queend.message_groups(p_part int, p_offset bigint) RETURNS TABLE (name text, consumed boolean, lease_until bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT g.name, k.committed >= p_offset OR COALESCE(k.beyond @> p_offset, false), CASE WHEN k.lease_until > queend.now_us() THEN k.lease_until ELSE 0 END
      FROM queend.cursors k CROSS JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
     WHERE k.partition_id = p_part ORDER BY g.name;
END $$;
