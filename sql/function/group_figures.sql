-- Figures of consumer groups, for people. Reads only the kept figures (stats.sql) and, where a contract says so, the
-- cursors. Locks: none.

-- Returns every consumer group of every queue, by name and queue, from the kept figures. A group is listed from its
-- first request on. Column members: number of its cursors. Column lag: messages that the group has to consume, also in
-- partitions where it has no cursor. Column lagging: number of partitions with such messages. Column oldest: from when
-- the first of them could be delivered (NULL without one; later than now: none is due). Column consumed_at: its last
-- claim or acknowledgment (NULL: never). Column paused: by itself, or with its queue. Column newest: the value of
-- oldest under the name by which daemons of editions 0 to 5 read an age.
CREATE OR REPLACE FUNCTION queend.group_list()
RETURNS TABLE (name text, queue text, mode text, start_at bigint, created_at timestamptz, members bigint,
               lagging bigint, lag bigint, oldest bigint, consumed boolean, consumed_at bigint, paused boolean,
               newest bigint, conflates boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, g.mode, g.start_at, g.created_at, COALESCE(s.members, 0), COALESCE(s.lagging, w.stored, 0),
           COALESCE(s.lag, w.total, 0), n.oldest, COALESCE(s.consumed, 0) > 0, NULLIF(s.consumed_at, 0),
           queend.is_paused(g.queue_id, g.id), n.oldest, g.conflates
      FROM (SELECT x.* FROM queend.consumer_groups x ORDER BY x.id) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      LEFT JOIN LATERAL (SELECT x.* FROM queend.stat_groups x WHERE x.group_id = g.id OFFSET 0) AS s ON true
      -- A group that was created after the last look has every stored message to consume, as in group_depth.
      LEFT JOIN LATERAL (SELECT x.stored, x.total FROM queend.stat_queues x
                          WHERE x.queue_id = g.queue_id AND s.group_id IS NULL AND g.start_at IS NULL
                         OFFSET 0) AS w ON true
      LEFT JOIN LATERAL (SELECT c.oldest FROM queend.stat_cursors c WHERE c.group_id = g.id AND c.oldest > 0
                          ORDER BY c.oldest LIMIT 1) AS n ON true
     ORDER BY g.name, q.name;
END $$;

-- Returns the positions of a consumer group in every queue that has a group of that name. One row per partition where
-- it has a cursor or messages to consume, by queue and partition, at most p_limit of each queue (group_positions). The
-- column leased says that a lease is live.
CREATE OR REPLACE FUNCTION queend.group_show(p_group text, p_limit bigint)
RETURNS TABLE (queue text, partition text, partition_id int, next bigint, head bigint, oldest bigint, consumed bigint,
               consumed_at bigint, lease_id uuid, leased boolean, beyond bigint, lag bigint, waiting_since bigint,
               conflates boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.name, k.name, k.partition_id, k.next, k.head, k.oldest, k.consumed, k.consumed_at, k.lease_id,
           k.lease_until > 0, k.beyond, k.lag, k.waiting_since, g.conflates
      FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x WHERE x.name = p_group), p_limit) AS k
      CROSS JOIN LATERAL (SELECT x.queue_id, x.conflates FROM queend.consumer_groups x
                           WHERE x.id = k.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
     ORDER BY q.name, k.partition_id;
END $$;

-- Returns the positions of groups: by group as given, then by partition in order of creation. Lists the partitions
-- where the group has a cursor or messages to consume, at most p_limit of each group (NULL: all). The figures are the
-- current ones (cursor_figures). Column consumed_at is NULL if the group never consumed a message. If p_limit is given
-- and the queue has more than 10 000 partitions, the kept figures find the partitions. Then partitions without cursor
-- and lag are not read.
CREATE OR REPLACE FUNCTION queend.group_positions(p_group int[], p_limit bigint)
RETURNS TABLE (group_id int, partition_id int, name text, next bigint, head bigint, lag bigint, oldest bigint,
               waiting_since bigint, lease_id uuid, lease_until bigint, consumed_at bigint, beyond bigint,
               consumed bigint, has_cursor boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.id, k.partition_id, k.name, k.next, k.head, k.lag, k.oldest, k.waiting_since, k.lease_id, k.lease_until,
           CASE WHEN k.consumed > 0 OR k.next > k.floor THEN k.consumed_at END, k.beyond, k.consumed, k.has_cursor
      FROM unnest(p_group) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.consumer_groups x WHERE x.id = u.id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT p_limit IS NOT NULL
                                 AND COALESCE((SELECT s.partitions > 10000 FROM queend.stat_queues s
                                                WHERE s.queue_id = g.queue_id), false) AS kept OFFSET 0) AS w
      CROSS JOIN LATERAL (
            SELECT p.name, c.* FROM (
                    (SELECT x.id FROM queend.partitions x WHERE NOT w.kept AND x.queue_id = g.queue_id ORDER BY x.id)
                    UNION ALL
                    (SELECT x.partition_id FROM queend.stat_cursors x WHERE w.kept AND x.group_id = u.id
                      ORDER BY x.partition_id)) AS i
             CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = i.id OFFSET 0) AS p
             CROSS JOIN LATERAL queend.cursor_figures(ARRAY[i.id], u.id) AS c
             WHERE c.has_cursor OR c.lag > 0 LIMIT p_limit) AS k
     ORDER BY u.ord, k.partition_id;
