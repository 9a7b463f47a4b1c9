-- Ids of stored records: which of the given ids a partition holds, and what a daemon remembers of them. Owns
-- queend.late_ids: ids that the order of the log does not prove. Owns queend.unlisted: the offset from which on
-- late_ids lacks ids that are not version 7. Locks: the caller of a function that writes holds the partition's lane.

-- Finds the given ids that a partition holds. Returns one row per id found: its 0-based place in p_ids, its offset, the
-- time at which it was stored. The result is exact. Only this function knows where an id can be:
--   1. In late_ids: every version-7 id that was not timely when it was stored. Also every id of another version, unless
--      it was stored while a daemon remembered the partition's ids.
--   2. In the log, a timely version-7 id. The rows of such an id begin with the first one whose `high` reaches the id.
--      They end with the last one stored less than W after the id's own time. An id is timely if id_bound(created_at -
--      W) <= id < id_bound(created_at + W), W = 60 s.
--   3. In the log, an id of another version: from queend.unlisted.since on. A caller that remembers the partition
--      limits the search: below p_known the ids can only be at offsets p_from[i] <= offset < p_to[i].
-- Ids of about the same time are searched together, ids of distant times one by one. So one old id among new ones does
-- not bring the whole log into the search. Ids of a producer that pushes in order stand where `high` says. So the rows
-- from the first id's to the last id's are searched first, and the rows after them only for ids still missing.
CREATE OR REPLACE FUNCTION queend.ids_find(p_part int, p_ids bytea, p_known bigint DEFAULT 0,
    p_from bigint[] DEFAULT '{}', p_to bigint[] DEFAULT '{}')
RETURNS TABLE (ord int, found bigint, stored_at bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    w        CONSTANT bigint := 60000000;
    v_listed boolean := EXISTS (SELECT FROM queend.late_ids e WHERE e.partition_id = p_part);
    v_newest bigint;
    v_floor  bigint;
    v_late   int[];
    v_at     bigint[];
    v_sevens int[];
    v_seven  bytea[];
    v_others int[];
    v_other  bytea;
    part     record;
BEGIN
    SELECT l.created_at INTO v_newest FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1;
    IF v_newest IS NULL THEN
        RETURN;
    END IF;
    v_floor := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);

    -- One probe per id: as a subquery of the row it can never become a join that reads all late ids of the partition.
    SELECT array_agg(t.ord) FILTER (WHERE t.at >= v_floor), array_agg(t.at) FILTER (WHERE t.at >= v_floor),
           array_agg(t.ord) FILTER (WHERE (t.at >= v_floor) IS NOT TRUE AND t.seven),
           array_agg(t.id) FILTER (WHERE (t.at >= v_floor) IS NOT TRUE AND t.seven),
           array_agg(t.ord) FILTER (WHERE (t.at >= v_floor) IS NOT TRUE AND NOT t.seven),
           string_agg(t.id, '') FILTER (WHERE (t.at >= v_floor) IS NOT TRUE AND NOT t.seven)
      INTO v_late, v_at, v_sevens, v_seven, v_others, v_other
      FROM (SELECT i.ord, i.id, get_byte(i.id, 6) >> 4 = 7 AS seven,
                   CASE WHEN v_listed THEN (SELECT e.position FROM queend.late_ids e
                                             WHERE e.partition_id = p_part AND e.id = i.id) END AS at
              FROM queend.id_spread(p_ids) AS i OFFSET 0) AS t;
    IF v_late IS NOT NULL THEN
        SELECT l.base, l.base + l.n AS next, l.created_at, queend.record_times(l.created_at, l.meta) AS times INTO part
          FROM queend.log l WHERE l.partition_id = p_part AND l.base <= v_at[1] ORDER BY l.base DESC LIMIT 1;
        IF part.base <= ALL (v_at) AND part.next > ALL (v_at) THEN      -- all of them stand in one row
            RETURN QUERY
            SELECT t.ord, t.at, COALESCE(part.times[t.at - part.base + 1], part.created_at)
              FROM unnest(v_late, v_at) AS t (ord, at);
        ELSE
            RETURN QUERY
            SELECT m.ord, m.at, m.stored_at
              FROM queend.ids_moments(p_part, v_late, v_at,
                                      ARRAY(SELECT (SELECT l.base FROM queend.log l
                                                     WHERE l.partition_id = p_part AND l.base <= t.at
                                                     ORDER BY l.base DESC LIMIT 1)
                                              FROM unnest(v_at) AS t (at))) AS m;
        END IF;
    END IF;

    FOR part IN
        -- Ids stored about now are searched together, and each older id alone. An id of the far future was never timely
        -- here.
        SELECT min(encode(i.id, 'hex') COLLATE "C")::uuid AS first, max(encode(i.id, 'hex') COLLATE "C")::uuid AS last,
               array_agg(i.ord) AS ords, string_agg(i.id, '') AS ids
          FROM (SELECT u.ord, u.id, queend.id_us(u.id) AS us FROM unnest(v_sevens, v_seven) AS u (ord, id)
                OFFSET 0) AS i
         WHERE i.us - w <= v_newest
         GROUP BY i.us / 120000000
    LOOP
        RETURN QUERY
        SELECT part.ords[m.ord + 1], m.at, m.stored_at
          FROM queend.ids_timely(p_part, queend.high_since(p_part, part.first), part.first, part.last, part.ids) AS m;
    END LOOP;

    IF v_other IS NOT NULL THEN
        RETURN QUERY
        SELECT v_others[m.ord + 1], m.at, m.stored_at
          FROM queend.ids_others(p_part, p_known, p_from, p_to, v_other) AS m;
    END IF;
