-- The first offset at or after p_at that a group has still to do: behind what is done (p_done), deleted, or for other groups.
CREATE OR REPLACE FUNCTION queend.due_from(p_part int, p_group int, p_done int8multirange, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_holes boolean := (SELECT c.holes FROM queend.catalog c);
    v_given boolean := (SELECT f.addressed FROM queend.floors f WHERE f.partition_id = p_part);
    v_at    bigint := p_at;
    v_next  bigint;
BEGIN
    FOR i IN 1 .. 1000 LOOP
        v_next := queend.undone_from(p_done, v_at);
        IF v_given THEN
            v_next := queend.given_from(p_part, p_group, v_next);
        ELSIF v_holes THEN
            v_next := queend.hole_end(p_part, v_next);
        END IF;
        EXIT WHEN v_next = v_at;
        v_at := v_next;
    END LOOP;
    RETURN queend.undone_from(p_done, v_at);
END $$;
