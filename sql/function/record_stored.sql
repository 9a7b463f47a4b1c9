-- When the record at an offset of a partition was stored; NULL when the log does not hold it.
CREATE OR REPLACE FUNCTION queend.record_stored(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT queend.record_time(l.created_at, l.meta, p_offset - l.base) FROM (
                SELECT x.* FROM queend.log x WHERE x.partition_id = p_part AND x.base <= p_offset ORDER BY x.base DESC LIMIT 1) AS l
             WHERE l.base + l.n > p_offset);
END $$;