END $$;

-- Finds timely version-7 ids of about the same time, in the range of case 2 of ids_find. Returns the 0-based place in
-- p_ids, the offset and the time at which the record was stored. Parameters p_first and p_last: the smallest and the
-- largest of the ids; p_row: high_since of the smallest. Ids of a producer that pushes in order stand where `high`
-- says: the rows from the first id's to the last id's are searched first. The rows after them are searched only if ids
-- are still missing. Rows of one call of push have one `high`, so each of them may hold the last id.
CREATE OR REPLACE FUNCTION queend.ids_timely(p_part int, p_row bigint, p_first uuid, p_last uuid, p_ids bytea)
RETURNS TABLE (ord int, at bigint, stored_at bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_until  bigint := queend.id_us(uuid_send(p_last)) + 60001000;
    v_newest bigint := (SELECT l.created_at FROM queend.log l WHERE l.partition_id = p_part
                         ORDER BY l.base DESC LIMIT 1);
    v_stop   bigint := CASE WHEN v_newest >= v_until THEN queend.offset_since(p_part, v_until)
                            ELSE 9223372036854775807 END;
    v_last   bigint := CASE WHEN p_last = p_first THEN p_row ELSE queend.high_since(p_part, p_last) END;
    v_found  int;
BEGIN
    v_last := (SELECT l.base FROM queend.log l
                WHERE l.partition_id = p_part AND l.base > v_last
                  AND l.high > (SELECT x.high FROM queend.log x WHERE x.partition_id = p_part AND x.base = v_last)
                ORDER BY l.base LIMIT 1);
    RETURN QUERY SELECT * FROM queend.ids_match(p_part, p_row, LEAST(v_last, v_stop), p_ids);
    GET DIAGNOSTICS v_found = ROW_COUNT;
    IF v_last < v_stop AND v_found < octet_length(p_ids) / 16 THEN
        RETURN QUERY SELECT * FROM queend.ids_match(p_part, v_last, v_stop, p_ids);
    END IF;
END $$;

-- Finds ids that are not version 7, in the range of case 3 of ids_find. Returns the columns of ids_timely. A range
-- costs two probes of the key. So ranges are searched as one if together they span at most 16 offsets per range.
CREATE OR REPLACE FUNCTION queend.ids_others(p_part int, p_known bigint, p_from bigint[], p_to bigint[], p_ids bytea)
RETURNS TABLE (ord int, at bigint, stored_at bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);
    v_since bigint := (SELECT u.since FROM queend.unlisted u WHERE u.partition_id = p_part);
    v_from  bigint := (SELECT min(f) FROM unnest(p_from) AS f);
    v_to    bigint := (SELECT max(t) FROM unnest(p_to) AS t);
BEGIN
    IF v_since IS NULL THEN
        RETURN;
    END IF;
    IF v_to - v_from <= 16 * cardinality(p_from) THEN
        p_from := ARRAY[v_from];
        p_to := ARRAY[v_to];
    END IF;
    RETURN QUERY
    SELECT m.ord, m.at, m.stored_at
      FROM queend.ids_within(p_part, GREATEST(v_since, v_floor, p_known) || p_from, 9223372036854775807 || p_to,
                             p_ids) AS m
     WHERE m.at >= v_floor;
END $$;

-- Returns the base of a partition's first row whose `high` is not below an id; the head if all rows are below. Values
-- of `high` never fall along the offsets. A late producer is a row or two behind, so the newest 8 rows are read first.
-- A binary search over all rows follows only if they do not decide.
CREATE OR REPLACE FUNCTION queend.high_since(p_part int, p_id uuid) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- below: see offset_since
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);
    v_low bigint;
    v_high bigint;
    v_seen int;
    v_base bigint;
    v_n int;
    v_row uuid;
