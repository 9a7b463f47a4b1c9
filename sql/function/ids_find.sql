-- Which of these ids does a partition hold? One row per id found: its 0-based place in p_ids, its offset, the moment it
-- was stored. Exact, and the only place that knows where an id can be:
--   1. in late_ids (every id that is not version 7, every version-7 id that was not timely when it was stored);
--   2. a timely version-7 id in the log: from the first row whose `high` reaches it to the last row stored less than W
--      after the id's own moment. Timely: id_bound(created_at - W) <= id < id_bound(created_at + W), W = 60 s.
-- Ids of about the same moment are searched together; ids of moments far apart each by itself, so that one old id among
-- new ones does not drag the whole log into the search.
CREATE OR REPLACE FUNCTION queend.ids_find(p_part int, p_ids bytea) RETURNS TABLE (ord int, found bigint, stored_at bigint)
LANGUAGE plpgsql STABLE SET enable_nestloop = off SET enable_hashjoin = on SET enable_seqscan = off AS $$
DECLARE
    w      CONSTANT bigint := 60000000;
    newest bigint;
    floor_ bigint;
    stop   bigint;
    late   int[];
    late_at bigint[];
    part   record;
BEGIN
    SELECT l.created_at INTO newest FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1;
    IF newest IS NULL THEN
        RETURN;
    END IF;
    floor_ := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);

    SELECT array_agg(i.ord), array_agg(t.position) INTO late, late_at
      FROM queend.id_spread(p_ids) AS i
      CROSS JOIN LATERAL (SELECT e.position FROM queend.late_ids e
                           WHERE e.partition_id = p_part AND e.id = i.id AND e.position >= floor_) AS t;
    RETURN QUERY
    SELECT t.ord, t.position, (SELECT l.created_at FROM queend.log l
                                WHERE l.partition_id = p_part AND l.base <= t.position ORDER BY l.base DESC LIMIT 1)
      FROM unnest(late, late_at) AS t (ord, position);

    FOR part IN
        -- The ids stored about now go together; an older one by itself; one from the far future was never timely here.
        SELECT min(encode(i.id, 'hex') COLLATE "C")::uuid AS first, max(queend.id_us(i.id)) + w + 1000 AS until, array_agg(i.ord ORDER BY i.ord) AS ords, string_agg(i.id, '' ORDER BY i.ord) AS ids
          FROM queend.id_spread(p_ids) AS i
         WHERE get_byte(i.id, 6) >> 4 = 7 AND queend.id_us(i.id) - w <= newest AND (late IS NULL OR i.ord <> ALL (late))
         GROUP BY queend.id_us(i.id) / 120000000
    LOOP
        stop := CASE WHEN newest < part.until THEN 9223372036854775807 ELSE queend.offset_since(p_part, part.until) END;
        RETURN QUERY
        SELECT part.ords[i.ord + 1], r.base + s.ord, r.created_at
          FROM (SELECT l.base, l.created_at, l.ids FROM queend.log l
                 WHERE l.partition_id = p_part AND l.base < stop AND l.base + l.n > floor_
                   AND l.base >= queend.high_since(p_part, part.first)) AS r
          CROSS JOIN LATERAL queend.id_spread(r.ids) AS s
          JOIN queend.id_spread(part.ids) AS i ON i.id = s.id
         WHERE r.base + s.ord >= floor_;
    END LOOP;
END $$;
