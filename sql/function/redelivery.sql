-- Records for one group only: runs of offsets in queend.addressed, which deliveries to other groups pass over. Owns
-- queend.addressed. floors.addressed says that a partition has such records. Locks: written under the partition's lane.

-- Marks records that this transaction has just stored as addressed to one group. Extends the run that ends right before
-- them, if that run is for the same group. Requires the partition's lane. Locks the floor first, as retention does.
CREATE OR REPLACE FUNCTION queend.address_add(p_part int, p_first bigint, p_last bigint, p_group text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.floors AS f (partition_id, floor, addressed) VALUES (p_part, 0, true)
    ON CONFLICT (partition_id) DO UPDATE SET addressed = true WHERE NOT f.addressed;
    UPDATE queend.addressed a SET last_offset = p_last
     WHERE a.partition_id = p_part AND a.last_offset = p_first - 1 AND a.group_name = p_group;
    IF NOT FOUND THEN
        INSERT INTO queend.addressed (first_offset, last_offset, partition_id, group_name) VALUES (p_first, p_last,
                p_part, p_group);
    END IF;
END $$;

-- Returns the first of the p_most records from p_offset on that was deleted or is addressed to another group. Returns
-- NULL if the group is given all of them.
CREATE OR REPLACE FUNCTION queend.given_until(p_part int, p_group int, p_offset bigint, p_most int) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_name text := (SELECT g.name FROM queend.consumer_groups g WHERE g.id = p_group);
    v_hole bigint := queend.hole_after(p_part, p_offset);
    v_to   bigint := LEAST(p_offset + p_most, v_hole);
    a      record;
BEGIN
    FOR a IN SELECT x.first_offset, x.group_name FROM queend.addressed x
              WHERE x.partition_id = p_part AND x.last_offset >= p_offset ORDER BY x.last_offset LOOP
        EXIT WHEN a.first_offset >= v_to;
        IF a.group_name IS DISTINCT FROM v_name THEN
            RETURN GREATEST(a.first_offset, p_offset);
        END IF;
    END LOOP;
    RETURN v_hole;
END $$;
