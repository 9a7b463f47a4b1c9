-- The ids of a partition's rows from an offset on that is the base of one, at most about 20000 of them, for a daemon that is
-- to remember them: 8 bytes offset of the first, 8 bytes moment of the last row, then the ids as they stand. Where there is
-- none, the offset is the head and the moment that of the newest row (0: there is no row).
CREATE OR REPLACE FUNCTION queend.ids_seen(p_part int, p_from bigint) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT int8send(COALESCE(min(r.base), queend.head(p_part)))
                   || int8send(COALESCE(max(r.created_at), (SELECT l.created_at FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1), 0))
                   || COALESCE(string_agg(r.ids, '' ORDER BY r.base), '')
              FROM (SELECT x.base, x.created_at, x.ids, sum(x.n) OVER (ORDER BY x.base) - x.n AS before
                      FROM (SELECT l.base, l.n, l.created_at, l.ids FROM queend.log l WHERE l.partition_id = p_part AND l.base >= p_from
                             ORDER BY l.base LIMIT 20000) AS x) AS r
             WHERE r.before < 20000);
END $$;
