-- Applies a checked acknowledgement inside a transaction: failed and dlq are dead-lettered, and all that is named is done, as ack_group
-- has it; a dead letter or the end of the window releases the lease.
CREATE OR REPLACE FUNCTION queend.transaction_ack(p_part int, p_group int, p_ids bytea, p_status bytea, f_idx int[], f_error text[],
    OUT codes bytea, OUT released boolean, OUT committed bigint, OUT head bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_found bigint[];
    v_done  int8multirange;
    v_upto  bigint;
    v_dead  int[];
    v_last  bigint;
    v_new   record;
    k       queend.cursors;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    v_found := queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ids);
    SELECT range_agg(int8range(f.at, f.at, '[]')), max(f.at) FILTER (WHERE f.status = 4), array_agg(f.i ORDER BY f.at) FILTER (WHERE f.status IN (1, 2))
      INTO v_done, v_upto, v_dead
      FROM (SELECT u.at, u.ord::int - 1 AS i, get_byte(p_status, u.ord::int - 1) AS status FROM unnest(v_found) WITH ORDINALITY AS u (at, ord)) AS f
     WHERE f.at > k.committed AND (f.status = 4 OR (k.beyond @> f.at) IS NOT TRUE);
    IF v_upto IS NOT NULL THEN
        v_done := v_done + int8multirange(int8range(k.committed + 1, v_upto, '[]'));
    END IF;
    SELECT w.* INTO v_new FROM queend.done_with(p_part, p_group, k.committed, k.beyond, v_done) AS w;
    IF v_new.too_many THEN
        RAISE program_limit_exceeded USING MESSAGE = 'too many messages are acknowledged out of order';
    END IF;
    IF v_dead IS NOT NULL THEN
        PERFORM queend.dead_letter(p_part, p_group, array_agg(v_found[d.i + 1] ORDER BY d.ord),
                                   array_agg(COALESCE(e.error, 'Unknown error') ORDER BY d.ord), 0)
           FROM unnest(v_dead) WITH ORDINALITY AS d (i, ord) LEFT JOIN unnest(f_idx, f_error) AS e (i, error) ON e.i = d.i;
    END IF;
    committed := COALESCE(v_new.committed, -1);
    released := COALESCE(k.lease_until > 0 AND (v_dead IS NOT NULL OR committed >= k.lease_end AND committed > k.committed), false);
    UPDATE queend.cursors c
       SET committed   = transaction_ack.committed,
           beyond      = v_new.beyond,
           row_base    = COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= transaction_ack.committed + 1
                                    ORDER BY l.base DESC LIMIT 1), 0),
           lease_id    = CASE WHEN released THEN '00000000-0000-0000-0000-000000000000' ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retries     = CASE WHEN released THEN 0 ELSE k.retries END,
           consumed_at = queend.now_us()
     WHERE c.partition_id = p_part AND c.group_id = p_group AND v_done IS NOT NULL;
    head := queend.head(p_part);
    v_last := (SELECT max(f) FROM unnest(v_found) AS f WHERE f > k.committed AND f <= committed);
    SELECT string_agg(CASE WHEN f.ord - 1 = ANY (v_dead) THEN '\x03'::bytea WHEN released AND f.at = v_last THEN '\x05' ELSE '\x01' END, '' ORDER BY f.ord)
      INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
END $$;
