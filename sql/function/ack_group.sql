-- Acknowledges some records of one partition for one group; the rules in full. Parameters and result as ack.
--
-- 1. A given lease must be live, else every record answers 16. A record the partition does not hold answers 8 first.
-- 2. A record that is done already, nothing happens: 33 where it is completed once more, 64 (no success) where it ought to go back
--    or to the dead letters.
-- 3. One decision per call about all failed records: with retries left they all go back, else they are all dead-lettered.
-- 4. `stop` is the lowest record that goes back (failed with retries left, or `retry`). Nothing from there on takes
--    effect in this call: those records are delivered again with it, in their order. What other calls have completed stays done.
-- 5. Below stop, what is completed or dead-lettered is done, and nothing else is: what stands before it only where the
--    acknowledgment is cumulative.
-- 6. The cursor moves behind what is done without a gap, and never back; what is done beyond a gap is kept with it (cursors.beyond)
--    and is not delivered again.
-- 7. The lease is released when something goes back (the failed ones count a retry) or when the cursor has reached the end
--    of the window; a whole window or a dead letter resets the retry count.
-- 8. What goes back waits as long as the acknowledgment asks for; where it does not (NULL), failed ones wait as the options of
--    the queue say (retry_pause) and others come again at once. The partition waits as a whole: order is kept.
CREATE OR REPLACE FUNCTION queend.ack_group(p_part int, p_group int, p_lease uuid, p_n int, p_ids bytea, p_status bytea,
    p_retry_limit int, p_retry_delay_us bigint, f_idx int[], f_error text[],
    OUT status smallint, OUT codes bytea, OUT released boolean, OUT committed bigint, OUT head bigint, OUT retry_until bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    none    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_now   bigint := queend.now_us();
    v_found bigint[];         -- offset of record i, -1 = not here
    v_done  int8multirange;   -- those that are done now
    v_upto  bigint;           -- as far as a cumulative one reaches
    v_last  bigint;           -- the one that completed the window
    v_stop  bigint;
    v_back  boolean;          -- failed ones go back
    v_dead  int[];            -- places of the records to dead-letter
    v_pause bigint := 0;      -- of what goes back
    v_new   record;
    k       queend.cursors;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    status := CASE WHEN k.partition_id IS NULL THEN 2 ELSE 0 END;
    released := false;
    committed := COALESCE(k.committed, -1);
    retry_until := 0;
    head := queend.head(p_part);
    v_found := queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ids);

    IF p_lease IS NOT NULL AND (status = 2 OR k.lease_id <> p_lease OR k.lease_until <= v_now) OR status = 2 THEN
        SELECT string_agg(CASE WHEN f.at < 0 THEN '\x08'::bytea WHEN p_lease IS NOT NULL THEN '\x10' ELSE '\x01' END, '' ORDER BY f.ord)
          INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
        RETURN;
    END IF;

    v_back := k.retries < p_retry_limit;
    SELECT min(f.at) INTO v_stop FROM unnest(v_found) WITH ORDINALITY AS f (at, ord)
     WHERE f.at > k.committed AND (k.beyond @> f.at) IS NOT TRUE
       AND (get_byte(p_status, f.ord::int - 1) = 3 OR v_back AND get_byte(p_status, f.ord::int - 1) = 1);
    SELECT range_agg(int8range(f.at, f.at, '[]')), max(f.at) FILTER (WHERE f.status = 4), array_agg(f.i ORDER BY f.at) FILTER (WHERE f.status IN (1, 2))
      INTO v_done, v_upto, v_dead
      FROM (SELECT u.at, u.ord::int - 1 AS i, get_byte(p_status, u.ord::int - 1) AS status FROM unnest(v_found) WITH ORDINALITY AS u (at, ord)) AS f
     WHERE f.at > k.committed AND (v_stop IS NULL OR f.at < v_stop) AND (f.status = 4 OR (k.beyond @> f.at) IS NOT TRUE);
    IF v_upto IS NOT NULL THEN
        v_done := v_done + int8multirange(int8range(k.committed + 1, v_upto, '[]'));
    END IF;
    v_back := v_back AND EXISTS (SELECT 1 FROM unnest(v_found) WITH ORDINALITY AS f (at, ord)
                                  WHERE f.at >= v_stop AND (k.beyond @> f.at) IS NOT TRUE AND get_byte(p_status, f.ord::int - 1) = 1);
    SELECT w.* INTO v_new FROM queend.done_with(p_part, p_group, k.committed, k.beyond, v_done) AS w;
    IF v_new.too_many THEN
        codes := decode(repeat('80', p_n), 'hex');
        RETURN;
    END IF;
    committed := v_new.committed;
    IF v_dead IS NOT NULL THEN
        PERFORM queend.dead_letter(p_part, p_group, array_agg(v_found[d.i + 1] ORDER BY d.ord),
                                   array_agg(COALESCE(e.error, 'Retries exhausted') ORDER BY d.ord), k.retries)
           FROM unnest(v_dead) WITH ORDINALITY AS d (i, ord) LEFT JOIN unnest(f_idx, f_error) AS e (i, error) ON e.i = d.i;
    END IF;
    -- Passing the end of the window completes it; without a window there is nothing to release.
    released := k.lease_until > 0 AND (v_stop IS NOT NULL OR committed >= k.lease_end AND committed > k.committed);
    IF v_stop IS NOT NULL THEN
        v_pause := COALESCE(p_retry_delay_us, CASE WHEN v_back THEN queend.retry_pause(p_part, k.retries) ELSE 0 END);
    END IF;
    retry_until := CASE WHEN v_pause > 0 THEN v_now + v_pause WHEN k.retry_until > v_now THEN k.retry_until ELSE 0 END;
    IF v_pause > 0 THEN
        INSERT INTO queend.pauses (ends_at, partition_id, group_id) VALUES (retry_until, p_part, p_group)
        ON CONFLICT (partition_id, group_id) DO UPDATE SET ends_at = excluded.ends_at;
    END IF;
    UPDATE queend.cursors c
       SET committed   = ack_group.committed,
           beyond      = v_new.beyond,
           row_base    = CASE WHEN ack_group.committed = k.committed THEN k.row_base
                              ELSE COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= ack_group.committed + 1
                                              ORDER BY l.base DESC LIMIT 1), 0) END,
           lease_id    = CASE WHEN released THEN none ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retry_until = ack_group.retry_until,
           retries     = CASE WHEN v_back THEN k.retries + 1
                              WHEN v_dead IS NOT NULL OR v_stop IS NULL AND ack_group.committed >= k.lease_end THEN 0
                              ELSE k.retries END,
           consumed_at = v_now
     WHERE c.partition_id = p_part AND c.group_id = p_group;

    -- Released is said of the ones that went back or were left alone because of them, else of the one that completed the window.
    v_last := CASE WHEN released AND v_stop IS NULL THEN (SELECT max(f) FROM unnest(v_found) AS f WHERE f > k.committed AND f <= committed) END;
    SELECT string_agg(CASE WHEN f.at < 0 THEN '\x08'::bytea
                           WHEN f.at <= k.committed OR k.beyond @> f.at AND get_byte(p_status, f.ord::int - 1) <> 4
                               THEN CASE WHEN get_byte(p_status, f.ord::int - 1) IN (0, 4) THEN '\x21'::bytea ELSE '\x40' END
                           WHEN f.at >= v_stop THEN CASE WHEN released THEN '\x05'::bytea ELSE '\x01' END
                           WHEN f.ord - 1 = ANY (v_dead) THEN '\x03'
                           WHEN f.at = v_last THEN '\x05'
                           ELSE '\x01' END, '' ORDER BY f.ord)
      INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
END $$;