BEGIN
    SELECT min(r.base) FILTER (WHERE r.high >= p_id), min(r.base), count(*) INTO v_high, v_low, v_seen
      FROM (SELECT l.base, l.high FROM queend.log l WHERE l.partition_id = p_part AND l.base >= v_floor
             ORDER BY l.base DESC LIMIT 8) r;
    IF v_high IS NULL THEN
        RETURN queend.head(p_part);
    ELSIF v_high > v_low OR v_seen < 8 THEN
        RETURN v_high;
    END IF;
    SELECT l.base INTO v_low FROM queend.log l WHERE l.partition_id = p_part AND l.base >= v_floor
     ORDER BY l.base LIMIT 1;
    WHILE v_low < v_high LOOP
        SELECT l.base, l.n, l.high INTO v_base, v_n, v_row FROM queend.log l
         WHERE l.partition_id = p_part AND l.base <= (v_low + v_high) / 2 ORDER BY l.base DESC LIMIT 1;
        IF v_row < p_id THEN
            v_low := v_base + v_n;
        ELSE
            v_high := v_base;
        END IF;
    END LOOP;
    RETURN v_low;
END $$;

-- Finds the given ids in the rows of a partition with p_from <= base < p_stop. Returns 0-based place in p_ids, offset,
-- time. Joins all ids of those rows with all given ids by a hash join; nested loops are switched off.
CREATE OR REPLACE FUNCTION queend.ids_match(p_part int, p_from bigint, p_stop bigint, p_ids bytea)
RETURNS TABLE (ord int, at bigint, stored_at bigint)
LANGUAGE plpgsql STABLE SET enable_nestloop = off SET enable_mergejoin = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT i.ord, r.base + s.ord, COALESCE(r.times[s.ord + 1], r.created_at)
      FROM (SELECT l.base, l.created_at,
                   CASE WHEN octet_length(l.meta) > 0 THEN queend.record_times(l.created_at, l.meta) END AS times, l.ids
              FROM queend.log l WHERE l.partition_id = p_part AND l.base >= p_from AND l.base < p_stop OFFSET 0) AS r
      CROSS JOIN LATERAL queend.id_spread(r.ids) AS s
      JOIN queend.id_spread(p_ids) AS i ON i.id = s.id;
END $$;

-- Finds ids in ranges of a partition's offsets, p_from[i] <= offset < p_to[i]. Returns for each id found there, once,
-- its 0-based place in p_ids, its offset and the time at which it was stored. Reads only the ids of a row that lie
-- within the range: two probes of the key for each range, whatever the rows hold.
CREATE OR REPLACE FUNCTION queend.ids_within(p_part int, p_from bigint[], p_to bigint[], p_ids bytea)
RETURNS TABLE (ord int, at bigint, stored_at bigint)
LANGUAGE plpgsql STABLE SET enable_nestloop = off SET enable_mergejoin = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_head  bigint := queend.head(p_part);
    v_ord   int[];
    v_at    bigint[];
    v_base  bigint[];
