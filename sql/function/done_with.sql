-- Where a cursor stands once the records p_done are done too: behind all that is done without a gap (what retention removed or somebody
-- deleted is none); beyond: what is done behind the first gap, NULL: nothing. too_many: gaps, more than are remembered. A lease
-- cannot have so many: it has 10 000 records at most, and what is delivered again lies between what was done of it.
CREATE OR REPLACE FUNCTION queend.done_with(p_part int, p_group int, p_committed bigint, p_beyond int8multirange, p_done int8multirange,
    OUT committed bigint, OUT beyond int8multirange, OUT too_many boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_all int8multirange := COALESCE(p_beyond + p_done, p_done, p_beyond);
BEGIN
    committed := p_committed;
    too_many := false;
    IF p_done IS NOT NULL THEN
        committed := GREATEST(p_committed, queend.due_from(p_part, p_group, v_all,
                        GREATEST(p_committed + 1, COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0))) - 1);
    END IF;
    beyond := NULLIF(v_all * int8multirange(int8range(committed + 1, NULL)), '{}');
    IF beyond IS NOT NULL THEN
        too_many := (SELECT count(*) FROM unnest(beyond)) > 10000;
    END IF;
END $$;
