-- The first offset at or after this one that a group may be given: behind what was deleted and what is for other groups.
-- It may stop earlier, at a record that the group is not given, after 1000 such runs: a caller looks again from there.
CREATE OR REPLACE FUNCTION queend.given_from(p_part int, p_group int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_name text := (SELECT g.name FROM queend.consumer_groups g WHERE g.id = p_group);
    v_at   bigint := p_offset;
    v_last bigint;
BEGIN
    FOR i IN 1 .. 1000 LOOP
        v_at := queend.hole_end(p_part, v_at);
        SELECT CASE WHEN a.first_offset <= v_at AND a.group_name IS DISTINCT FROM v_name THEN a.last_offset END INTO v_last
          FROM queend.addressed a WHERE a.partition_id = p_part AND a.last_offset >= v_at ORDER BY a.last_offset LIMIT 1;
        EXIT WHEN v_last IS NULL;
        v_at := v_last + 1;
    END LOOP;
    RETURN v_at;
END $$;
