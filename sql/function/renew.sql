-- Extends leases: each live (partition, group) that holds one lives until at least now + seconds; never shortened.
--   h_part, h_group   cursors where the leases may be; a lease found in none of them is searched everywhere
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
    SELECT array_agg(k.partition_id), array_agg(k.group_id) INTO v_part, v_grp
      FROM (SELECT DISTINCT * FROM unnest(h_part, h_group)) AS h (part, grp)
      JOIN queend.cursors k ON k.partition_id = h.part AND k.group_id = h.grp
     WHERE k.lease_id = ANY (p_lease);
    IF EXISTS (SELECT 1 FROM unnest(p_lease) AS l (lease)
                WHERE NOT EXISTS (SELECT 1 FROM unnest(v_part, v_grp) AS h (part, grp)
                                    JOIN queend.cursors k ON k.partition_id = h.part AND k.group_id = h.grp WHERE k.lease_id = l.lease)) THEN
        SELECT array_agg(k.partition_id), array_agg(k.group_id) INTO v_part, v_grp
          FROM queend.cursors k WHERE k.lease_id = ANY (p_lease) AND k.lease_id <> '00000000-0000-0000-0000-000000000000';
    END IF;
    PERFORM 1 FROM unnest(v_part, v_grp) AS h (part, grp) JOIN queend.cursors k ON k.partition_id = h.part AND k.group_id = h.grp
      ORDER BY k.partition_id, k.group_id FOR NO KEY UPDATE OF k;
    v_now := queend.now_us();

    RETURN QUERY
    WITH u AS (
        UPDATE queend.cursors k SET lease_until = GREATEST(k.lease_until, v_now + l.seconds * 1000000::bigint)
          FROM unnest(v_part, v_grp) AS h (part, grp),
               (SELECT r.lease, max(r.seconds) AS seconds FROM unnest(p_lease, p_seconds) AS r (lease, seconds) GROUP BY r.lease) AS l
         WHERE k.partition_id = h.part AND k.group_id = h.grp AND k.lease_id = l.lease AND k.lease_until > v_now
        RETURNING k.lease_id, k.lease_until)
    SELECT l.ord::int - 1,
           CASE WHEN n.renewed > 0 THEN 0
                WHEN EXISTS (SELECT 1 FROM unnest(v_part, v_grp) AS h (part, grp)
                               JOIN queend.cursors k ON k.partition_id = h.part AND k.group_id = h.grp WHERE k.lease_id = l.lease) THEN 2
                ELSE 1 END::smallint,
           COALESCE(n.expires_at, 0), n.renewed::int
      FROM unnest(p_lease) WITH ORDINALITY AS l (lease, ord)
      CROSS JOIN LATERAL (SELECT min(u.lease_until) AS expires_at, count(*) AS renewed FROM u WHERE u.lease_id = l.lease) AS n;
END $$;
