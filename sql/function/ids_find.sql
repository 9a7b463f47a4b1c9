-- Which of these ids does a partition hold? One row per id found: its 0-based place in p_ids, its offset, the moment it
-- was stored. Exact, and the only place that knows where an id can be:
--   1. in late_ids (every version-7 id that was not timely when it was stored; every id of another version, unless it was
--      stored while a daemon remembered the partition's ids);
--   2. a timely version-7 id in the log: from the first row whose `high` reaches it to the last row stored less than W
--      after the id's own moment. Timely: id_bound(created_at - W) <= id < id_bound(created_at + W), W = 60 s;
--   3. an id of another version in the log, from queend.unlisted.since on. Who remembers the partition says where not to
--      look: below p_known there is none but, perhaps, in the places p_from[i] <= offset < p_to[i].
-- Ids of about the same moment are searched together; ids of moments far apart each by itself, so that one old id among
-- new ones does not drag the whole log into the search.
CREATE OR REPLACE FUNCTION queend.ids_find(p_part int, p_ids bytea, p_known bigint DEFAULT 0, p_from bigint[] DEFAULT '{}', p_to bigint[] DEFAULT '{}')
RETURNS TABLE (ord int, found bigint, stored_at bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    w        CONSTANT bigint := 60000000;
    v_newest bigint;
    v_floor  bigint;
    v_since  bigint;
    v_stop   bigint;
    v_late   int[];
    v_at     bigint[];
    part     record;
BEGIN
    SELECT l.created_at INTO v_newest FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1;
    IF v_newest IS NULL THEN
        RETURN;
    END IF;
    v_floor := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);

    -- One probe per id: as a subquery of the row it can never become a join that reads all late ids of the partition.
    SELECT array_agg(t.ord), array_agg(t.at) INTO v_late, v_at
      FROM (SELECT i.ord, (SELECT e.position FROM queend.late_ids e WHERE e.partition_id = p_part AND e.id = i.id) AS at
              FROM queend.id_spread(p_ids) AS i) AS t
     WHERE t.at >= v_floor;
    RETURN QUERY
    SELECT t.ord, t.at, (SELECT queend.record_time(l.created_at, l.meta, t.at - l.base) FROM queend.log l WHERE l.partition_id = p_part AND l.base <= t.at ORDER BY l.base DESC LIMIT 1)
      FROM unnest(v_late, v_at) AS t (ord, at);

    FOR part IN
        -- The ids stored about now go together; an older one by itself; one from the far future was never timely here.
        SELECT min(encode(i.id, 'hex') COLLATE "C")::uuid AS first, max(queend.id_us(i.id)) + w + 1000 AS until,
               array_agg(i.ord ORDER BY i.ord) AS ords, string_agg(i.id, '' ORDER BY i.ord) AS ids
          FROM queend.id_spread(p_ids) AS i
         WHERE get_byte(i.id, 6) >> 4 = 7 AND queend.id_us(i.id) - w <= v_newest AND (v_late IS NULL OR i.ord <> ALL (v_late))
         GROUP BY queend.id_us(i.id) / 120000000
    LOOP
        v_stop := CASE WHEN v_newest < part.until THEN 9223372036854775807 ELSE queend.offset_since(p_part, part.until) END;
        RETURN QUERY
        SELECT part.ords[m.ord + 1], m.at, m.stored_at
          FROM queend.ids_match(p_part, queend.high_since(p_part, part.first), v_stop, part.ids) AS m
         WHERE m.at >= v_floor;
    END LOOP;

    v_since := (SELECT u.since FROM queend.unlisted u WHERE u.partition_id = p_part);
    IF v_since IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(i.ord ORDER BY i.ord) AS ords, string_agg(i.id, '' ORDER BY i.ord) AS ids INTO part
      FROM queend.id_spread(p_ids) AS i WHERE get_byte(i.id, 6) >> 4 <> 7 AND (v_late IS NULL OR i.ord <> ALL (v_late));
    IF part.ids IS NOT NULL THEN
        RETURN QUERY
        SELECT DISTINCT ON (1) part.ords[m.ord + 1], m.at, m.stored_at
          FROM (SELECT GREATEST(v_since, v_floor, p_known) AS a, 9223372036854775807 AS b
                UNION ALL SELECT u.a, u.b FROM unnest(p_from, p_to) AS u (a, b)) AS r
          CROSS JOIN LATERAL queend.ids_match(p_part, queend.row_of(p_part, r.a), r.b, part.ids) AS m
         WHERE m.at >= v_floor;
    END IF;
END $$;