BEGIN
    SELECT array_agg(f.ord), array_agg(f.at), array_agg(f.base) INTO v_ord, v_at, v_base
      FROM (SELECT DISTINCT ON (i.ord) i.ord, x.start + s.ord AS at, x.base
              FROM (SELECT l.base, GREATEST(r.a, l.base) AS start,
                           substr(l.ids, (16 * (GREATEST(r.a, l.base) - l.base))::int + 1,
                                  (16 * (LEAST(r.b, l.base + l.n) - GREATEST(r.a, l.base)))::int) AS ids
                      FROM unnest(p_from, p_to) AS r (a, b)
                     CROSS JOIN LATERAL (SELECT y.base, y.n, y.ids FROM queend.log y
                                          WHERE y.partition_id = p_part AND y.base < r.b AND y.base + y.n > r.a
                                            AND y.base >= COALESCE((SELECT z.base FROM queend.log z
                                                                     WHERE z.partition_id = p_part AND z.base <= r.a
                                                                     ORDER BY z.base DESC LIMIT 1), r.a)
                                         OFFSET 0) AS l
                     WHERE r.a < v_head OFFSET 0) AS x
              CROSS JOIN LATERAL queend.id_spread(x.ids) AS s
              JOIN queend.id_spread(p_ids) AS i ON i.id = s.id) AS f;
    RETURN QUERY SELECT m.ord, m.at, m.stored_at FROM queend.ids_moments(p_part, v_ord, v_at, v_base) AS m;
END $$;

-- Adds to offsets of a partition the times at which their records were stored; NULL if the log has no such row.
-- Parameter p_base: the base of the row in which each record stands. The times of a row are read once for all of its
-- records.
CREATE OR REPLACE FUNCTION queend.ids_moments(p_part int, p_ord int[], p_at bigint[], p_base bigint[])
RETURNS TABLE (ord int, at bigint, stored_at bigint)
LANGUAGE plpgsql STABLE SET enable_nestloop = off SET enable_mergejoin = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT u.ord, u.at, COALESCE(t.times[u.at - u.base + 1], t.created_at)
      FROM unnest(p_ord, p_at, p_base) AS u (ord, at, base)
      LEFT JOIN (SELECT d.base, l.created_at, queend.record_times(l.created_at, l.meta) AS times
                   FROM (SELECT DISTINCT b.base FROM unnest(p_base) AS b (base)) AS d
                  CROSS JOIN LATERAL (SELECT x.created_at, x.meta FROM queend.log x
                                       WHERE x.partition_id = p_part AND x.base = d.base OFFSET 0) AS l
                 OFFSET 0) AS t ON t.base = u.base;
END $$;

-- Returns the rows of a partition where a producer that pushes in order stored its version-7 ids from p_lo to p_hi, by
-- rising base. Column times has the time of each record; NULL: all are created_at. Returns rows only if p_lo stands in
-- the first row whose `high` reaches it, or in a row of the same `high`. Usually such ids are sent again. Returns no
-- row if a record at or behind that row was deleted. Returns no row either if more than p_most records stand between
-- that row and the row that reaches p_hi.
CREATE OR REPLACE FUNCTION queend.ids_near(p_part int, p_lo uuid, p_hi uuid, p_most bigint)
RETURNS TABLE (base bigint, created_at bigint, times bigint[], ids bytea)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row bigint := queend.high_since(p_part, p_lo);
BEGIN
    RETURN QUERY
    SELECT r.base, r.created_at, r.times, r.ids
      FROM (SELECT l.*, bool_or(l.first AND position(uuid_send(p_lo) IN l.ids) % 16 = 1) OVER () AS met
              FROM (SELECT x.base, x.created_at, x.ids || '' AS ids,
                           x.high = first_value(x.high) OVER (ORDER BY x.base) AS first,
                           CASE WHEN octet_length(x.meta) > 0
                                THEN queend.record_times(x.created_at, x.meta) END AS times
                      FROM queend.log x
                     WHERE x.partition_id = p_part AND x.base >= v_row AND x.base < v_row + p_most
                       AND x.high <= (SELECT y.high FROM queend.log y
                                       WHERE y.partition_id = p_part AND y.base >= v_row AND y.base < v_row + p_most
                                         AND y.high >= p_hi ORDER BY y.base LIMIT 1)
                       AND NOT EXISTS (SELECT FROM queend.holes h
                                        WHERE h.partition_id = p_part AND h.record_offset >= v_row)
                     OFFSET 0) AS l) AS r
     WHERE r.met ORDER BY r.base;
