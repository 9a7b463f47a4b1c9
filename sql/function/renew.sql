-- Extends leases: each live (partition, group) that holds one lives until at least now + seconds; never shortened.
--   h_part, h_group   cursors where the leases may be, besides those that their ids name and that are remembered (leases_find)
-- One row per lease (0-based ord): status 0 extended (expires_at: the earliest; renewed: how many), 1 nobody holds it,
-- 2 expired already. Cursors are locked in ascending order.
CREATE OR REPLACE FUNCTION queend.renew(p_lease uuid[], p_seconds int[], h_req int[], h_part int[], h_group int[])
RETURNS TABLE (ord int, status smallint, expires_at bigint, renewed int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now  bigint;
    v_part int[];
    v_grp  int[];
BEGIN
    SELECT array_agg(l.partition_id), array_agg(l.group_id) INTO v_part, v_grp FROM queend.leases_find(p_lease, h_part, h_group) AS l;
    PERFORM queend.cursors_lock(v_part, v_grp);
    v_now := queend.now_us();

    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT k.* FROM unnest(v_part, v_grp) AS h (part, grp)
         CROSS JOIN LATERAL (SELECT c.* FROM queend.cursors c WHERE c.partition_id = h.part AND c.group_id = h.grp OFFSET 0) AS k),
    u AS (
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, lease_until)      -- by the primary key, see pop
        SELECT h.partition_id, h.group_id, h.committed, v_now + l.seconds * 1000000::bigint
          FROM held h JOIN (SELECT r.lease, max(r.seconds) AS seconds FROM unnest(p_lease, p_seconds) AS r (lease, seconds) GROUP BY r.lease) AS l
               ON h.lease_id = l.lease
         WHERE h.lease_until > v_now
        ON CONFLICT (partition_id, group_id) DO UPDATE SET lease_until = GREATEST(k.lease_until, excluded.lease_until)
        RETURNING k.lease_id, k.lease_until)
    SELECT l.ord::int - 1,
           CASE WHEN n.renewed > 0 THEN 0
                WHEN EXISTS (SELECT 1 FROM held h WHERE h.lease_id = l.lease) THEN 2
                ELSE 1 END::smallint,
           COALESCE(n.expires_at, 0), n.renewed::int
      FROM unnest(p_lease) WITH ORDINALITY AS l (lease, ord)
      CROSS JOIN LATERAL (SELECT min(u.lease_until) AS expires_at, count(*) AS renewed FROM u WHERE u.lease_id = l.lease) AS n;
END $$;
