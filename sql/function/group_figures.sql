-- Where consumer groups stand, for people who look. Reads only: the kept figures (stats.sql) and, where it says so, the
-- cursors themselves.

-- Every consumer group of every queue, by name and queue, from the kept figures; one that polls stands here before its
-- first message, without members. members: its cursors; lag: messages it has not consumed; newest: the longest-stored
-- of the newest messages of the partitions it lags in (NULL: it lags in none). paused: by itself, or with its queue.
CREATE OR REPLACE FUNCTION queend.group_list()
RETURNS TABLE (name text, queue text, mode text, start_at bigint, created_at timestamptz, members bigint,
               lagging bigint, lag bigint, newest bigint, consumed boolean,
               paused boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, g.mode, g.start_at, g.created_at, COALESCE(s.members, 0), COALESCE(s.lagging, 0),
           COALESCE(s.lag, 0), n.newest, COALESCE(s.consumed, 0) > 0,
           queend.is_paused(g.queue_id, g.id)
      FROM (SELECT x.* FROM queend.consumer_groups x ORDER BY x.id) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      LEFT JOIN LATERAL (SELECT x.* FROM queend.stat_groups x WHERE x.group_id = g.id OFFSET 0) AS s ON true
      LEFT JOIN LATERAL (SELECT c.newest FROM queend.stat_cursors c WHERE c.group_id = g.id AND c.lag > 0
                          ORDER BY c.newest LIMIT 1) AS n ON true
     ORDER BY g.name, q.name;
END $$;

-- Where a consumer group stands, in every queue that has one of the name: one row per cursor, by queue, at most p_limit
-- of each queue. oldest: when its oldest message that is not consumed was stored (NULL: it lags not). beyond: messages
-- behind `next` that are consumed all the same; consumed: how many it has consumed, wherever it was moved.
CREATE OR REPLACE FUNCTION queend.group_show(p_group text, p_limit bigint)
RETURNS TABLE (queue text, partition text, partition_id int, next bigint, head bigint, oldest bigint, consumed bigint,
               consumed_at bigint, lease_id uuid, leased boolean, beyond bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.name, k.name, k.partition_id, k.next, k.head,
           CASE WHEN k.head > k.next + k.beyond THEN queend.record_stored(k.partition_id, k.next) END,
           k.consumed, k.consumed_at, CASE WHEN k.lease_until > queend.now_us() THEN k.lease_id END,
           k.lease_until > queend.now_us(), k.beyond
      FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x WHERE x.name = p_group), p_limit) AS k
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
     ORDER BY q.name, k.partition_id;
END $$;

-- Where groups stand: one row per cursor of theirs, by group as given and partition in order of creation, at most
-- p_limit of each group. next: first offset not consumed, never below the floor; beyond: records behind it that are
-- consumed all the same; head - next - beyond is the lag, exact and without a count. consumed: records it has consumed
-- since its cursor was made, those included that it consumed again after a seek. head_at: moment of the newest record,
-- NULL when none is stored. consumed_at: NULL when nothing was ever consumed.
CREATE OR REPLACE FUNCTION queend.group_positions(p_group int[], p_limit bigint)
RETURNS TABLE (group_id int, partition_id int, name text, next bigint, head bigint, head_at bigint, lease_id uuid,
               lease_until bigint, consumed_at bigint, beyond bigint, consumed bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.id, k.partition_id, k.name, GREATEST(k.committed + 1, t.floor),
           GREATEST(t.head, k.committed + 1), t.written_at, k.lease_id, k.lease_until,
           CASE WHEN (k.committed >= 0 OR k.beyond IS NOT NULL) AND k.consumed_at > 0 THEN k.consumed_at END,
           queend.done_count(k.beyond, GREATEST(k.committed + 1, t.floor)),
           GREATEST(k.committed + 1 + queend.done_count(k.beyond, k.committed + 1) - COALESCE(k.origin, 0), 0)
      FROM unnest(p_group) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.consumer_groups x WHERE x.id = u.id OFFSET 0) AS g
      CROSS JOIN LATERAL (
            SELECT p.name, c.* FROM queend.partitions p
             CROSS JOIN LATERAL (SELECT x.* FROM queend.cursors x
                                  WHERE x.partition_id = p.id AND x.group_id = u.id OFFSET 0) AS c
             WHERE p.queue_id = g.queue_id ORDER BY p.id LIMIT p_limit) AS k
      CROSS JOIN LATERAL queend.log_end(k.partition_id) AS t
     ORDER BY u.ord, k.partition_id;
END $$;