END $$;

-- Returns the rows of a partition that hold records of p_from <= offset < p_to, by rising base, with the columns of
-- ids_near. Returns no row if a record at or behind the first row was deleted, or if retention has passed that row.
-- Returns no row either if the rows could hold more than p_most records.
CREATE OR REPLACE FUNCTION queend.ids_placed(p_part int, p_from bigint, p_to bigint, p_most bigint)
RETURNS TABLE (base bigint, created_at bigint, times bigint[], ids bytea)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row bigint := queend.row_of(p_part, p_from);
BEGIN
    IF p_to - v_row > p_most
        OR EXISTS (SELECT FROM queend.floors f WHERE f.partition_id = p_part AND f.floor > v_row)
        OR EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset >= v_row) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT x.base, x.created_at,
           CASE WHEN octet_length(x.meta) > 0 THEN queend.record_times(x.created_at, x.meta) END, x.ids
      FROM queend.log x WHERE x.partition_id = p_part AND x.base >= v_row AND x.base < p_to ORDER BY x.base;
END $$;

-- Looks up every id of a partition's records in a call of push. Returns for each record, in order, the offset and the
-- time of the record stored under its id. The time is negative if that record was deleted; -1 and 0 stand for an
-- unknown id. Both arrays are NULL if all ids are unknown. Parameters p_kind, p_lo, p_hi: as in push. Ids of one kind
-- and about one time are not sorted by where they can be. Parameters p_known, p_from, p_to: as in ids_find.
CREATE OR REPLACE FUNCTION queend.ids_held(p_part int, p_kind smallint, p_lo uuid, p_hi uuid, p_ids bytea,
    p_known bigint, p_from bigint[], p_to bigint[], OUT dup_offset bigint[], OUT dup_at bigint[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_n      int := octet_length(p_ids) / 16;
    v_timely boolean := p_kind < 2 AND queend.id_us(uuid_send(p_hi)) - queend.id_us(uuid_send(p_lo)) < 120000000;
    v_holes  boolean := EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part);
    v_ord    int[];
    v_found  bigint[];
    v_at     bigint[];
    deleted  int;
BEGIN
    IF EXISTS (SELECT FROM queend.late_ids e WHERE e.partition_id = p_part) OR NOT v_timely AND p_kind <> 2 THEN
        SELECT array_agg(f.ord), array_agg(f.found), array_agg(f.stored_at) INTO v_ord, v_found, v_at
          FROM queend.ids_find(p_part, p_ids, p_known, p_from, p_to) AS f;
    ELSIF p_kind = 2 THEN
        SELECT array_agg(f.ord), array_agg(f.at), array_agg(f.stored_at) INTO v_ord, v_found, v_at
          FROM queend.ids_others(p_part, p_known, p_from, p_to, p_ids) AS f;
    ELSE
        SELECT array_agg(f.ord), array_agg(f.at), array_agg(f.stored_at) INTO v_ord, v_found, v_at
          FROM queend.ids_timely(p_part, queend.high_since(p_part, p_lo), p_lo, p_hi, p_ids) AS f;
    END IF;
    IF v_ord IS NULL THEN
        RETURN;
    END IF;
    dup_offset := array_fill(-1::bigint, ARRAY[v_n]);
    dup_at := array_fill(0::bigint, ARRAY[v_n]);
    FOR i IN 1 .. cardinality(v_ord) LOOP
        IF dup_offset[v_ord[i] + 1] NOT BETWEEN 0 AND v_found[i] THEN      -- the older one of two
            dup_offset[v_ord[i] + 1] := v_found[i];
            dup_at[v_ord[i] + 1] := v_at[i];
        END IF;
    END LOOP;
    IF v_holes THEN
        FOR deleted IN
            SELECT u.ord::int FROM unnest(dup_offset) WITH ORDINALITY AS u (at, ord)
             WHERE EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = u.at)
               AND NOT EXISTS (SELECT FROM queend.dead_letters d
                                WHERE d.partition_id = p_part AND d.record_offset = u.at)
        LOOP
            dup_at[deleted] := -dup_at[deleted];
        END LOOP;
    END IF;
