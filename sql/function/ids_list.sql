-- Puts ids that are not version 7 into late_ids, of at most about 5000 records from queend.unlisted.since on, which moves up
-- by as much; for a partition whose ids no daemon has room to remember. True: since is the head now, late_ids holds all.
-- The caller holds the lane, and if it removes the row from queend.unlisted it must append to the partition in the same
-- transaction: then whoever still remembers the partition sees another head than it knows.
CREATE OR REPLACE FUNCTION queend.ids_list(p_part int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_since bigint;
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);
BEGIN
    SELECT GREATEST(u.since, v_floor) INTO v_since FROM queend.unlisted u WHERE u.partition_id = p_part;
    WITH r AS MATERIALIZED (
        SELECT x.* FROM (SELECT y.*, sum(y.n) OVER (ORDER BY y.base) - y.n AS before
                           FROM (SELECT l.base, l.n, l.ids FROM queend.log l WHERE l.partition_id = p_part AND l.base >= queend.row_of(p_part, v_since)
                                  ORDER BY l.base LIMIT 5000) AS y) AS x
         WHERE x.before < 5000),
    late AS (
        INSERT INTO queend.late_ids AS e (position, partition_id, id)
        SELECT DISTINCT ON (i.id) r.base + i.ord, p_part, i.id FROM r CROSS JOIN LATERAL queend.id_spread(r.ids) AS i
         WHERE get_byte(i.id, 6) >> 4 <> 7 ORDER BY i.id, r.base + i.ord DESC
        ON CONFLICT (partition_id, id) DO UPDATE SET position = GREATEST(e.position, excluded.position))
    SELECT GREATEST(v_since, max(r.base + r.n)) INTO v_since FROM r;
    UPDATE queend.unlisted u SET since = v_since WHERE u.partition_id = p_part;
    RETURN v_since >= queend.head(p_part);
END $$;
