-- Locks the cursors of these (partition, group) pairs, as far as they exist, in ascending order.
-- The sort is below the join on purpose: above it the planner would rather walk the whole index of cursors.
CREATE OR REPLACE FUNCTION queend.cursors_lock(p_part int[], p_group int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group) AS u (part, grp) ORDER BY u.part, u.grp) AS a
      CROSS JOIN LATERAL (SELECT 1 FROM queend.cursors c WHERE c.partition_id = a.part AND c.group_id = a.grp FOR NO KEY UPDATE) AS k;
END $$;
