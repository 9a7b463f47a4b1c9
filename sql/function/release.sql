-- Gives back leases whose records never reached a client: they can be claimed at once and the delivery is not counted.
-- One row per element (0-based ord): whether that lease was still there.
CREATE OR REPLACE FUNCTION queend.release(p_part int[], p_group int[], p_lease uuid[]) RETURNS TABLE (ord int, released boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM queend.cursors k
      JOIN unnest(p_part, p_group, p_lease) AS r (part, grp, lease) ON k.partition_id = r.part AND k.group_id = r.grp
     ORDER BY k.partition_id, k.group_id FOR NO KEY UPDATE OF k;
    RETURN QUERY
    WITH u AS (
        UPDATE queend.cursors k
           SET lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000', attempt = GREATEST(k.attempt - 1, 0)
          FROM unnest(p_part, p_group, p_lease) AS r (part, grp, lease)
         WHERE k.partition_id = r.part AND k.group_id = r.grp AND k.lease_id = r.lease AND k.lease_until > 0
        RETURNING k.partition_id, k.group_id, r.lease)
    SELECT r.ord::int - 1, EXISTS (SELECT 1 FROM u WHERE u.partition_id = r.part AND u.group_id = r.grp AND u.lease = r.lease)
      FROM unnest(p_part, p_group, p_lease) WITH ORDINALITY AS r (part, grp, lease, ord);
END $$;