END $$;

-- Returns partitions whose first message that a group has to consume could be delivered before p_before (µs), earliest
-- first, at most p_limit. The kept figures find the partitions. The returned figures are current, so partitions
-- consumed meanwhile are left out.
CREATE OR REPLACE FUNCTION queend.group_lagging(p_before bigint, p_limit int)
RETURNS TABLE (name text, queue text, partition text, partition_id int, lag bigint, oldest bigint, consumed_at bigint,
               lease_id uuid, waiting_since bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, p.name, s.partition_id, l.lag, l.oldest,
           CASE WHEN l.consumed > 0 OR l.next > l.floor THEN l.consumed_at END, l.lease_id, l.waiting_since
      FROM (SELECT c.* FROM (SELECT y.group_id FROM queend.stat_groups y ORDER BY y.group_id) AS x
             CROSS JOIN LATERAL (SELECT y.* FROM queend.stat_cursors y
                                  WHERE y.group_id = x.group_id AND y.oldest > 0 AND y.oldest < p_before
                                  ORDER BY y.oldest LIMIT p_limit) AS c
             ORDER BY c.oldest LIMIT p_limit) AS s
      CROSS JOIN LATERAL queend.cursor_figures(ARRAY[s.partition_id], s.group_id) AS l
      CROSS JOIN LATERAL (SELECT x.name, x.queue_id FROM queend.consumer_groups x WHERE x.id = s.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = s.partition_id OFFSET 0) AS p
     WHERE l.waiting_since < p_before
     ORDER BY l.waiting_since, g.name, q.name, s.partition_id;
END $$;

-- Returns the messages of a queue that a group has to consume, from the kept figures. The first row has the sums:
-- pending messages, and number of partitions that have some. At most p_limit of those partitions follow, each with its
-- own count (lag), longest waiting first. If p_group is NULL: only the sums, of the group that is furthest behind in
-- each partition. An unknown group has every stored message to consume. So has a group that begins with the oldest
-- message and was created after the last look.
CREATE OR REPLACE FUNCTION queend.group_depth(p_queue int, p_group text, p_limit int)
RETURNS TABLE (pending bigint, partitions bigint, name text, lag bigint)
LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_group int;
    v_start bigint;
    q       queend.stat_queues;
    s       queend.stat_groups;
BEGIN
    SELECT g.id, g.start_at INTO v_group, v_start FROM queend.consumer_groups g
     WHERE g.queue_id = p_queue AND g.name = p_group;
    SELECT x.* INTO q FROM queend.stat_queues x WHERE x.queue_id = p_queue;
    SELECT x.* INTO s FROM queend.stat_groups x WHERE x.group_id = v_group;
    IF p_group IS NULL THEN
        RETURN QUERY SELECT COALESCE(q.pending + q.processing - q.overlap, 0), COALESCE(q.waiting, 0), NULL::text,
               0::bigint;
    ELSIF v_group IS NULL OR s.group_id IS NULL AND v_start IS NULL THEN
        RETURN QUERY SELECT COALESCE(q.total, 0), COALESCE(q.stored, 0), NULL::text, 0::bigint;
        RETURN QUERY
        SELECT 0::bigint, 0::bigint, p.name, x.total
          FROM (SELECT y.partition_id, y.total FROM queend.stat_partitions y
                 WHERE y.queue_id = p_queue AND y.total > 0 ORDER BY y.partition_id LIMIT p_limit) AS x
          JOIN queend.partitions p ON p.id = x.partition_id ORDER BY x.partition_id;
    ELSE
        RETURN QUERY SELECT COALESCE(s.lag, 0), COALESCE(s.lagging, 0), NULL::text, 0::bigint;
        RETURN QUERY
        SELECT 0::bigint, 0::bigint, p.name, x.lag
          FROM (SELECT y.partition_id, y.lag, y.oldest FROM queend.stat_cursors y
                 WHERE y.group_id = v_group AND y.oldest > 0 ORDER BY y.oldest LIMIT p_limit) AS x
          JOIN queend.partitions p ON p.id = x.partition_id ORDER BY x.oldest, x.partition_id;
    END IF;
END $$;
