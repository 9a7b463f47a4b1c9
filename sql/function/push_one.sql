-- Push of one batch row: the common small call, at the lowest cost. Owns and locks what push does.

-- Pushes one batch row with at most one claim. Takes the parameters of push, each as the only element of its array
-- (p_skip 0, p_claim_row 1 or NULL); returns the rows of push. Starting plans and expressions in each transaction is
-- most of the cost of a call of one message. So this function unpacks no array and runs few statements of PL/pgSQL.
-- Calls push in every other case: a partition's first record, a stale caller, a claim whose lease id hides its
-- partition. Calls push also if the newest row does not prove the ids new.
CREATE OR REPLACE FUNCTION queend.push_one(p_version bigint, p_lane int, p_part int, p_skip int, p_n int,
    p_kind smallint, p_lo uuid, p_hi uuid, p_ids bytea, p_body bytea, p_meta bytea, p_hint bigint, p_claim_row int,
    p_claim_group int, p_claim_take int, p_claim_whole boolean, p_claim_lease uuid, p_claim_us bigint, p_known bigint,
    p_known_at bigint, p_compares boolean DEFAULT false)
RETURNS TABLE (ord int, status smallint, base bigint, created_at bigint, dup_offset bigint[], dup_at bigint[],
               seen bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_now     bigint;
    v_next    bigint;
    v_high    uuid;
    v_odd     boolean;
    v_at      bigint;
BEGIN
    IF pg_advisory_xact_lock(1903519076, p_lane) IS NULL
       OR p_claim_lease < '80000000-0000-0000-0000-000000000000' THEN
    ELSIF p_hint = -1 AND p_known > 0 THEN
        INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
        SELECT p_known, m.now, p_part, p_n, p_hi, false, p_ids, p_body, COALESCE(p_meta, '')
          FROM (SELECT queend.now_us() AS now FROM queend.catalog c WHERE c.version = p_version OR p_version = 0
                OFFSET 0) AS m
         WHERE (p_lo >= queend.id_bound(m.now - 60000000)) IS NOT FALSE
           AND p_hi < queend.id_bound(m.now + 60000000) AND p_known_at <= m.now
        RETURNING -2, 0::smallint, 0, created_at, base INTO ord, status, base, v_now, v_next;
        IF FOUND AND EXISTS (SELECT FROM queend.floors f WHERE f.partition_id = p_part AND f.floor > p_known) THEN
            RAISE EXCEPTION USING ERRCODE = 'QD409', MESSAGE = 'a head that was named is another, or does not suffice';
        END IF;
    ELSIF p_hint >= 0 THEN
        SELECT c.version, queend.now_us(), l.base + l.n, l.high, l.odd, l.created_at
          INTO v_version, v_now, v_next, v_high, v_odd, v_at
          FROM queend.catalog c
          LEFT JOIN LATERAL (SELECT l.base, l.n, l.high, l.odd, l.created_at FROM queend.log l
                              WHERE l.partition_id = p_part AND l.base >= p_hint ORDER BY l.base DESC LIMIT 1) AS l
               ON true;
        IF v_at <= v_now AND (p_version = v_version OR p_version = 0)
           AND (p_kind = 2 OR p_lo >= queend.id_bound(v_now - 60000000) AND p_hi < queend.id_bound(v_now + 60000000))
           AND (p_kind < 2 OR v_next = p_known AND v_at = p_known_at)
           AND (p_kind = 0 OR p_kind = 2 OR NOT v_odd AND p_lo > v_high) THEN
            INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
            VALUES (v_next, v_now, p_part, p_n, GREATEST(p_hi, v_high), v_odd, p_ids, p_body, COALESCE(p_meta, ''))
            RETURNING 0, 0::smallint, base INTO ord, status, base;
        END IF;
    END IF;
    IF ord IS NULL THEN
        RETURN QUERY
        SELECT * FROM queend.push(p_version, ARRAY[p_lane], ARRAY[p_part], ARRAY[p_skip], ARRAY[p_n], ARRAY[p_kind],
                                  ARRAY[p_lo], ARRAY[p_hi], ARRAY[p_ids], ARRAY[p_body], ARRAY[p_meta], ARRAY[p_hint],
                                  CASE WHEN p_claim_row IS NOT NULL THEN ARRAY[p_claim_row] END, ARRAY[p_claim_group],
                                  ARRAY[p_claim_take], ARRAY[p_claim_whole], ARRAY[p_claim_lease], ARRAY[p_claim_us],
                                  ARRAY[p_known], ARRAY[p_known_at], p_compares => p_compares);
        RETURN;
    END IF;
    created_at := v_now;
    RETURN NEXT;
    IF p_claim_row IS NOT NULL THEN
        -- Updates by ctid under the lock just taken, as in push.
        UPDATE queend.cursors AS k
           SET committed = v_next - 1 + CASE WHEN p_claim_us = 0 THEN p_claim_take ELSE 0 END,
               row_base = v_next + CASE WHEN p_claim_us = 0 AND p_claim_whole THEN p_claim_take ELSE 0 END,
               lease_id = CASE WHEN p_claim_us = 0 THEN '00000000-0000-0000-0000-000000000000'
                               ELSE p_claim_lease END,
               lease_until = CASE WHEN p_claim_us = 0 THEN 0 ELSE v_now + p_claim_us END,
               lease_end = v_next - 1 + p_claim_take, attempt = 1, consumed_at = v_now,
               retries = CASE WHEN p_claim_us = 0 THEN 0 ELSE k.retries END
         WHERE k.ctid = (SELECT x.ctid FROM queend.cursors x
                          WHERE x.partition_id = p_part AND x.group_id = p_claim_group
                            AND queend.cursor_free(x, v_next, v_now)
                            FOR NO KEY UPDATE SKIP LOCKED)
        RETURNING k.partition_id, 2::smallint, k.group_id, tidsend(k.ctid) INTO ord, status, base, seen;
        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END IF;
END $$;