END $$;

-- Finds where records of the given ids are already stored, each searched from the offset p_known on (ids_find). Returns
-- ord, the 0-based place in the arrays, the offset and the time, and whether the record was deleted.
CREATE OR REPLACE FUNCTION queend.ids_stored(p_part int[], p_id bytea[], p_known bigint[])
RETURNS TABLE (ord int, found bigint, stored_at bigint, deleted boolean)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, f.found, f.stored_at,
           EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = u.part AND h.record_offset = f.found)
           AND NOT EXISTS (SELECT FROM queend.dead_letters d
                            WHERE d.partition_id = u.part AND d.record_offset = f.found)
      FROM unnest(p_part, p_id, p_known) WITH ORDINALITY AS u (part, id, known, ord)
     CROSS JOIN LATERAL queend.ids_find(u.part, u.id, u.known) AS f
$$;

-- Tells whether a push whose answer was lost stored its records. Takes one element per batch row, as push does. Returns
-- rows for all elements if all records stand next to each other in their order and have one time. Otherwise the result
-- is empty: then the whole statement had no effect. Columns base and created_at are those of each row's first record.
-- Takes the lanes as the statement took them, so it waits for the end of a statement that is still running.
CREATE OR REPLACE FUNCTION queend.pushed(p_lanes int[], p_part int[], p_n int[], p_ids bytea[])
RETURNS TABLE (ord int, base bigint, created_at bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, lane) FROM unnest(p_lanes) AS lane;
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT u.ord::int - 1 AS ord, u.n, f.n AS stored, f.first, f.last, f.at, f.until
          FROM unnest(p_part, p_n, p_ids) WITH ORDINALITY AS u (part, n, ids, ord)
         CROSS JOIN LATERAL (SELECT count(*) AS n, min(i.found - i.ord) AS first, max(i.found - i.ord) AS last,
                                    min(i.stored_at) AS at, max(i.stored_at) AS until
                               FROM queend.ids_find(u.part, u.ids) AS i) AS f)
    SELECT f.ord, f.first, f.at FROM found f
     WHERE (SELECT bool_and(x.stored = x.n AND x.first = x.last) AND min(x.at) = max(x.until) FROM found x)
     ORDER BY f.ord;
END $$;

