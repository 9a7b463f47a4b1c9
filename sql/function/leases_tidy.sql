-- Forgets leases that no cursor has any more, among the p_limit remembered ones after p_after. removed: how many went; next: the
-- id to go on after, NULL at the end.
CREATE OR REPLACE FUNCTION queend.leases_tidy(p_after uuid, p_limit int, OUT removed int, OUT next uuid)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_seen int;
BEGIN
    WITH page AS MATERIALIZED (
        SELECT l.ctid AS at, l.lease_id, l.group_id, l.partition_ids FROM queend.leases l WHERE l.lease_id > p_after ORDER BY l.lease_id FETCH FIRST p_limit ROWS WITH TIES),
    gone AS (
        DELETE FROM queend.leases l
         WHERE l.ctid = ANY (ARRAY(
            SELECT p.at FROM page p
             WHERE NOT EXISTS (SELECT FROM unnest(p.partition_ids) AS m (part)
                                CROSS JOIN LATERAL (SELECT FROM queend.cursors c WHERE c.partition_id = m.part AND c.group_id = p.group_id AND c.lease_id = p.lease_id OFFSET 0) AS k)))
        RETURNING 1)
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM page), (SELECT p.lease_id FROM page p ORDER BY p.lease_id DESC LIMIT 1) INTO removed, v_seen, next;
    IF v_seen < p_limit THEN
        next := NULL;
    END IF;
END $$;
