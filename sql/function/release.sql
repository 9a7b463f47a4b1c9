-- Gives back leases whose records never reached a client: they can be claimed at once and the delivery is not counted.
-- One row per element (0-based ord): whether that lease was still there.
CREATE OR REPLACE FUNCTION queend.release(p_part int[], p_group int[], p_lease uuid[]) RETURNS TABLE (ord int, released boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM queend.cursors_lock(p_part, p_group);
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT r.ord::int - 1 AS ord, k.partition_id, k.group_id, k.committed
          FROM unnest(p_part, p_group, p_lease) WITH ORDINALITY AS r (part, grp, lease, ord)
          LEFT JOIN LATERAL (SELECT c.* FROM queend.cursors c WHERE c.partition_id = r.part AND c.group_id = r.grp
                                AND c.lease_id = r.lease AND c.lease_until > 0 OFFSET 0) AS k ON true),
    freed AS (
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed)      -- by the primary key, see pop
        SELECT DISTINCT h.partition_id, h.group_id, h.committed FROM held h WHERE h.partition_id IS NOT NULL
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000', attempt = GREATEST(k.attempt - 1, 0))
    SELECT h.ord, h.partition_id IS NOT NULL FROM held h;
END $$;
