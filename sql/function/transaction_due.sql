-- transaction, where some record pushed has a delivery moment: takes note of those it stored. Parameters and result as transaction.
CREATE OR REPLACE FUNCTION queend.transaction_due(p_version bigint, p_lanes int[], p_part int[], p_skip int[], p_n int[], p_kind smallint[],
    p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    a_part int[], a_group int[], a_lease uuid[], a_n int[], a_ids bytea[], a_status bytea[], f_row int[], f_idx int[], f_error text[],
    p_required uuid[], p_req_part int[], p_req_group int[],
    p_known bigint[] DEFAULT NULL, p_known_at bigint[] DEFAULT NULL, p_look_row int[] DEFAULT '{}', p_look_from bigint[] DEFAULT '{}',
    p_look_to bigint[] DEFAULT '{}', p_dry boolean DEFAULT false)
RETURNS TABLE (ord int, kind smallint, status smallint, base bigint, created_at bigint, codes bytea, released boolean,
               committed bigint, head bigint, dup_index int, seen bytea)
LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT * FROM queend.transaction(p_version, p_lanes, p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta, a_part, a_group, a_lease, a_n,
                                         a_ids, a_status, f_row, f_idx, f_error, p_required, p_req_part, p_req_group, p_known, p_known_at, p_look_row, p_look_from, p_look_to, p_dry)
    LOOP
        IF r.kind = 0 AND r.status = 0 AND r.base >= 0 AND p_meta[r.ord + 1] IS NOT NULL THEN
            PERFORM queend.schedule_add(p_part[r.ord + 1], r.base);
        END IF;
        RETURN QUERY SELECT r.ord, r.kind, r.status, r.base, r.created_at, r.codes, r.released, r.committed, r.head, r.dup_index, r.seen;
    END LOOP;
END $$;
