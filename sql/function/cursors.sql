-- Cursors: creating, locking and removing them. Locks: a function that locks several cursors does so ascending by
-- (partition, group).

-- Creates the missing cursors among the marked (partition, group) pairs, at the start of the group's subscription.
-- Inserts in ascending order, so that two callers cannot wait for each other. Requires that the groups exist. Marks
-- their partitions for the figures, because stats_changed finds cursors by their claims. PL/pgSQL keeps the plan; a
-- function in SQL would be planned again in every call, at half the price of the pop.
CREATE OR REPLACE FUNCTION queend.cursors_open(p_part int[], p_group int[], p_wanted boolean[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH opened AS (
        INSERT INTO queend.cursors (committed, row_base, partition_id, group_id, lease_end, origin)
        SELECT s.start - 1,
               COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = i.part AND l.base <= s.start
                          ORDER BY l.base DESC LIMIT 1), 0),
               i.part, i.grp, s.start - 1, NULLIF(s.start, 0)
          FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group, p_wanted) AS u (part, grp, wanted)
                 WHERE u.wanted) AS i
          CROSS JOIN LATERAL (SELECT x.start_at FROM queend.consumer_groups x WHERE x.id = i.grp OFFSET 0) AS g
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.cursors x
                              WHERE x.partition_id = i.part AND x.group_id >= i.grp AND x.group_id <= i.grp
                              ORDER BY x.group_id DESC LIMIT 1) AS k ON true      -- the newest version first, see pop
          CROSS JOIN LATERAL (SELECT CASE WHEN g.start_at IS NULL
                                          THEN COALESCE((SELECT f.floor FROM queend.floors f
                                                          WHERE f.partition_id = i.part), 0)
                                          ELSE queend.offset_since(i.part, g.start_at) END AS start) AS s
         WHERE k.there IS NULL
         ORDER BY i.part, i.grp
        ON CONFLICT DO NOTHING RETURNING partition_id)
    INSERT INTO queend.stat_marks (partition_id) SELECT o.partition_id FROM opened o;
END $$;

-- Locks the existing cursors of the given (partition, group) pairs, in ascending order. The sort stands below the join:
-- above it the planner would walk the whole index of cursors.
CREATE OR REPLACE FUNCTION queend.cursors_lock(p_part int[], p_group int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1
       FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group) AS u (part, grp) ORDER BY u.part, u.grp) AS a
      CROSS JOIN LATERAL (SELECT 1 FROM queend.cursors c
                           WHERE c.partition_id = a.part AND c.group_id = a.grp FOR NO KEY UPDATE) AS k;
END $$;

-- Removes cursors of partitions or groups that are gone (a pop that ran while its queue was deleted may leave one).
-- Reads p_limit cursors after (p_part, p_group) by key. Returns in removed the number of cursors deleted. Columns
-- next_part and next_group are the key to continue after, NULL at the end. A number is reused only after all others
-- (numbers.sql), so such a cursor is removed long before.
CREATE OR REPLACE FUNCTION queend.tidy(p_part int, p_group int, p_limit int, OUT removed int, OUT next_part int,
    OUT next_group int)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_seen int;
BEGIN
    WITH page AS MATERIALIZED (
        SELECT c.partition_id, c.group_id FROM queend.cursors c WHERE (c.partition_id, c.group_id) > (p_part, p_group)
         ORDER BY c.partition_id, c.group_id LIMIT p_limit),
    orphans AS MATERIALIZED (
        SELECT p.partition_id, p.group_id FROM page p
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.partitions x
                              WHERE x.id = p.partition_id OFFSET 0) AS a ON true
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.consumer_groups x
                              WHERE x.id = p.group_id OFFSET 0) AS g ON true
         WHERE a.there IS NULL OR g.there IS NULL),
    swept AS (
        DELETE FROM queend.cursors c
         WHERE c.ctid = ANY (ARRAY(SELECT k.ctid FROM orphans o CROSS JOIN LATERAL (
            SELECT x.ctid FROM queend.cursors x
             WHERE x.partition_id = o.partition_id AND x.group_id = o.group_id FOR UPDATE SKIP LOCKED) AS k))
        RETURNING 1)
    SELECT (SELECT count(*) FROM swept), (SELECT count(*) FROM page),
           (SELECT p.partition_id FROM page p ORDER BY p.partition_id DESC, p.group_id DESC LIMIT 1),
           (SELECT p.group_id FROM page p ORDER BY p.partition_id DESC, p.group_id DESC LIMIT 1)
      INTO removed, v_seen, next_part, next_group;
    IF v_seen < p_limit THEN
        next_part := NULL;
        DELETE FROM queend.standing s
         WHERE NOT EXISTS (SELECT FROM queend.cursors c
                            WHERE c.partition_id = s.partition_id AND c.group_id = s.group_id);
    END IF;
END $$;
