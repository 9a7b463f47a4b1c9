-- Who holds these leases, live or expired. A lease is looked for in the partition that its id names, in the cursors that are remembered
-- for it (queend.leases), and in those given: never in all. (A lease id changes with each claim: an index on it would cost every
-- claim and every ack.)
CREATE OR REPLACE FUNCTION queend.leases_find(p_lease uuid[], p_part int[], p_group int[])
RETURNS TABLE (partition_id int, group_id int, lease_id uuid, lease_until bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.* FROM (
        SELECT h.part, h.grp FROM unnest(p_part, p_group) AS h (part, grp)
        UNION
        SELECT m.part, l.group_id FROM unnest(p_lease) AS u (lease)
         CROSS JOIN LATERAL (SELECT x.group_id, x.partition_ids FROM queend.leases x WHERE x.lease_id = u.lease OFFSET 0) AS l
         CROSS JOIN LATERAL unnest(l.partition_ids) AS m (part)
        UNION
        SELECT c.partition_id, c.group_id FROM (SELECT u.lease, queend.lease_part(u.lease) AS part FROM unnest(p_lease) AS u (lease) OFFSET 0) AS n
         CROSS JOIN LATERAL (SELECT x.partition_id, x.group_id FROM queend.cursors x WHERE x.partition_id = n.part AND x.lease_id = n.lease OFFSET 0) AS c) AS h
     CROSS JOIN LATERAL (SELECT c.partition_id, c.group_id, c.lease_id, c.lease_until FROM queend.cursors c
                          WHERE c.partition_id = h.part AND c.group_id = h.grp AND c.lease_id = ANY (p_lease)
                            AND c.lease_id <> '00000000-0000-0000-0000-000000000000' OFFSET 0) AS k;
END $$;
