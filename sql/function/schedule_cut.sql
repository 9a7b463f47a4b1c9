-- A record that is deleted holds nothing back any more; daemons are told to look at its partition.
CREATE OR REPLACE FUNCTION queend.schedule_cut(p_part int, p_offset bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM queend.schedule s
         WHERE s.partition_id = p_part AND s.last_offset >= p_offset
           AND s.first_offset = (SELECT x.first_offset FROM queend.schedule x WHERE x.partition_id = p_part AND x.first_offset <= p_offset
                                  ORDER BY x.first_offset DESC LIMIT 1)
        RETURNING s.due, s.first_offset, s.last_offset),
    told AS (
        INSERT INTO queend.pauses (ends_at, partition_id, group_id) SELECT queend.now_us(), p_part, 0 FROM gone
        ON CONFLICT (partition_id, group_id) DO UPDATE SET ends_at = excluded.ends_at)
    INSERT INTO queend.schedule (due, first_offset, last_offset, partition_id)
    SELECT g.due, r.first, r.last, p_part
      FROM gone g CROSS JOIN LATERAL (VALUES (g.first_offset, p_offset - 1), (p_offset + 1, g.last_offset)) AS r (first, last) WHERE r.first <= r.last;
END $$;
