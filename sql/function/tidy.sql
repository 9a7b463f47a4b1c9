-- Removes cursors nobody can reach any more: of partitions or groups that are gone (a pop that was under way when its
-- queue was deleted may leave one behind). Looks at p_limit cursors after (p_part, p_group) by key. removed: how many
-- went; the key to go on after, NULL at the end. Ids are never given twice, so what is gone stays gone.
CREATE OR REPLACE FUNCTION queend.tidy(p_part int, p_group int, p_limit int, OUT removed int, OUT next_part int, OUT next_group int)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_seen int;
BEGIN
    WITH page AS MATERIALIZED (
        SELECT c.partition_id, c.group_id FROM queend.cursors c WHERE (c.partition_id, c.group_id) > (p_part, p_group)
         ORDER BY c.partition_id, c.group_id LIMIT p_limit),
    orphans AS MATERIALIZED (
        SELECT p.partition_id, p.group_id FROM page p
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.partitions x WHERE x.id = p.partition_id OFFSET 0) AS a ON true
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.consumer_groups x WHERE x.id = p.group_id OFFSET 0) AS g ON true
         WHERE a.there IS NULL OR g.there IS NULL),
    swept AS (
        DELETE FROM queend.cursors c
         WHERE c.ctid = ANY (ARRAY(SELECT k.ctid FROM orphans o CROSS JOIN LATERAL (
            SELECT x.ctid FROM queend.cursors x WHERE x.partition_id = o.partition_id AND x.group_id = o.group_id FOR UPDATE SKIP LOCKED) AS k))
        RETURNING 1)
    SELECT (SELECT count(*) FROM swept), (SELECT count(*) FROM page),
           (SELECT p.partition_id FROM page p ORDER BY p.partition_id DESC, p.group_id DESC LIMIT 1),
           (SELECT p.group_id FROM page p ORDER BY p.partition_id DESC, p.group_id DESC LIMIT 1)
      INTO removed, v_seen, next_part, next_group;
    IF v_seen < p_limit THEN
        next_part := NULL;
        DELETE FROM queend.standing s WHERE NOT EXISTS (SELECT FROM queend.cursors c WHERE c.partition_id = s.partition_id AND c.group_id = s.group_id);
    END IF;
END $$;
