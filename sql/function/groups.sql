-- Consumer groups: creating, moving and deleting them. Owns queend.consumer_groups. Locks: queues ascending, then
-- groups, then cursors ascending, the catalogue last.

-- Returns the id of a queue's consumer group and creates the group at the first contact (group_within). Returns no row
-- if the queue is unknown. Error QD409: the queue has as many groups as this session may create (names_bound).
CREATE OR REPLACE FUNCTION queend.group_resolve(p_queue int, p_name text, p_mode text, p_from bigint,
    p_conflates boolean DEFAULT false)
RETURNS TABLE (group_id int, start_at bigint, fresh boolean, conflates boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_most CONSTANT int := queend.names_bound('group');
    r record;
BEGIN
    SELECT * INTO r FROM queend.group_within(p_queue, p_name, p_mode, p_from, v_most, p_conflates);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.group_id IS NULL THEN
        PERFORM queend.names_full('group', (SELECT q.name FROM queend.queues q WHERE q.id = p_queue), v_most);
    END IF;
    group_id := r.group_id;
    start_at := r.start_at;
    fresh := r.fresh;
    conflates := r.conflates;
    RETURN NEXT;
END $$;

-- Returns the id of a queue's consumer group. Creates the group at the first contact if the queue has less than p_most
-- (NULL: no bound). The first subscription of a group stays (first writer wins). If p_from (µs) is given, the group
-- reads from then on. If p_from is NULL, the group reads from now on with p_mode 'new', otherwise from the oldest
-- record. The mode 'waited' is for a group that began as `new` and whose first request was at p_from.
-- Such a group begins at p_from if that is earlier than its start (group_earlier). p_conflates: the group gets only the
-- newest record of each partition (pop_newest); this stays too. The queue mode's group has no subscription, does not
-- conflate, and is created whatever p_most says. Returns no row if the queue is unknown. Returns group_id NULL if
-- there are too many groups.
CREATE OR REPLACE FUNCTION queend.group_within(p_queue int, p_name text, p_mode text, p_from bigint, p_most int,
    p_conflates boolean DEFAULT false)
RETURNS TABLE (group_id int, start_at bigint, fresh boolean, conflates boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_mode = 'waited' THEN
        PERFORM queend.group_earlier(p_queue, p_name, p_from);
    END IF;
    RETURN QUERY SELECT g.id, g.start_at, false, g.conflates FROM queend.consumer_groups g
                  WHERE g.queue_id = p_queue AND g.name = p_name;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM queend.queues q WHERE q.id = p_queue FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_name <> '__QUEUE_MODE__' AND queend.names_room(p_queue, 'group', p_most, 1) < 1 THEN
        RETURN QUERY SELECT NULL::int, NULL::bigint, false, false;
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO queend.consumer_groups (id, queue_id, name, mode, start_at, conflates)
    SELECT queend.group_number(), p_queue, p_name,
           CASE WHEN s.start IS NULL THEN 'all' WHEN p_from IS NULL OR p_mode = 'waited' THEN 'new'
                ELSE 'timestamp' END, s.start, p_conflates AND p_name <> '__QUEUE_MODE__'
      FROM (SELECT CASE WHEN p_name = '__QUEUE_MODE__' THEN NULL WHEN p_from IS NOT NULL THEN p_from
                        WHEN p_mode = 'new' THEN queend.now_us() END AS start) AS s
    ON CONFLICT DO NOTHING
    RETURNING id, start_at, true, conflates;
    IF NOT FOUND THEN      -- another session made it first
        IF p_mode = 'waited' THEN
            PERFORM queend.group_earlier(p_queue, p_name, p_from);
        END IF;
        RETURN QUERY SELECT g.id, g.start_at, false, g.conflates FROM queend.consumer_groups g
                      WHERE g.queue_id = p_queue AND g.name = p_name;
    END IF;
END $$;

-- Moves the start of a group that began as `new` back to its first request (µs), if the start is later. Cursors stay.
-- Raises the catalogue version for the daemons. Locks: the queue, the group, the catalogue.
CREATE OR REPLACE FUNCTION queend.group_earlier(p_queue int, p_name text, p_first bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM queend.consumer_groups g
                WHERE g.queue_id = p_queue AND g.name = p_name AND g.mode = 'new' AND g.start_at > p_first) THEN
        PERFORM FROM queend.queues q WHERE q.id = p_queue FOR NO KEY UPDATE;
        UPDATE queend.consumer_groups g SET start_at = p_first
         WHERE g.queue_id = p_queue AND g.name = p_name AND g.mode = 'new' AND g.start_at > p_first;
        PERFORM queend.groups_moved(p_queue);
    END IF;
END $$;

-- Sets the time (µs) from which a group with a recorded subscription reads, in every queue that has one. Returns the
-- queues. Cursors that have consumed a record stay; the others start at the new time. Locks: queues, groups, then the
-- cursors of all queues ascending, as acknowledgments take them; the catalogue last.
CREATE OR REPLACE FUNCTION queend.group_subscribe(p_group text, p_at bigint) RETURNS SETOF text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_queue int[];
    v_group int[];
    v_start bigint[];
    v_name  text[];
    v_part  int[];
    v_of    int[];
    v_from  bigint[];
BEGIN
    PERFORM FROM queend.queues q WHERE q.id IN (SELECT g.queue_id FROM queend.consumer_groups g WHERE g.name = p_group)
      ORDER BY q.id FOR NO KEY UPDATE;
    SELECT array_agg(s.queue_id), array_agg(s.id), array_agg(s.start_at), array_agg(s.name)
      INTO v_queue, v_group, v_start, v_name
      FROM (SELECT g.id, g.queue_id, g.start_at, q.name FROM queend.consumer_groups g
              JOIN queend.queues q ON q.id = g.queue_id
             WHERE g.name = p_group AND g.start_at IS NOT NULL ORDER BY q.id FOR UPDATE OF g) AS s;
    UPDATE queend.consumer_groups g SET start_at = p_at, mode = 'timestamp' WHERE g.id = ANY (v_group);
    -- A cursor at the start of the old subscription has consumed nothing. It is removed, and a new one is created on
    -- demand.
    SELECT array_agg(k.partition_id), array_agg(k.group_id), array_agg(k.at) INTO v_part, v_of, v_from
      FROM (SELECT c.partition_id, c.group_id, queend.offset_since(p.id, u.start) AS at
              FROM unnest(v_queue, v_group, v_start) AS u (queue, grp, start)
             CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = u.queue OFFSET 0) AS p
             CROSS JOIN LATERAL (SELECT x.partition_id, x.group_id, x.committed, x.beyond FROM queend.cursors x
                                  WHERE x.partition_id = p.id AND x.group_id = u.grp OFFSET 0) AS c
             WHERE c.beyond IS NULL AND c.committed + 1 <= queend.offset_since(p.id, u.start)) AS k;
    PERFORM queend.cursors_lock(v_part, v_of);
    DELETE FROM queend.cursors k
     WHERE k.ctid = ANY (ARRAY(
        SELECT c.ctid FROM unnest(v_part, v_of, v_from) AS u (part, grp, at)
         CROSS JOIN LATERAL (SELECT x.ctid, x.committed, x.lease_until, x.beyond FROM queend.cursors x
                              WHERE x.partition_id = u.part AND x.group_id = u.grp OFFSET 0) AS c
         WHERE c.lease_until <= queend.now_us() AND c.committed + 1 <= u.at AND c.beyond IS NULL));
    DELETE FROM queend.standing s
     WHERE (s.partition_id, s.group_id) IN (SELECT u.part, u.grp FROM unnest(v_part, v_of) AS u (part, grp))
       AND NOT EXISTS (SELECT FROM queend.cursors c WHERE c.partition_id = s.partition_id AND c.group_id = s.group_id);
    PERFORM queend.groups_moved(u.queue) FROM unnest(v_queue) WITH ORDINALITY AS u (queue, ord) ORDER BY u.ord;
    RETURN QUERY SELECT * FROM unnest(v_name);
END $$;

-- Records the progress of a group that reads by offset and keeps its position elsewhere, so that its lag is seen. The
-- cursors move forward only, up to the head. Each element is one partition: queue and partition by name, next offset.
-- Returns one row each, in order. Column committed is the offset that is now next for the group, NULL if queue or
-- partition is unknown. Creates a missing group. A claim is void where the cursor moves, and daemons are notified if
-- the group is also popped.
CREATE OR REPLACE FUNCTION queend.group_commit(p_group text, p_queue text[], p_partition text[], p_offset bigint[])
RETURNS TABLE (ord int, committed bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_queue  int[] := ARRAY(SELECT DISTINCT q.id FROM unnest(p_queue) AS u (name)
                              CROSS JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.name OFFSET 0) AS q
                             ORDER BY 1);
    v_group  int[];
    v_part   int[];
    v_of     int[];
    v_popped int[];
    v_one    int;
BEGIN
    -- The queues are locked before the cursors, see group_seek.
    PERFORM FROM queend.queues q WHERE q.id = ANY (v_queue) ORDER BY q.id FOR NO KEY UPDATE;
    FOREACH v_one IN ARRAY v_queue LOOP
        v_group := v_group || (SELECT g.group_id FROM queend.group_resolve(v_one, p_group, 'all', NULL) AS g);
    END LOOP;
    SELECT array_agg(p.id ORDER BY u.ord), array_agg(v_group[array_position(v_queue, q.id)] ORDER BY u.ord)
      INTO v_part, v_of
      FROM unnest(p_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
      LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
      LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x
                          WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true;
    WITH place AS MATERIALIZED (
        SELECT a.part, a.grp, LEAST(t.head, a.at) AS at
          FROM (SELECT u.part, u.grp, max(u.at) AS at FROM unnest(v_part, v_of, p_offset) AS u (part, grp, at)
                 WHERE u.part IS NOT NULL GROUP BY 1, 2) AS a
          CROSS JOIN LATERAL queend.log_end(a.part) AS t
          LEFT JOIN LATERAL (SELECT x.committed FROM queend.cursors x
                              WHERE x.partition_id = a.part AND x.group_id = a.grp OFFSET 0) AS k ON true
         WHERE COALESCE(k.committed < LEAST(t.head, a.at) - 1, true)     -- the others need no row_of
         ORDER BY 1, 2),
    moved AS (
        -- On conflict the primary key finds the cursor, see pop. Only cursors that move are locked, in the order of
        -- places.
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_end)
        SELECT p.part, p.grp, p.at - 1, queend.row_of(p.part, p.at), p.at - 1 FROM place p
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET committed = excluded.committed, row_base = excluded.row_base, lease_end = excluded.lease_end,
               lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000', retry_until = 0, retries = 0,
               attempt = 0, beyond = NULL, standing = NULL
         WHERE k.committed < excluded.committed
        RETURNING k.partition_id, k.group_id, k.consumed_at),
    marked AS (INSERT INTO queend.stat_marks (partition_id) SELECT m.partition_id FROM moved m),
    freed AS (DELETE FROM queend.standing s USING moved m
               WHERE s.partition_id = m.partition_id AND s.group_id = m.group_id)
    SELECT array_agg(DISTINCT m.group_id) INTO v_popped FROM moved m WHERE m.consumed_at > 0;
    FOREACH v_one IN ARRAY v_queue LOOP
        IF v_group[array_position(v_queue, v_one)] = ANY (v_popped) THEN
            PERFORM queend.groups_moved(v_one);
        END IF;
    END LOOP;
    RETURN QUERY SELECT u.ord::int - 1, k.committed + 1
      FROM unnest(v_part, v_of) WITH ORDINALITY AS u (part, grp, ord)
      LEFT JOIN LATERAL (SELECT x.committed FROM queend.cursors x
                          WHERE x.partition_id = u.part AND x.group_id = u.grp OFFSET 0) AS k ON true
     ORDER BY u.ord;
END $$;

-- Moves a group in a queue: to the first record stored after p_at (µs), to offset p_offset, or to the end if both are
-- NULL. Does so for at most p_limit partitions after p_after (by id), or only for partition p_only. Returns in updated
-- the number of partitions of the page. That number is 1 with p_only, or 0 if the group already stood there without a
-- lease, a pause or a retry. Returns in moved_to when the last record before the last cursor was stored. Returns in
-- next the partition to continue after, NULL at the end.
--
-- The call with p_after = 0 moves the group's start. So partitions without a cursor, and later ones, begin there, and a
-- queue of 10^6 partitions needs no cursor in each. A start cannot name an offset. So a seek to an offset above 0
-- creates a cursor in each partition of the page; later partitions begin at their first record. A start never lies in
-- the future.
--
-- A cursor is placed between floor and head. Leases, pauses, retries and records done beyond a gap become void; the
-- count of consumed messages stays (cursors.origin). Daemons are notified after the start was moved and after the last
-- page.
CREATE OR REPLACE FUNCTION queend.group_seek(p_queue int, p_group int, p_only int, p_after int, p_limit int,
    p_at bigint, p_offset bigint, OUT updated int, OUT moved_to bigint, OUT next int)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_begins bigint := CASE WHEN p_at <= 0 OR p_offset = 0 THEN NULL
                            WHEN p_at IS NOT NULL THEN LEAST(p_at + 1, queend.now_us()) ELSE queend.now_us() END;
    v_all    boolean := p_only IS NOT NULL OR COALESCE(p_offset, 0) > 0;      -- missing cursors are made
    v_part   int[];
BEGIN
    -- The queue is locked before the cursors, because a deletion of the queue begins there.
    PERFORM FROM queend.queues q WHERE q.id = p_queue FOR NO KEY UPDATE;
    IF p_only IS NOT NULL THEN
        v_part := ARRAY[p_only];
    ELSE
        IF p_after = 0 AND NOT v_all THEN
            UPDATE queend.consumer_groups g
               SET start_at = v_begins, mode = CASE WHEN v_begins IS NULL THEN 'all' ELSE 'timestamp' END
             WHERE g.id = p_group;
        END IF;
        v_part := ARRAY(SELECT p.id FROM queend.partitions p WHERE p.queue_id = p_queue AND p.id > p_after
                         ORDER BY p.id LIMIT p_limit);
        next := CASE WHEN cardinality(v_part) = p_limit THEN v_part[p_limit] END;
    END IF;
    PERFORM queend.cursors_lock(v_part, array_fill(p_group, ARRAY[cardinality(v_part)]));
    WITH place AS MATERIALIZED (
        SELECT u.part, k.committed AS was, COALESCE(k.idle, false) AS idle,
               LEAST(e.head, GREATEST(e.floor, CASE WHEN p_at IS NOT NULL THEN queend.offset_since(u.part, p_at + 1)
                                                    WHEN p_offset IS NOT NULL THEN p_offset ELSE e.head END)) AS at
          FROM unnest(v_part) AS u (part)
          LEFT JOIN LATERAL (SELECT true AS there, k.committed,
                                    k.lease_until = 0 AND k.retry_until = 0 AND k.retries = 0 AND k.attempt = 0
                                    AND k.beyond IS NULL AND k.standing IS NULL AS idle
                               FROM queend.cursors k
                              WHERE k.partition_id = u.part AND k.group_id = p_group OFFSET 0) AS k ON true
          CROSS JOIN LATERAL (SELECT x.floor, x.head FROM queend.log_end(u.part) AS x
                               WHERE k.there OR v_all OFFSET 0) AS e
         WHERE p_at IS NOT NULL OR p_offset IS NOT NULL OR e.head > e.floor),
    moved AS (
        -- On conflict the primary key finds the cursor, see pop.
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_end, origin)
        SELECT p.part, p_group, p.at - 1,
               COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p.part AND l.base <= p.at
                          ORDER BY l.base DESC LIMIT 1), 0), p.at - 1, NULLIF(p.at, 0)
          FROM place p
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET committed = excluded.committed, row_base = excluded.row_base, lease_end = excluded.lease_end,
               lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000', retry_until = 0, retries = 0,
               attempt = 0, beyond = NULL, standing = NULL,
               origin = NULLIF(COALESCE(k.origin, 0) + excluded.committed - k.committed
                               - queend.done_count(k.beyond, k.committed + 1), 0)
        RETURNING k.partition_id, k.committed)
    SELECT count(*) FILTER (WHERE NOT p.idle OR p.was <> m.committed),
           queend.record_stored((array_agg(m.partition_id ORDER BY m.partition_id DESC))[1],
                                (array_agg(m.committed ORDER BY m.partition_id DESC))[1])
      INTO updated, moved_to FROM moved m JOIN place p ON p.part = m.partition_id;
    IF p_only IS NULL THEN
        updated := cardinality(v_part);
    END IF;
    DELETE FROM queend.standing s WHERE s.partition_id = ANY (v_part) AND s.group_id = p_group;
    IF next IS NULL OR p_after = 0 THEN
        PERFORM queend.groups_moved(p_queue);
    END IF;
