-- The 0-based place of the first record of a batch row that the partition holds already; NULL if there is none.
-- Decides like push: what is above every timely id, or was made by the daemon, needs no search; nor does what its caller vouches
-- for. p_vouch: none of the ids that are not version 7 is below p_before; p_before, p_from, p_to: as p_known, p_from, p_to of
-- ids_find. The caller holds the lane.
CREATE OR REPLACE FUNCTION queend.push_duplicate(p_part int, p_kind smallint, p_lo uuid, p_hi uuid, p_ids bytea,
    p_vouch boolean DEFAULT false, p_before bigint DEFAULT 0, p_from bigint[] DEFAULT '{}', p_to bigint[] DEFAULT '{}') RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now bigint := queend.now_us();
    head  record;
BEGIN
    SELECT l.base + l.n AS next, l.high, l.odd, l.created_at INTO head FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1;
    IF NOT FOUND OR (p_kind < 2 OR p_vouch AND p_before = head.next)
                    AND (p_kind = 2 OR head.created_at <= v_now AND p_lo >= queend.id_bound(v_now - 60000000) AND p_hi < queend.id_bound(v_now + 60000000)
                                       AND (p_kind = 0 OR NOT head.odd AND p_lo > head.high)) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT min(f.ord) FROM queend.ids_find(p_part, p_ids, p_before, p_from, p_to) AS f);
END $$;
