-- Who holds these leases, live or expired: the given cursors are looked at first, all cursors only if a lease is in none of
-- them (a lease id changes with each claim: an index on it would cost every claim and every ack).
CREATE OR REPLACE FUNCTION queend.leases_find(p_lease uuid[], p_part int[], p_group int[])
RETURNS TABLE (partition_id int, group_id int, lease_id uuid, lease_until bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (SELECT 1 FROM unnest(p_lease) AS l (lease)
                WHERE l.lease NOT IN (
                    SELECT k.lease_id FROM unnest(p_part, p_group) AS h (part, grp)
                     CROSS JOIN LATERAL (SELECT c.lease_id FROM queend.cursors c WHERE c.partition_id = h.part AND c.group_id = h.grp OFFSET 0) AS k)) THEN
        RETURN QUERY
        SELECT c.partition_id, c.group_id, c.lease_id, c.lease_until FROM queend.cursors c
         WHERE c.lease_id = ANY (p_lease) AND c.lease_id <> '00000000-0000-0000-0000-000000000000';
        RETURN;
    END IF;
    RETURN QUERY
    SELECT k.* FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group) AS u (part, grp)) AS h
     CROSS JOIN LATERAL (SELECT c.partition_id, c.group_id, c.lease_id, c.lease_until FROM queend.cursors c
                          WHERE c.partition_id = h.part AND c.group_id = h.grp AND c.lease_id = ANY (p_lease) OFFSET 0) AS k;
END $$;