END $$;

-- Deletes a consumer group of one queue, or of all (p_queue NULL). The next request of that name creates a new group.
-- Deletes its subscription too, unless p_metadata is false: then the group lives on under another id, without cursors.
-- Returns one row per queue that had it: the queue and the number of its cursors, which queend.tidy removes in the
-- background. The dead letters stay, under the name of the group. Locks queues first, as a deletion of a queue does;
-- then groups, dead letters, the catalogue.
CREATE OR REPLACE FUNCTION queend.group_delete(p_group text, p_queue text, p_metadata boolean)
RETURNS TABLE (queue text, partitions bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v record;
    v_id int;
BEGIN
    PERFORM FROM queend.queues q
      WHERE q.id IN (SELECT g.queue_id FROM queend.consumer_groups g WHERE g.name = p_group)
        AND (p_queue IS NULL OR q.name = p_queue)
      ORDER BY q.id FOR NO KEY UPDATE;
    FOR v IN SELECT g.id, g.queue_id, q.name FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
              WHERE g.name = p_group AND (p_queue IS NULL OR q.name = p_queue) ORDER BY q.id FOR UPDATE OF g LOOP
        queue := v.name;
        SELECT count(k.there) INTO partitions FROM queend.partitions p
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.cursors x
                              WHERE x.partition_id = p.id AND x.group_id = v.id OFFSET 0) AS k ON true
         WHERE p.queue_id = v.queue_id;
        UPDATE queend.dead_letters d SET group_name = p_group WHERE d.queue_id = v.queue_id AND d.group_id = v.id;
        IF p_metadata THEN
            DELETE FROM queend.consumer_groups g WHERE g.id = v.id;
            DELETE FROM queend.paused x WHERE x.queue_id = v.queue_id AND x.group_id = v.id;
            DELETE FROM queend.rates x WHERE x.queue_id = v.queue_id AND x.group_id = v.id;
        ELSE
            UPDATE queend.consumer_groups g SET id = DEFAULT WHERE g.id = v.id RETURNING g.id INTO v_id;
            UPDATE queend.paused x SET group_id = v_id WHERE x.queue_id = v.queue_id AND x.group_id = v.id;
            UPDATE queend.rates x SET group_id = v_id WHERE x.queue_id = v.queue_id AND x.group_id = v.id;
        END IF;
        PERFORM queend.groups_moved(v.queue_id);
        RETURN NEXT;
    END LOOP;
END $$;

-- Tells every daemon that groups of a queue were deleted, or cursors moved by hand: cached state of these groups is
-- void. Must be the last call in the transaction of the change, after the cursors.
CREATE OR REPLACE FUNCTION queend.groups_moved(p_queue int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE queend.queues q SET epoch = q.epoch + 1 WHERE q.id = p_queue;
    PERFORM queend.catalog_raise();
END $$;
