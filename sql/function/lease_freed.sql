-- Tells every daemon that these (partition, group) can be claimed again, for callers that no daemon serves: as pauses that end now, which
-- they look for once a second while somebody waits (waking.sql).
CREATE OR REPLACE FUNCTION queend.lease_freed(p_part int[], p_group int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.pauses (ends_at, partition_id, group_id)
    SELECT queend.now_us(), f.part, f.grp FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group) AS u (part, grp) ORDER BY u.part, u.grp) AS f
    ON CONFLICT (partition_id, group_id) DO UPDATE SET ends_at = GREATEST(excluded.ends_at, pauses.ends_at);
END $$;
