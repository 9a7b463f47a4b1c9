-- Kept figures of queues, groups and partitions, so that a page reads a sum. Owns queend.stats and queend.stat_*.
-- Updates run one at a time: services/stats holds a session lock.

-- Returns the partitions whose kept figures are out of date. They were written, claimed or acknowledged since the last
-- look, or have a mark that is due, even if deleted since. A mark comes from stats_mark, or from stats_visit for the
-- end of a lease. Element parts[i] is of queues[i]. If p_floors, also returns those whose floor rose: that compares
-- every floor with the kept one. Returns in since the time before which every change is among them. The caller passes
-- it to stats_keep once all of them were visited.
--
-- Removes the figures of deleted queues and groups. Marks a queue for a walk through all of its partitions (stats_walk)
-- if it is new or has a new group. The same holds if its groups were moved or its delayedProcessing changed. If more
-- than p_most rows of the log were written, p_whole decides: true marks every queue, false returns NULL in since. The
-- time in a row is read before the row is locked or committed, so looks overlap by two seconds. A transaction that
-- commits more than two seconds after its time is found with the next change of its partition or by the next walk.
CREATE OR REPLACE FUNCTION queend.stats_changed(p_most int, p_whole boolean, p_floors boolean, OUT since bigint,
    OUT queues int[], OUT parts int[])
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    v_now   bigint := queend.now_us();
    v_since bigint := COALESCE((SELECT s.since FROM queend.stats s), v_now);    -- at the first call every queue is new
    v_dead  CONSTANT int := 10000;
    v_parts int[];
    v_gone  int[];
BEGIN
    since := LEAST(COALESCE(queend.safe_time(), v_now - 60000000), v_now) - 2000000;

    WITH gone AS (DELETE FROM queend.stat_queues s
                   WHERE NOT EXISTS (SELECT FROM queend.queues q WHERE q.id = s.queue_id) RETURNING s.queue_id)
    DELETE FROM queend.stat_partitions s USING gone g WHERE s.queue_id = g.queue_id;
    WITH gone AS (DELETE FROM queend.stat_groups s
                   WHERE NOT EXISTS (SELECT FROM queend.consumer_groups g WHERE g.id = s.group_id) RETURNING s.group_id)
    DELETE FROM queend.stat_cursors s USING gone g WHERE s.group_id = g.group_id;
    v_gone := ARRAY(SELECT DISTINCT m.partition_id FROM queend.stat_marks m
                     WHERE m.due <= v_now
                       AND NOT EXISTS (SELECT FROM queend.partitions p WHERE p.id = m.partition_id));
    IF v_gone <> '{}' THEN
        DELETE FROM queend.stat_marks m
         WHERE m.partition_id = ANY (v_gone)
           AND NOT EXISTS (SELECT FROM queend.stat_partitions s WHERE s.partition_id = m.partition_id);
    END IF;
    INSERT INTO queend.stat_queues (queue_id, epoch, delayed, visit_after)
    SELECT q.id, q.epoch, q.delayed_processing, 0 FROM queend.queues q
     WHERE NOT EXISTS (SELECT FROM queend.stat_queues s WHERE s.queue_id = q.id) ON CONFLICT DO NOTHING;
    WITH unlisted AS (
        SELECT g.id, g.queue_id FROM queend.consumer_groups g
         WHERE NOT EXISTS (SELECT FROM queend.stat_groups s WHERE s.group_id = g.id AND s.listed)),
    listed AS (
        INSERT INTO queend.stat_groups (group_id, queue_id, listed) SELECT u.id, u.queue_id, true FROM unlisted u
        ON CONFLICT (group_id) DO UPDATE SET listed = true)
    UPDATE queend.stat_queues s
       SET epoch = q.epoch, delayed = q.delayed_processing, visit_after = COALESCE(s.visit_after, 0),
           visit_stop = NULL, visit_rest = NULLIF(s.visit_after, 0)
      FROM queend.queues q
     WHERE q.id = s.queue_id
       AND (s.epoch <> q.epoch OR s.delayed <> q.delayed_processing
            OR s.queue_id IN (SELECT u.queue_id FROM unlisted u));
    -- Dead letters are few, or wait for the next walk to be counted in full.
    UPDATE queend.stat_queues s SET dead = d.n
      FROM (SELECT x.queue_id,
                   (SELECT count(*)
                      FROM (SELECT FROM queend.dead_letters l WHERE l.queue_id = x.queue_id LIMIT v_dead + 1) AS l) AS n
              FROM queend.stat_queues x) AS d
     WHERE d.queue_id = s.queue_id AND d.n <> s.dead AND d.n <= v_dead;

    v_parts := queend.written_since(v_since, p_most);
    IF v_parts IS NULL AND NOT p_whole THEN
        since := NULL;
        RETURN;
    ELSIF v_parts IS NULL THEN
        PERFORM queend.stats_walk_all();
    END IF;
    SELECT array_agg(p.queue_id ORDER BY p.id), array_agg(p.id ORDER BY p.id) INTO queues, parts
      FROM (SELECT u.id FROM unnest(v_parts) AS u (id)
            UNION SELECT k.partition_id FROM queend.cursors k WHERE k.consumed_at >= v_since
            UNION SELECT m.partition_id FROM queend.stat_marks m WHERE m.due <= v_now
            UNION SELECT f.partition_id FROM queend.floors f
                    LEFT JOIN queend.stat_partitions s ON s.partition_id = f.partition_id
                   WHERE p_floors AND s.floor IS DISTINCT FROM f.floor) AS c
      JOIN queend.partitions p ON p.id = c.id;
    IF v_gone <> '{}' THEN      -- deleted partitions: a visit takes them out of the sums
        SELECT queues || array_agg(s.queue_id), parts || array_agg(s.partition_id) INTO queues, parts
          FROM queend.stat_partitions s WHERE s.partition_id = ANY (v_gone);
    END IF;