-- Prepares the look-up of a partition's records, by p_known (see push): reads the ids that the caller has to learn, or
-- fills late_ids. Column before: up to where the caller's knowledge counts. Column seen: the ids after it (ids_seen).
-- Column ready: the caller knows all ids, or late_ids holds all. Requires the partition's lane.
CREATE OR REPLACE FUNCTION queend.ids_prepare(p_part int, p_known bigint, p_known_at bigint, OUT before bigint,
    OUT seen bytea, OUT ready boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_listed boolean := NOT EXISTS (SELECT FROM queend.unlisted u WHERE u.partition_id = p_part);
    v_head   bigint;
BEGIN
    before := 0;
    ready := true;
    IF p_known = -1 THEN
        ready := v_listed OR queend.ids_list(p_part);
    ELSIF p_known <> 0 OR p_known = 0 AND NOT v_listed THEN
        v_head := queend.head(p_part);
        before := queend.ids_known(p_part, p_known, p_known_at);
        seen := queend.ids_seen(p_part, before);
        ready := ('x' || encode(substr(seen, 1, 8), 'hex'))::bit(64)::bigint + octet_length(seen) / 16 - 1 >= v_head;
        IF ready AND v_listed THEN
            INSERT INTO queend.unlisted (partition_id, since) VALUES (p_part, v_head);
        END IF;
    END IF;
END $$;

-- Puts ids that are not version 7 into late_ids, of at most about 5000 records from queend.unlisted.since on, and
-- raises `since` by as much. Serves partitions whose ids no daemon has room to remember. Returns true if since is now
-- the head: late_ids holds all ids. Requires the partition's lane. A caller that removes the row from queend.unlisted
-- must append to the partition in the same transaction. Then a daemon that still remembers the partition sees another
-- head than it knows.
CREATE OR REPLACE FUNCTION queend.ids_list(p_part int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_since bigint;
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);
BEGIN
    SELECT GREATEST(u.since, v_floor) INTO v_since FROM queend.unlisted u WHERE u.partition_id = p_part;
    WITH r AS MATERIALIZED (
        SELECT x.* FROM (SELECT y.*, sum(y.n) OVER (ORDER BY y.base) - y.n AS before
                           FROM (SELECT l.base, l.n, l.ids FROM queend.log l
                                  WHERE l.partition_id = p_part AND l.base >= queend.row_of(p_part, v_since)
                                  ORDER BY l.base LIMIT 5000) AS y) AS x
         WHERE x.before < 5000),
    late AS (
        INSERT INTO queend.late_ids AS e (position, partition_id, id)
        SELECT DISTINCT ON (i.id) r.base + i.ord, p_part, i.id FROM r CROSS JOIN LATERAL queend.id_spread(r.ids) AS i
         WHERE get_byte(i.id, 6) >> 4 <> 7 ORDER BY i.id, r.base + i.ord DESC
        ON CONFLICT (partition_id, id) DO UPDATE SET position = GREATEST(e.position, excluded.position))
    SELECT GREATEST(v_since, max(r.base + r.n)) INTO v_since FROM r;
    UPDATE queend.unlisted u SET since = v_since WHERE u.partition_id = p_part;
    RETURN v_since >= queend.head(p_part);
END $$;

-- Returns the next ids of a partition, in the form of ids_seen, for a daemon that is to remember them. They begin where
-- the daemon's knowledge ends, if that counts (ids_known), else at the first row. Needs no lane, because a push
-- compares the head before it relies on the ids.
CREATE OR REPLACE FUNCTION queend.ids_learn(p_part int, p_known bigint, p_known_at bigint) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN queend.ids_seen(p_part, queend.ids_known(p_part, p_known, p_known_at));
END $$;

-- Returns the offset up to which a caller's knowledge of a partition counts. That is p_known if a row stored at
-- p_known_at still ends there, else 0. A failed database may have lost the end of the log and written another.
-- Parameter p_known: as in push.
CREATE OR REPLACE FUNCTION queend.ids_known(p_part int, p_known bigint, p_known_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_known bigint := CASE WHEN p_known < -1 THEN -2 - p_known ELSE p_known END;
BEGIN
    IF v_known > 0
       AND EXISTS (SELECT FROM (SELECT l.base + l.n AS next, l.created_at FROM queend.log l
                                 WHERE l.partition_id = p_part AND l.base < v_known
                                 ORDER BY l.base DESC LIMIT 1) AS l
                    WHERE l.next = v_known AND l.created_at = p_known_at) THEN
        RETURN v_known;
    END IF;
    RETURN 0;
END $$;

-- Returns the ids of a partition's rows from the base p_from on, at most about 20000, for a daemon that is to remember
-- them. Format: 8 bytes offset of the first id, 8 bytes time of the last row, then the ids as they stand. If the ids
-- are empty, the offset is the head and the time that of the newest row (0: the partition has no row).
CREATE OR REPLACE FUNCTION queend.ids_seen(p_part int, p_from bigint) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT int8send(COALESCE(min(r.base), queend.head(p_part)))
                   || int8send(COALESCE(max(r.created_at),
                                        (SELECT l.created_at FROM queend.log l WHERE l.partition_id = p_part
                                          ORDER BY l.base DESC LIMIT 1), 0))
                   || COALESCE(string_agg(r.ids, '' ORDER BY r.base), '')
              FROM (SELECT x.base, x.created_at, x.ids, sum(x.n) OVER (ORDER BY x.base) - x.n AS before
                      FROM (SELECT l.base, l.n, l.created_at, l.ids FROM queend.log l
                             WHERE l.partition_id = p_part AND l.base >= p_from
                             ORDER BY l.base LIMIT 20000) AS x) AS r
             WHERE r.before < 20000);
END $$;
