-- Partitions that stand: a group's leases ran out at least twice in a row and left the message at `first`, since the first of them was
-- taken. p_group NULL: of all groups.
CREATE OR REPLACE FUNCTION queend.standing_list(p_group text)
RETURNS TABLE (queue text, name text, partition text, partition_id int, since bigint, lapses int, first bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = on SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.name, g.name, p.name, s.partition_id, s.since, s.lapses, s.first
      FROM queend.standing s
      CROSS JOIN LATERAL (SELECT x.committed FROM queend.cursors x WHERE x.partition_id = s.partition_id AND x.group_id = s.group_id OFFSET 0) AS k
      CROSS JOIN LATERAL (SELECT x.name, x.queue_id FROM queend.consumer_groups x WHERE x.id = s.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x WHERE x.id = s.partition_id OFFSET 0) AS p
     WHERE s.lapses > 1 AND k.committed < s.first AND (p_group IS NULL OR g.name = p_group)
     ORDER BY q.name, g.name, p.id;
END $$;
