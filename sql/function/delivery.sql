-- Where the next delivery of a cursor begins and what bounds it, where something is done beyond a gap or a lease ran out:
-- {first record, the offset it ends before (NULL: no bound), 1 where cursors.standing is to be set, how many records became dead letters}.
-- See due_from and lapse.
CREATE OR REPLACE FUNCTION queend.delivery(p_part int, p_group int, p_first bigint, p_beyond int8multirange, p_standing boolean,
    p_lease_until bigint, p_lease_end bigint, p_committed bigint, p_taken bigint) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_first bigint := queend.due_from(p_part, p_group, p_beyond, p_first);
    z       record;
BEGIN
    IF NOT (p_standing IS TRUE OR p_lease_until > 0 AND p_lease_end > p_committed) THEN
        RETURN ARRAY[v_first, queend.done_after(p_beyond, v_first), NULL];
    END IF;
    SELECT x.* INTO z FROM queend.lapse(p_part, p_group, p_lease_until, p_lease_end, p_taken, p_beyond, v_first) AS x;
    RETURN ARRAY[z.first, LEAST(queend.done_after(p_beyond, z.first), z.first + z.most), z.standing::int, z.buried];
END $$;
