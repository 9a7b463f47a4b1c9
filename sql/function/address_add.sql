-- Takes note that these records, which this transaction has just stored, are for one group only. The partition's lane is held.
-- A run that the newest one leads up to becomes part of it.
CREATE OR REPLACE FUNCTION queend.address_add(p_part int, p_first bigint, p_last bigint, p_group text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE queend.addressed a SET last_offset = p_last WHERE a.partition_id = p_part AND a.last_offset = p_first - 1 AND a.group_name = p_group;
    IF NOT FOUND THEN
        INSERT INTO queend.addressed (first_offset, last_offset, partition_id, group_name) VALUES (p_first, p_last, p_part, p_group);
    END IF;
    INSERT INTO queend.floors AS f (partition_id, floor, addressed) VALUES (p_part, 0, true)
    ON CONFLICT (partition_id) DO UPDATE SET addressed = true WHERE NOT f.addressed;
END $$;