END $$;

-- Marks partitions for stats_changed whose figures this transaction changes without a trace in the log or a claim.
-- Examples: a deleted message, a cursor moved without a claim or an acknowledgment. Locks nothing.
CREATE OR REPLACE FUNCTION queend.stats_mark(p_parts int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.stat_marks (partition_id) SELECT DISTINCT u.id FROM unnest(p_parts) AS u (id);
END $$;

-- Marks every queue for a walk. A running walk goes on, and another one follows for the partitions behind it. So each
-- partition is visited, however often this function is called.
CREATE OR REPLACE FUNCTION queend.stats_walk_all() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE queend.stat_queues s
       SET visit_after = COALESCE(s.visit_after, 0), visit_stop = NULL, visit_rest = NULLIF(s.visit_after, 0);
END $$;

-- Visits the next partitions, at most p_limit, of the queues that are marked for a walk. Returns how many: 0 if all
-- marks are gone. Removes the figures of deleted partitions on the way, and counts dead letters in full.
CREATE OR REPLACE FUNCTION queend.stats_walk(p_limit int) RETURNS int
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    v_left   int := p_limit;
    v_queues int[] := '{}';
    v_parts  int[] := '{}';
    v_page   int[];
    v_last   int;
    q        record;
BEGIN
    FOR q IN SELECT s.queue_id, s.visit_after, s.visit_stop, s.visit_rest FROM queend.stat_queues s
              WHERE s.visit_after IS NOT NULL
              ORDER BY s.queue_id LIMIT p_limit LOOP
        EXIT WHEN v_left <= 0;
        v_page := ARRAY(SELECT p.id FROM queend.partitions p WHERE p.queue_id = q.queue_id AND p.id > q.visit_after
                           AND (q.visit_stop IS NULL OR p.id <= q.visit_stop)
                         ORDER BY p.id LIMIT v_left);
        v_last := CASE WHEN cardinality(v_page) = v_left THEN v_page[v_left] END;
        v_page := ARRAY(SELECT u.id FROM unnest(v_page) AS u (id)
                        UNION SELECT s.partition_id FROM queend.stat_partitions s
                               WHERE s.queue_id = q.queue_id AND s.partition_id > q.visit_after
                                 AND s.partition_id <= COALESCE(v_last, q.visit_stop, s.partition_id));
        v_parts := v_parts || v_page;
        v_queues := v_queues || array_fill(q.queue_id, ARRAY[cardinality(v_page)]);
        v_left := v_left - GREATEST(cardinality(v_page), 1);
        UPDATE queend.stat_queues s
           SET visit_after = COALESCE(v_last, CASE WHEN q.visit_rest IS NOT NULL THEN 0 END),
               visit_stop = CASE WHEN v_last IS NULL THEN q.visit_rest ELSE q.visit_stop END,
               visit_rest = CASE WHEN v_last IS NOT NULL THEN q.visit_rest END,
               dead = CASE WHEN q.visit_after = 0
                                THEN (SELECT count(*) FROM queend.dead_letters d WHERE d.queue_id = q.queue_id)
                           ELSE s.dead END
         WHERE s.queue_id = q.queue_id;
    END LOOP;
    IF cardinality(v_parts) > 0 THEN
        PERFORM queend.stats_visit(v_queues, v_parts);
    END IF;
    RETURN p_limit - v_left;
END $$;

-- Brings the kept figures of partitions up to date: subtracts their kept figures from the sums of queues and groups and
-- adds the current ones. One statement does both, so from one snapshot. Partition i is of queue p_queue[i]; a deleted
-- partition leaves the sums. Requires the session lock of the statistics (services/stats), so that visits do not
-- overlap.
CREATE OR REPLACE FUNCTION queend.stats_visit(p_queue int[], p_parts int[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    DELETE FROM queend.stat_marks m WHERE m.partition_id = ANY (p_parts);      -- before the snapshot of the visit
    WITH want AS MATERIALIZED (
        SELECT u.queue_id, u.partition_id FROM unnest(p_queue, p_parts) AS u (queue_id, partition_id)),
    live AS MATERIALIZED (
        SELECT c.*, COALESCE(c.waiting_since, 0) AS since FROM queend.cursor_figures(p_parts, NULL) AS c),
    parts AS MATERIALIZED (
        SELECT c.queue_id, c.partition_id, min(c.floor) AS floor, max(c.head) AS head,
               COALESCE(max(c.newest), 0) AS newest, max(c.total) AS total, max(c.lag - c.leased) AS pending,
               max(c.leased) AS processing,
               max(c.lag - c.leased) + max(c.leased) - max(c.lag) AS overlap,
               max(CASE WHEN c.group_id IS NULL THEN 0 ELSE c.total - c.lag END) AS completed,
               max(c.consumed) AS consumed,
               COALESCE(min(c.lease_until) FILTER (WHERE c.lease_until > 0), 0) AS until,
               max(CASE WHEN c.group_id IS NULL THEN c.since ELSE 0 END) AS unread
          FROM live c GROUP BY c.queue_id, c.partition_id),
    members AS MATERIALIZED (
        SELECT c.* FROM live c WHERE c.group_id IS NOT NULL AND (c.has_cursor OR c.lag > 0)),
    old_parts AS MATERIALIZED (
        SELECT s.* FROM want w CROSS JOIN LATERAL (
            SELECT x.* FROM queend.stat_partitions x
             WHERE x.queue_id = w.queue_id AND x.partition_id = w.partition_id OFFSET 0) AS s),
    old_cursors AS MATERIALIZED (
        SELECT g.queue_id, s.* FROM want w
         CROSS JOIN LATERAL (SELECT x.id, x.queue_id FROM queend.consumer_groups x
                              WHERE x.queue_id = w.queue_id OFFSET 0) AS g
         CROSS JOIN LATERAL (SELECT x.* FROM queend.stat_cursors x
                              WHERE x.group_id = g.id AND x.partition_id = w.partition_id OFFSET 0) AS s),
    put_parts AS (
        INSERT INTO queend.stat_partitions AS s (floor, head, newest, total, pending, processing, overlap, completed,
                                                 consumed, until, unread, queue_id, partition_id)
        SELECT p.floor, p.head, p.newest, p.total, p.pending, p.processing, p.overlap, p.completed, p.consumed,
               p.until, p.unread, p.queue_id, p.partition_id FROM parts p
        ON CONFLICT (queue_id, partition_id) DO UPDATE
           SET floor = excluded.floor, head = excluded.head, newest = excluded.newest, total = excluded.total,
               pending = excluded.pending, processing = excluded.processing, overlap = excluded.overlap,
               completed = excluded.completed, consumed = excluded.consumed, until = excluded.until,
               unread = excluded.unread
         WHERE (s.floor, s.head, s.newest, s.total, s.pending, s.processing, s.overlap, s.completed, s.consumed,
                s.until, s.unread)
               IS DISTINCT FROM (excluded.floor, excluded.head, excluded.newest, excluded.total, excluded.pending,
                                 excluded.processing, excluded.overlap, excluded.completed, excluded.consumed,
                                 excluded.until, excluded.unread)),
    put_marks AS (      -- the expiry of the first lease changes the figures
        INSERT INTO queend.stat_marks (partition_id, due)
        SELECT p.partition_id, p.until FROM parts p WHERE p.until > 0),
    put_cursors AS (
        INSERT INTO queend.stat_cursors AS s (next, lag, leased, oldest, group_id, partition_id, consumed, has_cursor)
        SELECT c.next, c.lag, c.leased, c.since, c.group_id, c.partition_id, c.consumed_at IS NOT NULL, c.has_cursor
          FROM members c
        ON CONFLICT (group_id, partition_id) DO UPDATE
           SET next = excluded.next, lag = excluded.lag, leased = excluded.leased, oldest = excluded.oldest,
               consumed = excluded.consumed, has_cursor = excluded.has_cursor
         WHERE (s.next, s.lag, s.leased, s.oldest, s.consumed, s.has_cursor)
               IS DISTINCT FROM (excluded.next, excluded.lag, excluded.leased, excluded.oldest, excluded.consumed,
                                 excluded.has_cursor)),
    drop_parts AS (
        DELETE FROM queend.stat_partitions s USING old_parts o
         WHERE s.queue_id = o.queue_id AND s.partition_id = o.partition_id
           AND NOT EXISTS (SELECT FROM parts p WHERE p.queue_id = o.queue_id AND p.partition_id = o.partition_id)),
    drop_cursors AS (
        DELETE FROM queend.stat_cursors s USING old_cursors o
         WHERE s.group_id = o.group_id AND s.partition_id = o.partition_id
           AND NOT EXISTS (SELECT FROM members c WHERE c.group_id = o.group_id AND c.partition_id = o.partition_id)),
    put_groups AS (
        INSERT INTO queend.stat_groups AS s (group_id, queue_id, members, lagging, lag, leases, leased, consumed,
                                             consumed_at)
        SELECT d.group_id, d.queue_id, sum(d.sign * d.has_cursor::int), sum(d.sign * (d.lag > 0)::int),
               sum(d.sign * d.lag), sum(d.sign * (d.leased > 0)::int), sum(d.sign * d.leased),
               sum(d.sign * d.consumed::int), max(d.consumed_at)
          FROM (SELECT 1 AS sign, c.group_id, c.queue_id, c.lag, c.leased, c.consumed_at IS NOT NULL AS consumed,
                       c.has_cursor, COALESCE(c.consumed_at, 0) AS consumed_at FROM members c
                UNION ALL SELECT -1, o.group_id, o.queue_id, o.lag, o.leased, o.consumed, o.has_cursor, 0
                            FROM old_cursors o) AS d
         GROUP BY d.group_id, d.queue_id
        ON CONFLICT (group_id) DO UPDATE
           SET members = s.members + excluded.members, lagging = s.lagging + excluded.lagging,
               lag = s.lag + excluded.lag,
               leases = s.leases + excluded.leases, leased = s.leased + excluded.leased,
               consumed = s.consumed + excluded.consumed,
               consumed_at = GREATEST(s.consumed_at, excluded.consumed_at))
    INSERT INTO queend.stat_queues AS s (queue_id, visit_after, partitions, pushed, total, pending, processing,
                                         overlap, completed, consumed, leased, newest, waiting, stored)
    SELECT d.queue_id, 0, sum(d.sign), sum(d.sign * d.head), sum(d.sign * d.total), sum(d.sign * d.pending),
           sum(d.sign * d.processing), sum(d.sign * d.overlap), sum(d.sign * d.completed), sum(d.sign * d.consumed),
           sum(d.sign * (d.until > 0)::int), max(d.newest), sum(d.sign * (d.pending + d.processing > 0)::int),
           sum(d.sign * (d.total > 0)::int)
      FROM (SELECT 1 AS sign, p.queue_id, p.head, p.total, p.pending, p.processing, p.overlap, p.completed, p.consumed,
                   p.until, p.newest FROM parts p
            UNION ALL
            SELECT -1, o.queue_id, o.head, o.total, o.pending, o.processing, o.overlap, o.completed, o.consumed,
                   o.until, 0 FROM old_parts o) AS d
     GROUP BY d.queue_id
    ON CONFLICT (queue_id) DO UPDATE
       SET partitions = s.partitions + excluded.partitions, pushed = s.pushed + excluded.pushed,
           total = s.total + excluded.total,
           pending = s.pending + excluded.pending, processing = s.processing + excluded.processing,
           overlap = s.overlap + excluded.overlap,
           completed = s.completed + excluded.completed,
           consumed = s.consumed + excluded.consumed, leased = s.leased + excluded.leased,
           newest = GREATEST(s.newest, excluded.newest), waiting = s.waiting + excluded.waiting,
           stored = s.stored + excluded.stored;
END $$;

-- Records that every change before p_since is in the kept figures; p_full also marks every queue for a walk. Returns
-- the number of partitions.
CREATE OR REPLACE FUNCTION queend.stats_keep(p_since bigint, p_full boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.stats AS s (since, looked_at, full_at) VALUES (p_since, queend.now_us(), queend.now_us())
    ON CONFLICT (one) DO UPDATE
       SET since = excluded.since, looked_at = excluded.looked_at,
           full_at = CASE WHEN p_full THEN excluded.full_at ELSE s.full_at END;
    IF p_full THEN
        PERFORM queend.stats_walk_all();
    END IF;
    RETURN (SELECT COALESCE(sum(s.partitions), 0) FROM queend.stat_queues s);
END $$;

-- Records for the history how many partitions queues have, if the number differs from the last one recorded and no walk
-- is running. At the first look of a minute, also records the backlog of each queue, if it differs from the last one
-- recorded in the last 12 hours, and the backlog of all queues together (queue 0). A queue without a record has no
-- backlog. So a backlog that stays is recorded before its last record is removed (METRICS_RETENTION_DAYS).
CREATE OR REPLACE FUNCTION queend.stats_note() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_bucket bigint := queend.now_us() / 60000000 * 60000000;
BEGIN
    INSERT INTO queend.metric_partitions AS m (bucket, queue_id, partitions)
    SELECT v_bucket, s.queue_id, s.partitions FROM queend.stat_queues s
     WHERE s.visit_after IS NULL
       AND s.partitions IS DISTINCT FROM (SELECT x.partitions FROM queend.metric_partitions x
                                           WHERE x.queue_id = s.queue_id ORDER BY x.bucket DESC LIMIT 1)
    ON CONFLICT (queue_id, bucket) DO UPDATE SET partitions = excluded.partitions;
    IF EXISTS (SELECT FROM queend.metric_backlogs m WHERE m.bucket = v_bucket AND m.queue_id = 0) THEN
        RETURN;
    END IF;
    INSERT INTO queend.metric_backlogs (bucket, queue_id, pending, processing)
    SELECT v_bucket, s.queue_id, s.pending, s.processing FROM queend.stat_queues s
      LEFT JOIN LATERAL (SELECT x.pending, x.processing FROM queend.metric_backlogs x
                          WHERE x.queue_id = s.queue_id AND x.bucket > v_bucket - 43200000000
                          ORDER BY x.bucket DESC LIMIT 1) AS l ON true
     WHERE (s.pending, s.processing) IS DISTINCT FROM (COALESCE(l.pending, 0), COALESCE(l.processing, 0))
    UNION ALL
    SELECT v_bucket, 0, COALESCE(sum(s.pending), 0)::bigint, COALESCE(sum(s.processing), 0)::bigint
      FROM queend.stat_queues s
    ON CONFLICT (bucket, queue_id) DO NOTHING;
END $$;

-- Sums up the kept figures of all queues by namespace and by task, once per look. If there are at most 10 000 queues,
-- keeps nothing, because space_list can compute the sums.
CREATE OR REPLACE FUNCTION queend.stats_spaces() RETURNS void
LANGUAGE plpgsql SET jit = off AS $$
BEGIN
    IF queend.names_total(0, 'queue') <= 10000 THEN
        IF EXISTS (SELECT FROM queend.stat_spaces) THEN
            DELETE FROM queend.stat_spaces;
        END IF;
        RETURN;
    END IF;
    WITH now AS MATERIALIZED (
        SELECT CASE WHEN grouping(q.namespace) = 0 THEN 'namespace' ELSE 'task' END COLLATE "C" AS kind,
               COALESCE(q.namespace, q.task) AS name, count(*) AS queues,
               COALESCE(sum(s.partitions), 0)::bigint AS partitions, COALESCE(sum(s.total), 0)::bigint AS total,
               COALESCE(sum(s.pending), 0)::bigint AS pending
          FROM queend.queues q LEFT JOIN queend.stat_queues s ON s.queue_id = q.id
         GROUP BY GROUPING SETS ((q.namespace), (q.task)) HAVING COALESCE(q.namespace, q.task) <> ''),
    gone AS (
        DELETE FROM queend.stat_spaces x WHERE NOT EXISTS (SELECT FROM now n WHERE n.kind = x.kind AND n.name = x.name))
    INSERT INTO queend.stat_spaces AS x (kind, name, queues, partitions, total, pending)
    SELECT n.kind, n.name, n.queues, n.partitions, n.total, n.pending FROM now n
    ON CONFLICT (kind, name) DO UPDATE
       SET queues = excluded.queues, partitions = excluded.partitions, total = excluded.total,
           pending = excluded.pending
     WHERE (x.queues, x.partitions, x.total, x.pending) IS DISTINCT FROM (excluded.queues, excluded.partitions,
                                                                          excluded.total, excluded.pending);
END $$;