-- Partitions whose oldest message that a group has not consumed was stored before p_before (µs), that message's age
-- first; at most p_limit of them. Found by the kept figures; what was consumed since is seen and left out.
CREATE OR REPLACE FUNCTION queend.group_lagging(p_before bigint, p_limit int)
RETURNS TABLE (name text, queue text, partition text, partition_id int, lag bigint, oldest bigint, consumed_at bigint,
               lease_id uuid)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, p.name, s.partition_id, l.lag,
           CASE WHEN k.committed < s.next THEN s.oldest
                ELSE queend.record_stored(s.partition_id, k.committed + 1) END AS oldest,
           CASE WHEN k.committed >= 0 AND k.consumed_at > 0 THEN k.consumed_at END,
           CASE WHEN k.lease_until > queend.now_us() THEN k.lease_id END
      FROM (SELECT c.* FROM (SELECT y.group_id FROM queend.stat_groups y ORDER BY y.group_id) AS x
             CROSS JOIN LATERAL (SELECT y.* FROM queend.stat_cursors y
                                  WHERE y.group_id = x.group_id AND y.lag > 0 AND y.oldest < p_before
                                  ORDER BY y.oldest LIMIT p_limit) AS c
             ORDER BY c.oldest LIMIT p_limit) AS s
      CROSS JOIN LATERAL (SELECT x.* FROM queend.cursors x
                           WHERE x.partition_id = s.partition_id AND x.group_id = s.group_id OFFSET 0) AS k
      CROSS JOIN LATERAL (SELECT x.name, x.queue_id FROM queend.consumer_groups x WHERE x.id = s.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = s.partition_id OFFSET 0) AS p
      CROSS JOIN LATERAL (SELECT CASE WHEN k.committed < s.next THEN s.lag
                                      ELSE queend.head(s.partition_id) - k.committed - 1
                                          - queend.done_count(k.beyond, k.committed + 1) END AS lag OFFSET 0) AS l
     WHERE l.lag > 0
       AND CASE WHEN k.committed < s.next THEN s.oldest
                ELSE queend.record_stored(s.partition_id, k.committed + 1) END < p_before
     ORDER BY 6, g.name, q.name, s.partition_id;
END $$;

-- Messages of a queue that a group has not consumed. The first row has the sums: pending, and the partitions that have
-- some; then, at most p_limit, those partitions with their part (lag), longest waiting first. Of kept figures; the
-- group has all that is stored since its subscription began before it where it has no cursor yet. p_group NULL: the
-- group that is furthest behind in each partition, sums only; one nobody has heard of has consumed nothing.
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
    SELECT x.* INTO q FROM queend.stat_queues x WHERE x.queue_id = p_queue;
    IF p_group IS NULL THEN
        RETURN QUERY SELECT COALESCE(q.pending + q.processing, 0),
                            (SELECT count(*) FROM queend.stat_partitions x
                              WHERE x.queue_id = p_queue AND x.pending + x.processing > 0), NULL::text, 0::bigint;
        RETURN;
    END IF;
    SELECT g.id, g.start_at INTO v_group, v_start FROM queend.consumer_groups g
     WHERE g.queue_id = p_queue AND g.name = p_group;
    SELECT x.* INTO s FROM queend.stat_groups x WHERE x.group_id = v_group;
    RETURN QUERY
    WITH ahead AS MATERIALIZED (      -- partitions it has no cursor in
        SELECT x.partition_id,
               x.head
                  - GREATEST(x.floor,
                             CASE WHEN v_start IS NULL THEN 0
                                  ELSE queend.offset_since(x.partition_id, v_start) END) AS lag
          FROM queend.stat_partitions x
         WHERE COALESCE(s.members, 0) < q.partitions AND x.queue_id = p_queue AND x.head > x.floor
           AND x.newest >= COALESCE(v_start, 0)
           AND NOT EXISTS (SELECT FROM queend.stat_cursors c
                            WHERE c.group_id = v_group AND c.partition_id = x.partition_id)),
    shown AS (
        (SELECT c.partition_id, c.lag FROM queend.stat_cursors c WHERE c.group_id = v_group AND c.lag > 0
          ORDER BY c.oldest LIMIT p_limit)
        UNION ALL (SELECT a.partition_id, a.lag FROM ahead a WHERE a.lag > 0 ORDER BY a.partition_id LIMIT p_limit))
    SELECT COALESCE(s.lag, 0) + COALESCE(sum(a.lag), 0)::bigint,
           COALESCE(s.lagging, 0) + count(*) FILTER (WHERE a.lag > 0), NULL::text, 0::bigint FROM ahead a
    UNION ALL
    (SELECT 0, 0, p.name, h.lag FROM shown h JOIN queend.partitions p ON p.id = h.partition_id LIMIT p_limit);
END $$;
