-- Finds work of which a daemon was not notified: new records, records that a group has yet to consume, ends of pauses.
-- Reads only. Locks: none; safe_time reads the locks of other sessions.

-- Finds partitions with records stored at or after p_since, of which the daemon may not have been notified. Reads only
-- the block ranges that the index on created_at cannot rule out. Parameter p_since is the begin of this look (µs), as
-- the last look returned it. A first look (NULL) reads no record. Parameter p_back is the time since the last look
-- (µs). If the clock was set back since, this look begins p_back before now instead.
--
-- The first row, of partition 0, has the time at which the next look must begin. Records that this look cannot see yet
-- will have a created_at at or after that time (safe_time). The second row, of partition -1, has the start of the
-- oldest transaction that may have written something else, such as a pause. The other rows are the partitions with
-- records of that time, with their heads. The queue_id of the first row is 1 if safe_time returns NULL: another role
-- stores under a lane and hides the start of its transaction. Then the next look begins 60 s back, and may miss records
-- committed later than that.
CREATE OR REPLACE FUNCTION queend.recent(p_since bigint, p_back bigint)
RETURNS TABLE (partition_id int, queue_id int, head bigint)
LANGUAGE plpgsql VOLATILE SET enable_bitmapscan = on SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now    bigint := queend.now_us();
    v_safe   bigint := queend.safe_time();
    v_writer timestamptz := (SELECT min(a.xact_start) FROM pg_stat_activity a
                              WHERE a.backend_xid IS NOT NULL AND a.datname = current_database());
BEGIN
    RETURN QUERY VALUES (0, CASE WHEN v_safe IS NULL THEN 1 ELSE 0 END, COALESCE(v_safe, v_now - 60000000)),
    (-1, 0, COALESCE((extract(epoch FROM v_writer) * 1000000)::bigint, v_now));
    IF p_since IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY      -- in a later snapshot than that of safe_time
    SELECT r.partition_id, p.queue_id, r.head
      FROM (SELECT l.partition_id, max(l.base + l.n) AS head FROM queend.log l
             WHERE l.created_at >= LEAST(p_since, v_now - p_back) GROUP BY l.partition_id) AS r
      JOIN queend.partitions p ON p.id = r.partition_id;
END $$;

-- Returns a lower bound (µs) of created_at for all records that a snapshot taken after this call cannot see. A push
-- reads created_at under a lane and before its commit. So the result is the smaller of the clock now and the starts of
-- the transactions that hold or wait for a lane. A transaction that asks for its lane later reads the clock later; one
-- that had released its lanes had committed. Returns NULL if the start of one of them is hidden (another role's session
-- without pg_read_all_stats, or track_activities off). VOLATILE, so that the caller's next statement takes a later
-- snapshot.
CREATE OR REPLACE FUNCTION queend.safe_time() RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now    bigint := queend.now_us();
    v_hidden boolean;
    v_oldest timestamptz;
BEGIN
    SELECT bool_or(a.pid IS NULL OR a.backend_start IS NULL OR a.state = 'disabled'), min(a.xact_start)
      INTO v_hidden, v_oldest
      FROM pg_locks k LEFT JOIN pg_stat_activity a ON a.pid = k.pid
     WHERE k.locktype = 'advisory' AND k.classid = 1903519076 AND k.objsubid = 2
       AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    IF v_hidden THEN
        RETURN NULL;
    END IF;
    RETURN LEAST(v_now, (extract(epoch FROM v_oldest) * 1000000)::bigint);
END $$;

-- Returns the partitions (of all queues) with a record stored at or after p_since (µs), ascending. Returns NULL if
-- they have more than p_most such log rows. Reads only the block ranges that the index on created_at cannot rule out.
-- All other paths through the log are switched off, because a LIMIT makes the planner walk the primary key.
CREATE OR REPLACE FUNCTION queend.written_since(p_since bigint, p_most int) RETURNS int[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off
    SET enable_bitmapscan = on AS $$
DECLARE
    v_parts int[];
    v_rows  bigint;
BEGIN
    SELECT array_agg(DISTINCT r.partition_id ORDER BY r.partition_id), count(*) INTO v_parts, v_rows
      FROM (SELECT l.partition_id FROM queend.log l WHERE l.created_at >= p_since LIMIT p_most + 1) AS r;
    RETURN CASE WHEN v_rows <= p_most THEN COALESCE(v_parts, '{}') END;
END $$;

-- Returns the partitions of a queue with records that a group has not consumed, by ascending id: a page of p_limit
-- partitions after p_after. Column next is the first offset to deliver; lease_until is 0 without a lease. A last row
-- with head -1 names the last partition read, to continue after. A last row with head -2, or no such row, ends the
-- list. So a queue of less than a page takes one call.
CREATE OR REPLACE FUNCTION queend.pop_scan(p_queue int, p_group int, p_after int, p_limit int)
RETURNS TABLE (partition_id int, next bigint, head bigint, lease_until bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_start bigint;
BEGIN
    SELECT g.start_at INTO v_start FROM queend.consumer_groups g WHERE g.id = p_group;
    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT p.id FROM queend.partitions p WHERE p.queue_id = p_queue AND p.id > p_after ORDER BY p.id LIMIT p_limit)
    SELECT e.id, e.next, e.head, e.lease_until
      FROM (SELECT page.id, COALESCE(k.lease_until, 0) AS lease_until, h.head,
                   CASE WHEN k.partition_id IS NOT NULL THEN k.committed + 1
                        WHEN h.head IS NULL THEN 0
                        WHEN v_start IS NULL
                             THEN COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = page.id), 0)
                        ELSE queend.offset_since(page.id, v_start) END AS next
              FROM page
              LEFT JOIN queend.cursors k ON k.partition_id = page.id AND k.group_id = p_group
              LEFT JOIN LATERAL (SELECT l.base + l.n AS head FROM queend.log l
                                  WHERE l.partition_id = page.id AND l.base >= COALESCE(k.row_base, 0)
                                  ORDER BY l.base DESC LIMIT 1) AS h ON true) AS e
     WHERE e.head > e.next
    UNION ALL
    SELECT m.id, 0::bigint, CASE WHEN m.looked < p_limit THEN -2 ELSE -1 END::bigint, 0::bigint
      FROM (SELECT max(page.id) AS id, count(*) AS looked FROM page) AS m WHERE m.id IS NOT NULL;
END $$;

-- Returns pauses that end, and records that become due, between two times (µs), earliest first, at most p_limit behind
-- (p_from, p_after). So daemons learn when to look at a partition again, whichever daemon set the wait. Column at is
-- that time; group_id 0 means every group.
CREATE OR REPLACE FUNCTION queend.waking(p_from bigint, p_after int, p_to bigint, p_limit int)
RETURNS TABLE (partition_id int, queue_id int, group_id int, at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT w.part, p.queue_id, w.grp, w.at
      FROM ((SELECT u.partition_id AS part, u.group_id AS grp, u.ends_at AS at FROM queend.pauses u
              WHERE (u.ends_at, u.partition_id) > (p_from, p_after) AND u.ends_at <= p_to
              ORDER BY u.ends_at, u.partition_id LIMIT p_limit)
            UNION ALL
            (SELECT s.partition_id, 0, s.due FROM queend.schedule s
              WHERE (s.due, s.partition_id) > (p_from, p_after) AND s.due <= p_to
              ORDER BY s.due, s.partition_id LIMIT p_limit)) AS w
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = w.part OFFSET 0) AS p
     ORDER BY w.at, w.part LIMIT p_limit;
END $$;
