-- The log by offset and by time: one probe of its key, or a binary search. A search for a partition's oldest row starts
-- at the floor. Only import_rows writes. Locks: the partition's lane, in import_rows alone.

-- Returns the next offset that a partition will give, never below its floor. PL/pgSQL keeps its plan from call to call.
-- A function in SQL that cannot be inlined would be planned again in each statement.
CREATE OR REPLACE FUNCTION queend.head(p_part int) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);
BEGIN
    RETURN COALESCE((SELECT l.base + l.n FROM queend.log l WHERE l.partition_id = p_part AND l.base >= v_floor
                      ORDER BY l.base DESC LIMIT 1), v_floor);
END $$;

-- Returns where a partition's log begins and ends, and when its newest record was stored (NULL: it holds no record).
-- Always one row. The planner makes this function part of the statement: two probes of keys.
CREATE OR REPLACE FUNCTION queend.log_end(p_part int) RETURNS TABLE (floor bigint, head bigint, written_at bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.floor, COALESCE(l.next, f.floor), l.created_at
      FROM (SELECT COALESCE((SELECT x.floor FROM queend.floors x WHERE x.partition_id = p_part), 0) AS floor
            OFFSET 0) AS f
      LEFT JOIN LATERAL (SELECT x.base + x.n AS next, x.created_at FROM queend.log x
                          WHERE x.partition_id = p_part AND x.base >= f.floor ORDER BY x.base DESC LIMIT 1) AS l ON true
$$;

-- Returns the base of the row that holds an offset of a partition. Returns the offset itself if the log has no row at
-- or below it.
CREATE OR REPLACE FUNCTION queend.row_of(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= p_offset
                      ORDER BY l.base DESC LIMIT 1), p_offset);
END $$;

-- Returns when the record at an offset of a partition was stored; NULL if the log does not hold it.
CREATE OR REPLACE FUNCTION queend.record_stored(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT queend.record_time(l.created_at, l.meta, p_offset - l.base) FROM (
                SELECT x.* FROM queend.log x WHERE x.partition_id = p_part AND x.base <= p_offset
                 ORDER BY x.base DESC LIMIT 1) AS l
             WHERE l.base + l.n > p_offset);
END $$;

-- Returns the first offset of a partition whose record was stored at or after p_at; the head if there is none. A row's
-- created_at is that of its last record, so the row is found first, then the record in it.
CREATE OR REPLACE FUNCTION queend.offset_since(p_part int, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_base  bigint := queend.row_since(p_part, p_at);
    v_times bigint[];
BEGIN
    SELECT queend.record_times(l.created_at, l.meta) INTO v_times FROM queend.log l
     WHERE l.partition_id = p_part AND l.base = v_base;
    IF v_times IS NULL THEN
        RETURN v_base;
    END IF;
    RETURN v_base + (SELECT count(*) FROM unnest(v_times) AS t (at) WHERE t.at < p_at);
END $$;

-- Returns the base of a partition's first row that has a record stored at or after p_at; the head if there is none.
-- Values of created_at never fall along the offsets, so a binary search finds the row: about 2 log2(rows) index probes.
CREATE OR REPLACE FUNCTION queend.row_since(p_part int, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_low bigint;
    v_high bigint := queend.head(p_part);
    v_at bigint;
    v_base bigint;
    v_n int;
BEGIN
    -- The search begins at the floor: below it lie the index entries of rows that are gone but not vacuumed yet.
    SELECT l.base INTO v_low FROM queend.log l
     WHERE l.partition_id = p_part
       AND l.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0)
     ORDER BY l.base LIMIT 1;
    IF v_low IS NULL THEN
        RETURN v_high;
    END IF;
    WHILE v_low < v_high LOOP
        SELECT l.base, l.n, l.created_at INTO v_base, v_n, v_at FROM queend.log l
         WHERE l.partition_id = p_part AND l.base <= (v_low + v_high) / 2 ORDER BY l.base DESC LIMIT 1;
        IF v_at < p_at THEN
            v_low := v_base + v_n;
        ELSE
            v_high := v_base;
        END IF;
    END LOOP;
    RETURN v_low;
END $$;

-- Appends rows of one partition whose records were stored elsewhere before, with their own times, for an import. The
-- rows must follow each other and begin at the head; otherwise returns false and does nothing. Takes the partition's
-- lane. Parameters p_high, p_odd: as in the log. Parameters p_late, p_late_at: the ids that the log cannot prove, and
-- their offsets.
CREATE OR REPLACE FUNCTION queend.import_rows(p_part int, p_base bigint[], p_created bigint[], p_n int[], p_high uuid[],
    p_odd boolean[], p_ids bytea[], p_body bytea[], p_meta bytea[], p_late_at bigint[], p_late bytea[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, p_part & 63);
    IF queend.head(p_part) <> p_base[1] THEN
        RETURN false;
    END IF;
    INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
    SELECT u.base, u.created, p_part, u.n, u.high, u.odd, u.ids, u.body, u.meta
      FROM unnest(p_base, p_created, p_n, p_high, p_odd, p_ids, p_body, p_meta) AS u (base, created, n, high, odd, ids,
              body, meta);
    INSERT INTO queend.late_ids (position, partition_id, id) SELECT u.at, p_part, u.id
                                                               FROM unnest(p_late_at, p_late) AS u (at, id) ON CONFLICT
                                                             DO NOTHING;
    RETURN true;
END $$;
