-- Of p_wanted names of a kind that are to be made in a queue (0: the database), for how many there is room (p_most NULL: for all).
-- What others make at this moment is not seen. Where more than a hundredth of the room that is left is wanted, callers therefore go
-- one after the other, to the end of their transactions: the bound holds unless more than a hundred make names at the same moment.
-- READ COMMITTED. Callers ask for the database first, then for queues ascending.
CREATE OR REPLACE FUNCTION queend.names_room(p_queue int, p_kind text, p_most int, p_wanted int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint;
BEGIN
    IF p_most IS NULL THEN
        RETURN p_wanted;
    END IF;
    v_left := p_most - queend.names_total(p_queue, p_kind);
    IF v_left > 0 AND v_left < 100::bigint * p_wanted THEN
        PERFORM pg_advisory_xact_lock(1903519078, p_queue);
        v_left := p_most - queend.names_total(p_queue, p_kind);
    END IF;
    RETURN LEAST(GREATEST(v_left, 0), p_wanted);
END $$;
