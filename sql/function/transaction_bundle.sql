-- Transactions with operations on keys and timers: pushes, acknowledgments, keys and timers, all or nothing. Locks:
-- lanes ascending, then cursors ascending, then keys ascending, then timers ascending, until the end of the
-- transaction.

-- Runs a transaction (transaction_due), then the operations of the k_ arrays (kv_apply), then those of the t_ arrays
-- (timers_write). Parameter k_required: those that have to be applied. If one of them is not, nothing is done, and the
-- last row says why: kind 3, its outcome and 16 as status. If timers_write refuses (outcomes 5 and 6), nothing is
-- done, and the last rows are those of kind 4 that say so. The rows before them say nothing then. Parameter p_dry: only
-- report what would be refused.
-- Other rows of kind 3 are results of kv_apply: status the outcome, base the version, created_at the moment of the last
-- write, committed the expiry, codes the value. Rows of kind 4 are results of timers_write: status the outcome, base
-- the due moment, codes the message id, seen the transaction id. The rows of the other kinds are those of transaction.
-- If they refuse it, keys and timers are not looked at.
CREATE OR REPLACE FUNCTION queend.transaction_bundle(p_version bigint, p_lanes int[], p_part int[], p_skip int[],
    p_n int[], p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    a_part int[], a_group int[], a_lease uuid[], a_n int[], a_ids bytea[], a_status bytea[], f_row int[], f_idx int[],
    f_error text[], p_required uuid[], p_req_part int[], p_req_group int[],
    p_known bigint[], p_known_at bigint[], p_look_row int[], p_look_from bigint[], p_look_to bigint[], p_dry boolean,
    k_wave int[], k_op smallint[], k_ns text[], k_key text[], k_value text[], k_expect bigint[], k_ttl_us bigint[],
    k_delta text[], k_min text[], k_max text[], k_required boolean[],
    t_op smallint[], t_queue text[], t_key text[], t_partition text[], t_transaction text[], t_payload text[],
    t_seal text[], t_delay_us bigint[], t_producer text[])
RETURNS TABLE (ord int, kind smallint, status smallint, base bigint, created_at bigint, codes bytea, released boolean,
               committed bigint, head bigint, dup_index int, seen bytea)
LANGUAGE plpgsql AS $$
DECLARE
    v_refused boolean := false;
    v_at      int;            -- the first required operation that was not applied
    v_why     record;
    r         record;
BEGIN
    FOR r IN
        SELECT *
          FROM queend.transaction_due(p_version, p_lanes, p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body,
                                      p_meta, a_part, a_group, a_lease, a_n, a_ids, a_status, f_row, f_idx, f_error,
                                      p_required, p_req_part, p_req_group, p_known, p_known_at, p_look_row,
                                      p_look_from, p_look_to, p_dry)
    LOOP
        v_refused := v_refused OR r.ord < 0 OR r.kind = 2 OR r.kind = 0 AND r.status <> 0
                  OR r.kind = 1 AND rtrim(r.codes, E'\\x010305') <> '';
        RETURN QUERY SELECT r.ord, r.kind, r.status, r.base, r.created_at, r.codes, r.released, r.committed, r.head,
                            r.dup_index, r.seen;
    END LOOP;
    IF v_refused THEN
        RETURN;
    END IF;
    PERFORM queend.kv_lock(k_ns, k_key, k_op);
    FOR r IN SELECT * FROM queend.kv_apply(k_wave, k_op, k_ns, k_key, k_value, k_expect, k_ttl_us, k_delta, k_min,
                                           k_max)
    LOOP
        IF r.outcome > 0 AND k_required[r.ord + 1] AND (v_at IS NULL OR r.ord < v_at) THEN
            v_at := r.ord;
            v_why := r;
        END IF;
        RETURN QUERY SELECT r.ord, 3::smallint, r.outcome, r.version, r.updated_at, convert_to(r.value, 'UTF8'), false,
                            r.expires_at, 0::bigint, -1, NULL::bytea;
    END LOOP;
    IF v_at IS NULL AND cardinality(t_op) > 0 THEN
        FOR r IN SELECT * FROM queend.timers_write(t_op, t_queue, t_key, t_partition, t_transaction, t_payload, t_seal,
                                                   t_delay_us, t_producer)
        LOOP
            v_refused := v_refused OR r.outcome >= 5;
            RETURN QUERY SELECT r.ord, 4::smallint, r.outcome, r.due, NULL::bigint, uuid_send(r.message_id), false,
                                NULL::bigint, 0::bigint, -1, convert_to(r.txn, 'UTF8');
        END LOOP;
    END IF;
    IF v_at IS NOT NULL OR v_refused OR p_dry THEN
        RAISE EXCEPTION USING ERRCODE = 'QD412', MESSAGE = 'nothing is done';
    END IF;
EXCEPTION WHEN SQLSTATE 'QD412' THEN
    IF v_at IS NOT NULL THEN
        RETURN QUERY SELECT v_at, 3::smallint, (16 + v_why.outcome)::smallint, v_why.version, v_why.updated_at,
                            convert_to(v_why.value, 'UTF8'), false, v_why.expires_at, 0::bigint, -1, NULL::bytea;
    END IF;
END $$;
