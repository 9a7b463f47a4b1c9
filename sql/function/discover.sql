-- How a daemon finds work that it was not told of: what was written since a moment, what a group has not consumed,
-- which pauses end. No locks; safe_time reads those of others.

-- What was stored at or after a moment (µs): how a daemon finds what it was not told of. Reads only the block ranges
-- the index on created_at cannot rule out.
--   p_since   where this look begins: the moment that the last one returned; NULL: nothing is read, a first look
--   p_back    the last look was so long ago (µs): where the clock was set back since, this look begins then instead
-- The first row, of partition 0: the moment where the next look is to begin (safe_time: what this one cannot see yet
-- will have a created_at at or after it). The second, of partition -1: the start of the oldest transaction that may
-- have written something else, such as a pause. Then the partitions with records of that time, with their heads.
-- queue_id of the first row is 1 where safe_time cannot tell, because another role stores under a lane in a transaction
-- of its own and its start is not to be seen: then the next look begins a minute back, and what is committed later than
-- that may be passed over.
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
    RETURN QUERY      -- by a snapshot later than what safe_time saw
    SELECT r.partition_id, p.queue_id, r.head
      FROM (SELECT l.partition_id, max(l.base + l.n) AS head FROM queend.log l
             WHERE l.created_at >= LEAST(p_since, v_now - p_back) GROUP BY l.partition_id) AS r
      JOIN queend.partitions p ON p.id = r.partition_id;
END $$;

-- A moment (µs): every record that a snapshot taken after this call cannot see will have a created_at at or after it.
-- created_at is read under a lane and before the commit, so it is the smaller of the clock now and the starts of the
-- transactions that hold or wait for a lane. One that asks for its lane later reads the clock later; one that had let
-- its lanes go had committed. NULL: the start of one of them is not to be seen (another role's session and no
-- pg_read_all_stats, or track_activities off). VOLATILE: what follows in the caller takes a later snapshot.
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

-- Partitions (of all queues) with a record stored at or after a moment (µs), ascending; NULL when that is more than
-- p_most log rows. Reads only the block ranges the index on created_at cannot rule out: every other way through the log
-- is closed to the planner, to which a LIMIT looks like a reason to walk the primary key.
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

-- The partitions of a queue that have something a group has not consumed, by ascending id, a page of p_limit partitions
-- after p_after at a time. next: first offset to deliver; lease_until: 0 = no lease was left.
-- A last row with head = -1 names the last partition looked at, to go on from; with head = -2, or without it, there are
-- no more: a queue of less than a page is done in one call.
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

-- Pauses that end, and records that are due, between two moments (µs), the earliest first, at most p_limit behind
-- (p_from, p_after): how daemons learn when to look at a partition again, whoever made it wait. at: the moment;
-- group_id: whose, 0 = every group's.
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
