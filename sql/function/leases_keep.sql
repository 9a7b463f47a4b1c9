-- Remembers of which cursors leases are that this transaction has just claimed: those whose id does not name its partition by its
-- form, or (p_named) those that only look as if they did. One element per cursor that may have been claimed.
CREATE OR REPLACE FUNCTION queend.leases_keep(p_lease uuid[], p_part int[], p_group int[], p_named boolean) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    INSERT INTO queend.leases (lease_id, group_id, partition_ids)
    SELECT u.lease, u.grp, array_agg(u.part) FROM unnest(p_lease, p_part, p_group) AS u (lease, part, grp)
     CROSS JOIN LATERAL (SELECT c.lease_id, c.lease_until FROM queend.cursors c WHERE c.partition_id = u.part AND c.group_id >= u.grp AND c.group_id <= u.grp
                          ORDER BY c.group_id DESC LIMIT 1) AS k      -- the newest version first, see pop
     WHERE k.lease_id = u.lease AND k.lease_until > 0 AND (u.lease >= '80000000-0000-0000-0000-000000000000') = p_named
     GROUP BY u.lease, u.grp;
END $$;
