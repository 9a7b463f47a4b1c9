-- Applies the acknowledgement of a cycle, whose cursor is locked and was checked: the cursor goes to the record at p_at, whatever
-- stands before it, and never back; what failed becomes a dead letter. p_release, or a failure, gives the lease back although some of the delivery may be left.
-- p_whole: the number of records the caller says it has done; where these are all of the delivery, the cursor goes to the end
-- of it: a client that sorts by ids its producer made may name another record than the last.
CREATE OR REPLACE FUNCTION queend.stream_ack(p_part int, p_group int, p_at bigint, p_lease uuid, p_whole int, p_dead boolean, p_error text,
    p_release boolean, OUT committed bigint, OUT head bigint, OUT released boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    k     queend.cursors;
    v_new record;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    IF p_dead AND p_at > k.committed AND (k.beyond @> p_at) IS NOT TRUE THEN
        PERFORM queend.dead_letter(p_part, p_group, ARRAY[p_at], ARRAY[p_error], k.retries);
    END IF;
    committed := GREATEST(k.committed, p_at);
    IF NOT p_dead AND p_release AND k.lease_id = p_lease AND p_at > k.committed AND p_at <= k.lease_end AND p_whole = k.lease_end - k.committed THEN
        committed := k.lease_end;
    END IF;
    IF committed > k.committed THEN
        SELECT w.* INTO v_new FROM queend.done_with(p_part, p_group, k.committed, k.beyond, int8multirange(int8range(k.committed + 1, committed, '[]'))) AS w;
        committed := v_new.committed;
        k.beyond := v_new.beyond;
    END IF;
    released := p_dead OR p_release;
    head := queend.head(p_part);
    UPDATE queend.cursors c
       SET committed   = stream_ack.committed,
           beyond      = k.beyond,
           row_base    = COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= stream_ack.committed + 1
                                    ORDER BY l.base DESC LIMIT 1), 0),
           lease_id    = CASE WHEN released THEN '00000000-0000-0000-0000-000000000000' ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retries     = CASE WHEN released THEN 0 ELSE k.retries END,
           consumed_at = queend.now_us()
     WHERE c.partition_id = p_part AND c.group_id = p_group;
END $$;
