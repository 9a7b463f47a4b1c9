-- Retention: removes a partition's oldest rows and raises its floor with them. Owns floors.floor and floors.raised_at.
-- Takes no lane. Locks: the partition's row, FOR NO KEY UPDATE SKIP LOCKED, then its dead letters (advisory) if
-- compressed rows are removed.

-- Removes the records of a queue that its options let expire. Visits at most p_parts of its partitions after p_after
-- (by id), and removes about p_rows log rows. Times in µs, 0 = that rule is off:
--   p_expired    Records stored before it are removed, consumed or not.
--   p_completed  Records stored before it are removed if every group of the queue has consumed them, and some group has
--                a cursor.
--   p_waited     Records stored before it are removed if some group has yet to consume them, or no group has a cursor.
--                Records before them are removed too: the log loses its oldest records only.
-- A record with a delivery moment counts as stored then, and so do the records behind it (row_over). If p_expired is
-- negative, all records stored before -p_expired are removed, whatever their delivery moment. A group without a cursor
-- in a partition stands where its subscription begins.
--
-- Returns one row per partition with a result. Columns: reason (1 expired, 2 completed, 3 waited, 0 nothing removed),
-- log rows and records removed. Column pinned: records that p_completed would remove if group_id (NULL: the queue has
-- no group) had consumed them. Neither counts deleted records: rows may be removed without one. The last row has reason
-- -1: continue after partition_id; NULL there: the queue is done.
--
-- A floor is always where a row begins, and a partition holds no row below it. Both change in one transaction, at most
-- p_rows at a time. So the oldest row is searched from the floor on. Index entries of rows that are deleted and wait
-- for vacuum lie below. The partition's row is locked to the end: every removal or replacement of its rows holds it.
-- Pushes and pops lock nothing that this function needs. This function takes no lane.
--
-- A dead letter copies its compressed row. Such rows are removed under the lock of the partition's dead letters, so a
-- dead letter is either complete and seen here, or is not made. While a dead letter is being made, the partition is
-- left to the next run. If p_expired is negative, nothing is left: the function waits for the first such lock, and ends
-- before a later partition whose lock is not free.
CREATE OR REPLACE FUNCTION queend.retain(p_queue int, p_after int, p_parts int, p_rows int, p_expired bigint,
    p_completed bigint, p_waited bigint)
RETURNS TABLE (partition_id int, reason smallint, rows int, records bigint, pinned bigint, group_id int)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_left int := p_rows;
    v_last int;
    v_seen int := 0;
    part   record;
    v_from bigint;
    v_to   bigint;
    v_time bigint;
    v_gone bigint;      -- deleted records among those that are removed
    v_free boolean;     -- no dead letter is being made of the rows to remove
    v_held boolean := false;      -- a lock of dead letters is held
    k      record;
