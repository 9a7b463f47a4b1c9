-- Which of these (partition, group), by their place from 0, nobody holds a lease of now: how a daemon learns that a lease it knows of ended early through another.
CREATE OR REPLACE FUNCTION queend.leases_ended(p_part int[], p_group int[]) RETURNS TABLE (ord int)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    RETURN QUERY
    SELECT u.ord::int - 1 FROM unnest(p_part, p_group) WITH ORDINALITY AS u (part, grp, ord)
      LEFT JOIN LATERAL (SELECT x.lease_until, x.retry_until FROM queend.cursors x WHERE x.partition_id = u.part AND x.group_id >= u.grp AND x.group_id <= u.grp
                          ORDER BY x.group_id DESC LIMIT 1) AS k ON true      -- the newest version first, see pop
     WHERE COALESCE(k.lease_until, 0) <= v_now AND COALESCE(k.retry_until, 0) <= v_now;
END $$;
