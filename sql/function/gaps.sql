-- Records that a group has done beyond a gap (cursors.beyond): arithmetic over ranges of offsets. Locks: none; the
-- caller holds the cursor.

-- Computes the new position of a cursor once the records p_done are done too. Returns in committed the last record done
-- without a gap; records that retention or a deletion removed are no gap. Returns in beyond the records done behind the
-- first gap, NULL without such records. Returns too_many if there are more than 10 000 such ranges. One lease cannot
-- cause so many: it has at most 10 000 records, and records delivered again lie between those done.
CREATE OR REPLACE FUNCTION queend.done_with(p_part int, p_group int, p_committed bigint, p_beyond int8multirange,
    p_done int8multirange, OUT committed bigint, OUT beyond int8multirange, OUT too_many boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_all int8multirange := COALESCE(p_beyond + p_done, p_done, p_beyond);
BEGIN
    committed := p_committed;
    too_many := false;
    IF p_done IS NOT NULL THEN
        committed := GREATEST(p_committed, queend.due_from(p_part, p_group, v_all,
                        GREATEST(p_committed + 1,
                                 COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0)))
                              - 1);
    END IF;
    beyond := NULLIF(v_all * int8multirange(int8range(committed + 1, NULL)), '{}');
    IF beyond IS NOT NULL THEN
        too_many := (SELECT count(*) FROM unnest(beyond)) > 10000;
    END IF;
END $$;

-- Returns the first offset at or after p_at that a group still has to do. Passes records that are done (p_done; NULL:
-- nothing beyond a gap), deleted, or addressed to other groups. After 1000 such runs it may stop earlier, at a record
-- that the group is not given: the caller then looks again from there.
CREATE OR REPLACE FUNCTION queend.due_from(p_part int, p_group int, p_done int8multirange, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_holes boolean := (SELECT c.holes FROM queend.catalog c);
    v_given boolean := (SELECT f.addressed FROM queend.floors f WHERE f.partition_id = p_part);
    v_name  text := (SELECT g.name FROM queend.consumer_groups g WHERE g.id = p_group);
    v_at    bigint := p_at;
    v_next  bigint;
BEGIN
    FOR i IN 1 .. 1000 LOOP
        v_next := queend.undone_from(p_done, v_at);
        IF v_holes THEN
            v_next := queend.hole_end(p_part, v_next);
        END IF;
        IF v_given THEN
            v_next := COALESCE((SELECT CASE WHEN a.first_offset <= v_next AND a.group_name IS DISTINCT FROM v_name
                                                 THEN a.last_offset + 1 END
                                  FROM queend.addressed a WHERE a.partition_id = p_part AND a.last_offset >= v_next
                                 ORDER BY a.last_offset LIMIT 1), v_next);
        END IF;
        EXIT WHEN v_next = v_at;
        v_at := v_next;
    END LOOP;
    RETURN queend.undone_from(p_done, v_at);
END $$;

-- Returns the first offset at or after p_at that is not done (cursors.beyond; NULL: nothing beyond a gap).
CREATE OR REPLACE FUNCTION queend.undone_from(p_done int8multirange, p_at bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN p_done @> p_at THEN (SELECT upper(r.run) FROM unnest(p_done) AS r (run) WHERE r.run @> p_at)
                ELSE p_at END;
END $$;

-- Returns the first offset behind p_at that is done (cursors.beyond), NULL if there is none.
CREATE OR REPLACE FUNCTION queend.done_after(p_done int8multirange, p_at bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (SELECT min(lower(r.run)) FROM unnest(p_done) AS r (run) WHERE lower(r.run) > p_at);
END $$;

-- Returns how many offsets from p_from on are done (cursors.beyond; NULL: 0).
CREATE OR REPLACE FUNCTION queend.done_count(p_done int8multirange, p_from bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_done IS NULL THEN
        RETURN 0;
    END IF;
    RETURN (SELECT COALESCE(sum(upper(r.run) - GREATEST(lower(r.run), p_from)), 0) FROM unnest(p_done) AS r (run)
             WHERE upper(r.run) > p_from);
END $$;
