-- Makes the cursors that are missing among the marked (partition, group) pairs, at the start of the group's subscription.
-- In ascending order: two callers cannot wait for each other. A group that does not exist gets none.
-- PL/pgSQL keeps the plan; a function in SQL would be planned again in every call, at half the price of the pop.
CREATE OR REPLACE FUNCTION queend.cursors_open(p_part int[], p_group int[], p_wanted boolean[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.cursors (committed, row_base, partition_id, group_id, lease_end, origin)
    SELECT s.start - 1, COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = i.part AND l.base <= s.start ORDER BY l.base DESC LIMIT 1), 0),
           i.part, i.grp, s.start - 1, NULLIF(s.start, 0)
      FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group, p_wanted) AS u (part, grp, wanted) WHERE u.wanted) AS i
      CROSS JOIN LATERAL (SELECT x.start_at FROM queend.consumer_groups x WHERE x.id = i.grp OFFSET 0) AS g
      LEFT JOIN LATERAL (SELECT true AS there FROM queend.cursors x WHERE x.partition_id = i.part AND x.group_id >= i.grp AND x.group_id <= i.grp
                          ORDER BY x.group_id DESC LIMIT 1) AS k ON true      -- the newest version first, see pop
      CROSS JOIN LATERAL (SELECT CASE WHEN g.start_at IS NULL
                                      THEN COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = i.part), 0)
                                      ELSE queend.offset_since(i.part, g.start_at) END AS start) AS s
     WHERE k.there IS NULL
     ORDER BY i.part, i.grp
    ON CONFLICT DO NOTHING;
END $$;
