-- push, for a call in which some record has a delivery moment: takes note of those it stored. Parameters and result as push.
CREATE OR REPLACE FUNCTION queend.push_due(p_version bigint, p_lanes int[], p_part int[], p_skip int[], p_n int[], p_kind smallint[],
    p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[], p_hint bigint[] DEFAULT NULL,
    p_claim_row int[] DEFAULT NULL, p_claim_group int[] DEFAULT NULL, p_claim_take int[] DEFAULT NULL, p_claim_whole boolean[] DEFAULT NULL,
    p_claim_lease uuid[] DEFAULT NULL, p_claim_us bigint[] DEFAULT NULL,
    p_known bigint[] DEFAULT NULL, p_known_at bigint[] DEFAULT NULL, p_look_row int[] DEFAULT '{}', p_look_from bigint[] DEFAULT '{}',
    p_look_to bigint[] DEFAULT '{}')
RETURNS TABLE (ord int, status smallint, base bigint, created_at bigint, dup_offset bigint[], dup_at bigint[], seen bytea)
LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT * FROM queend.push(p_version, p_lanes, p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta, p_hint, p_claim_row, p_claim_group,
                                  p_claim_take, p_claim_whole, p_claim_lease, p_claim_us, p_known, p_known_at, p_look_row, p_look_from, p_look_to)
    LOOP
        IF r.status IN (0, 1) AND r.base >= 0 AND p_meta[r.ord + 1] IS NOT NULL THEN
            PERFORM queend.schedule_add(p_part[r.ord + 1], r.base);
        END IF;
        RETURN QUERY SELECT r.ord, r.status, r.base, r.created_at, r.dup_offset, r.dup_at, r.seen;
    END LOOP;
END $$;
