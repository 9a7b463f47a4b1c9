-- Applies a checked acknowledgement inside a transaction: failed and dlq are dead-lettered, the cursor moves to the
-- highest record and never back; a dead letter or the end of the window releases the lease.
CREATE OR REPLACE FUNCTION queend.transaction_ack(p_part int, p_group int, p_ids bytea, p_status bytea, f_idx int[], f_error text[],
    OUT codes bytea, OUT released boolean, OUT committed bigint, OUT head bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_found bigint[];
    v_end   bigint;
    v_dead  int[];
    k       queend.cursors;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    v_found := queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ids);
    SELECT max(f.at), array_agg(f.ord::int - 1 ORDER BY f.at) FILTER (WHERE get_byte(p_status, f.ord::int - 1) IN (1, 2))
      INTO v_end, v_dead FROM unnest(v_found) WITH ORDINALITY AS f (at, ord) WHERE f.at > k.committed;
    IF v_dead IS NOT NULL THEN
        PERFORM queend.dead_letter(p_part, p_group, array_agg(v_found[d.i + 1] ORDER BY d.ord),
                                   array_agg(COALESCE(e.error, 'Unknown error') ORDER BY d.ord), 0)
           FROM unnest(v_dead) WITH ORDINALITY AS d (i, ord) LEFT JOIN unnest(f_idx, f_error) AS e (i, error) ON e.i = d.i;
    END IF;
    committed := COALESCE(v_end, k.committed, -1);
    released := COALESCE(k.lease_until > 0 AND (v_dead IS NOT NULL OR committed >= k.lease_end AND committed > k.committed), false);
    UPDATE queend.cursors c
       SET committed   = transaction_ack.committed,
           row_base    = COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= transaction_ack.committed + 1
                                    ORDER BY l.base DESC LIMIT 1), 0),
           lease_id    = CASE WHEN released THEN '00000000-0000-0000-0000-000000000000' ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retries     = CASE WHEN released THEN 0 ELSE k.retries END,
           consumed_at = queend.now_us()
     WHERE c.partition_id = p_part AND c.group_id = p_group AND v_end IS NOT NULL;
    head := queend.head(p_part);
    SELECT string_agg(CASE WHEN f.ord - 1 = ANY (v_dead) THEN '\x03'::bytea WHEN released AND f.at = committed THEN '\x05' ELSE '\x01' END, '' ORDER BY f.ord)
      INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
END $$;