BEGIN
    FOR part IN
        SELECT p.id, f.floor, l.created_at
          FROM (SELECT x.id FROM queend.partitions x WHERE x.queue_id = p_queue AND x.id > p_after
                 ORDER BY x.id LIMIT p_parts) AS p
          LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
          LEFT JOIN LATERAL (SELECT x.created_at FROM queend.log x
                              WHERE x.partition_id = p.id AND x.base >= COALESCE(f.floor, 0)
                              ORDER BY x.base LIMIT 1) AS l ON true
         ORDER BY p.id
    LOOP
        IF v_left <= 0 THEN
            RETURN QUERY SELECT v_last, -1::smallint, 0, 0::bigint, 0::bigint, NULL::int;
            RETURN;
        END IF;
        v_last := part.id;
        v_seen := v_seen + 1;
        CONTINUE WHEN part.created_at IS NULL OR part.created_at >= GREATEST(abs(p_expired), p_completed, p_waited);

        PERFORM 1 FROM queend.partitions x WHERE x.id = part.id FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        partition_id := part.id;
        reason := 0;
        rows := 0;
        records := 0;
        pinned := 0;
        group_id := NULL;
        v_from := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = part.id), 0);
        v_to := v_from;
        IF p_completed > 0 OR p_waited > 0 THEN
            SELECT CASE WHEN bool_or(c.here) THEN min(c.next) END AS next,
                   (array_agg(c.id ORDER BY c.next))[1] AS group_id INTO k
              FROM (SELECT g.id, x.committed IS NOT NULL AS here,
                           COALESCE(x.committed + 1,
                                    CASE WHEN g.start_at IS NULL THEN v_from
                                         ELSE queend.offset_since(part.id, g.start_at) END) AS next
                      FROM queend.consumer_groups g
                      LEFT JOIN LATERAL (SELECT y.committed FROM queend.cursors y
                                          WHERE y.partition_id = part.id AND y.group_id = g.id OFFSET 0) AS x ON true
                     WHERE g.queue_id = p_queue) AS c;
        END IF;
        IF p_expired <> 0 THEN
            v_time := CASE WHEN p_expired < 0 THEN queend.row_since(part.id, -p_expired)
                           ELSE queend.row_over(part.id, v_from, p_expired) END;
            IF v_time > v_to THEN
                v_to := v_time;
                reason := 1;
            END IF;
        END IF;
        IF p_completed > 0 THEN
            v_time := queend.row_over(part.id, v_from, p_completed);
            IF v_time > v_to THEN
                pinned := v_time - GREATEST(v_to, LEAST(v_time, COALESCE(k.next, 0)));
                group_id := CASE WHEN pinned > 0 AND k.next IS NOT NULL THEN k.group_id END;
                IF pinned > 0 THEN      -- begin of the row with the first record not consumed
                    pinned := pinned - (SELECT count(*) FROM queend.holes h
                                         WHERE h.partition_id = part.id AND h.record_offset >= v_time - pinned
                                           AND h.record_offset < v_time);
                    v_time := (SELECT CASE WHEN l.base + l.n <= k.next THEN l.base + l.n ELSE l.base END
                                 FROM queend.log l
                                WHERE l.partition_id = part.id AND l.base >= v_from AND l.base <= k.next
                                ORDER BY l.base DESC LIMIT 1);
                END IF;
                IF v_time > v_to THEN
                    v_to := v_time;
                    reason := 2;
                END IF;
            END IF;
        END IF;
        IF p_waited > 0 THEN
            v_time := queend.row_over(part.id, v_from, p_waited);
            IF v_time > v_to AND (k.next IS NULL OR k.next < v_time) THEN
                v_to := v_time;
                reason := 3;
            END IF;
        END IF;

        IF v_to > v_from THEN
            v_to := (SELECT max(r.next) FROM (SELECT l.base + l.n AS next FROM queend.log l
                      WHERE l.partition_id = part.id AND l.base >= v_from AND l.base < v_to
                                               ORDER BY l.base LIMIT v_left) AS r);
            v_free := true;
            IF EXISTS (SELECT FROM queend.log l WHERE l.partition_id = part.id AND l.base >= v_from AND l.base < v_to
                          AND get_byte(substr(l.body, 1, 1), 0) <> 16) THEN
                IF p_expired < 0 AND NOT v_held THEN
                    PERFORM pg_advisory_xact_lock(1903519079, part.id);
                ELSE
                    v_free := pg_try_advisory_xact_lock(1903519079, part.id);
                END IF;
                v_held := v_held OR v_free;
            END IF;
            IF NOT v_free THEN
                IF p_expired < 0 THEN
                    RETURN QUERY SELECT part.id - 1, -1::smallint, 0, 0::bigint, 0::bigint, NULL::int;
                    RETURN;
                END IF;
                reason := 0;
            ELSIF v_to > v_from THEN
                INSERT INTO queend.floors (partition_id, floor, raised_at) VALUES (part.id, v_to, queend.now_us())
                ON CONFLICT (partition_id) DO UPDATE SET floor = excluded.floor, raised_at = excluded.raised_at;
                DELETE FROM queend.holes h WHERE h.partition_id = part.id AND h.record_offset < v_to;
                GET DIAGNOSTICS v_gone = ROW_COUNT;
                DELETE FROM queend.addressed a WHERE a.partition_id = part.id AND a.last_offset < v_to;
                DELETE FROM queend.schedule s WHERE s.partition_id = part.id AND s.first_offset < v_to;
                -- If dead letters keep a copy of a removed row, all other records of the row are to be erased in the
                -- copy.
                INSERT INTO queend.erasures (partition_id, record_offset)
                SELECT part.id, o.at
                  FROM queend.dead_bodies b CROSS JOIN LATERAL generate_series(b.base, b.base + b.n - 1) AS o (at)
                 WHERE b.partition_id = part.id AND b.base >= v_from AND b.base < v_to
                   AND NOT EXISTS (SELECT FROM queend.dead_letters d
                                    WHERE d.partition_id = part.id AND d.record_offset = o.at)
                ON CONFLICT DO NOTHING;
                WITH gone AS (
                    DELETE FROM queend.log l WHERE l.partition_id = part.id AND l.base >= v_from AND l.base < v_to
                    RETURNING l.n, l.odd, l.ids),
                freed AS (
                    DELETE FROM queend.late_ids t
                     WHERE t.ctid = ANY (ARRAY(
                        SELECT (SELECT e.ctid FROM queend.late_ids e
                                 WHERE e.partition_id = part.id AND e.id = substr(g.ids, 16 * i + 1, 16)
                                   AND e.position >= v_from AND e.position < v_to)
                          FROM gone g CROSS JOIN generate_series(0, g.n - 1) AS i
                         WHERE g.odd OR get_byte(g.ids, 16 * i + 6) >> 4 <> 7)))
                SELECT count(*), COALESCE(sum(g.n), 0) - v_gone INTO rows, records FROM gone g;
                v_left := v_left - rows;
            END IF;
        END IF;
        IF rows > 0 OR pinned > 0 THEN
            RETURN NEXT;
        END IF;
        IF v_left <= 0 THEN      -- this partition may have more
            RETURN QUERY SELECT part.id - 1, -1::smallint, 0, 0::bigint, 0::bigint, NULL::int;
            RETURN;
        END IF;
    END LOOP;
    RETURN QUERY SELECT CASE WHEN v_seen = p_parts THEN v_last END, -1::smallint, 0, 0::bigint, 0::bigint, NULL::int;
END $$;

-- Returns up to which offset the rows of a partition from p_from on are over at p_at. A row is over if its records were
-- stored before, and delivered before if they had to wait for a delivery moment (schedule_since). The offset is where a
-- row begins.
CREATE OR REPLACE FUNCTION queend.row_over(p_part int, p_from bigint, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_to bigint := queend.row_since(p_part, p_at);
    v_at bigint := queend.schedule_since(p_part, p_from, v_to, p_at);
BEGIN
    IF v_at IS NULL THEN
        RETURN v_to;
    END IF;
    RETURN (SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= v_at
             ORDER BY l.base DESC LIMIT 1);
END $$;
