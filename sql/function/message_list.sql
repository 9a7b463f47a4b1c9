-- Lists of messages for people, the newest first. Reads only, and a bounded number of rows. Locks: none.

-- Lists messages stored between two times (µs, inclusive), the newest first. Every filter may be NULL: queue,
-- partition, namespace and task by name, status (pending, processing, completed, dead_letter). Deleted messages are
-- left out. A body is returned only if the client framed the row (codec 2): texts and ids of its records are in the
-- body then. Reads at most p_look rows of the log (message_rows), so a filter that matches rarely may find less than
-- there is. Dead letters come from their own table (message_dead), all of them. Columns:
--   queue_status  of the queue mode's group
--   status        queue_status; of the named groups together if the queue lacks a queue mode's group
--   consumed_by   how many of the `groups` named groups of the queue have consumed the message, or are not given it. A
--                 group without a cursor in the partition counts as well.
--   lease_until   of the queue mode's lease; 0 unless a lease holds the message
CREATE OR REPLACE FUNCTION queend.message_list(p_queue text, p_partition text, p_namespace text, p_task text,
    p_status text, p_from bigint, p_to bigint, p_limit int, p_offset int, p_look int)
RETURNS TABLE (queue text, namespace text, task text, priority int, partition text, partition_id int,
               record_offset bigint, stored_at bigint, transaction_id text, trace_id uuid, producer_sub text,
               body bytea, n int, place int, queue_status text, status text, consumed_by int, groups int,
               lease_until bigint, deliver_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_any    boolean := p_queue IS NULL AND p_namespace IS NULL AND p_task IS NULL AND p_partition IS NULL;
    v_queue  int[];
    v_part   int[];
    v_skip   int := p_offset;
    v_left   int := p_limit;
    v_holes  boolean := (SELECT c.holes FROM queend.catalog c);
    v_name   text[];      -- the groups of the queue
    v_next   bigint[];    -- of each: its cursor in the partition, NULL without one
    v_beyond int8multirange[];      -- of each: offsets consumed beyond a gap
    v_start  bigint[];    -- of each: where its subscription begins
    v_end    bigint[];    -- of each: the last offset on lease, -1 without a lease
    v_lease  bigint;      -- end of the queue mode's lease, 0: no lease
    v_only   boolean;     -- some messages of the partition are for one group
    v_did    boolean;     -- the queue mode has consumed the message, NULL: the queue has no such group
    v_mode   boolean;     -- the queue mode's lease holds the message
    v_held   boolean;     -- a lease of a named group holds the message
    r        record;
    l        record;
    m        record;
BEGIN
    IF p_status NOT IN ('pending', 'processing', 'completed', 'dead_letter') THEN
        RETURN;
    END IF;
    IF p_queue IS NOT NULL THEN
        v_queue := ARRAY(SELECT q.id FROM queend.queues q
                          WHERE q.name = p_queue AND (p_namespace IS NULL OR q.namespace = p_namespace)
                            AND (p_task IS NULL OR q.task = p_task));
    ELSIF NOT v_any THEN
        v_queue := ARRAY(SELECT q.id FROM queend.queues q
                          WHERE (p_namespace IS NULL OR q.namespace = p_namespace)
                            AND (p_task IS NULL OR q.task = p_task));
    END IF;
    IF p_status = 'dead_letter' THEN
        RETURN QUERY SELECT * FROM queend.message_dead(v_queue, p_partition, p_from, p_to, p_limit, p_offset);
        RETURN;
    END IF;
    IF p_partition IS NOT NULL THEN
        v_part := ARRAY(SELECT p.id FROM unnest(v_queue) AS u (id) CROSS JOIN LATERAL (
                          SELECT x.id FROM queend.partitions x
                           WHERE x.queue_id = u.id AND x.name = p_partition OFFSET 0) AS p LIMIT 1001);
    ELSIF NOT v_any THEN
        v_part := ARRAY(SELECT p.id FROM unnest(v_queue) AS u (id) CROSS JOIN LATERAL (
                          SELECT x.id FROM queend.partitions x WHERE x.queue_id = u.id ORDER BY x.id LIMIT 1001) AS p
                         LIMIT 1001);
    END IF;
    IF cardinality(v_part) > 1000 THEN
        v_part := NULL;
    END IF;
    FOR r IN SELECT * FROM queend.message_rows(v_part, v_queue, p_status, p_from, p_to, p_limit + p_offset, p_look) LOOP
        EXIT WHEN v_left <= 0;
        SELECT x.* INTO l FROM queend.log x WHERE x.partition_id = r.partition_id AND x.base = r.base;
        CONTINUE WHEN NOT FOUND;      -- retention has removed the row
        SELECT q.name, q.namespace, q.task, q.priority, p.name INTO queue, namespace, task, priority, partition
          FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = r.partition_id;
        CONTINUE WHEN NOT FOUND OR p_partition IS NOT NULL AND partition <> p_partition;
        IF v_skip >= l.n AND p_status IS NULL AND NOT v_holes AND l.created_at <= p_to
           AND queend.record_time(l.created_at, l.meta, 0) >= p_from THEN
            v_skip := v_skip - l.n;
            CONTINUE;
        END IF;
        SELECT array_agg(g.name), array_agg(g.committed), array_agg(g.beyond), array_agg(g.start_at),
               array_agg(g.lease_end), COALESCE(max(g.lease_until) FILTER (WHERE g.name = '__QUEUE_MODE__'), 0),
               count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__')
          INTO v_name, v_next, v_beyond, v_start, v_end, v_lease, groups
          FROM queend.partition_groups(r.partition_id) AS g;
        v_only := COALESCE((SELECT f.addressed FROM queend.floors f WHERE f.partition_id = r.partition_id), false);
        partition_id := r.partition_id;
        n := l.n;
        body := CASE WHEN get_byte(l.body, 0) = 18 THEN l.body END;
        FOR m IN
            SELECT l.base + i.ord AS at, i.ord, i.id, queend.record_time(l.created_at, l.meta, i.ord) AS stored_at,
                   x.transaction_id, x.trace_id, x.producer_sub, x.due,
                   EXISTS (SELECT FROM queend.dead_letters d
                            WHERE d.partition_id = r.partition_id AND d.record_offset = l.base + i.ord) AS dead
              FROM queend.id_spread(l.ids) AS i
              LEFT JOIN (SELECT e.ord, f.* FROM queend.meta_records(l.meta) AS e
                           CROSS JOIN LATERAL queend.meta_piece(e.piece) AS f) AS x ON x.ord = i.ord
             WHERE NOT EXISTS (SELECT FROM queend.holes h
                                WHERE h.partition_id = r.partition_id AND h.record_offset = l.base + i.ord)
             ORDER BY i.ord DESC
        LOOP
            EXIT WHEN v_left <= 0;
            CONTINUE WHEN m.stored_at < p_from OR m.stored_at > p_to;
            SELECT bool_or(c.did) FILTER (WHERE c.name = '__QUEUE_MODE__'),
                   bool_or(c.last >= m.at) FILTER (WHERE c.name = '__QUEUE_MODE__'),
                   count(*) FILTER (WHERE c.did AND c.name <> '__QUEUE_MODE__'),
                   bool_or(c.last >= m.at AND NOT c.did) FILTER (WHERE c.name <> '__QUEUE_MODE__')
              INTO v_did, v_mode, consumed_by, v_held
              FROM (SELECT u.name, u.last, queend.group_did(u.committed, u.beyond, u.start_at, m.at, m.stored_at)
                           OR v_only AND queend.is_addressed_away(r.partition_id, m.at, u.name) AS did
                      FROM unnest(v_name, v_next, v_beyond, v_start, v_end)
                           AS u (name, committed, beyond, start_at, last)) AS c;
            lease_until := CASE WHEN v_mode THEN v_lease ELSE 0 END;
            queue_status := queend.group_status(m.dead, v_did, v_mode);
            status := CASE WHEN m.dead OR v_did IS NOT NULL THEN queue_status
                           ELSE queend.group_status(false, consumed_by = groups AND groups > 0, v_held) END;
            CONTINUE WHEN status <> p_status;
            IF v_skip > 0 THEN
                v_skip := v_skip - 1;
                CONTINUE;
            END IF;
            v_left := v_left - 1;
            record_offset := m.at;
            place := m.ord;
            stored_at := m.stored_at;
            trace_id := m.trace_id;
            producer_sub := m.producer_sub;
            deliver_at := m.due;
            transaction_id := COALESCE(m.transaction_id, encode(m.id, 'hex')::uuid::text);
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

-- Returns the status of a message in lists. Parameter p_dead: the message is a dead letter. Parameter p_did: all groups
-- that decide have consumed it (NULL: the queue lacks such a group). Parameter p_leased: a lease holds it.
CREATE OR REPLACE FUNCTION queend.group_status(p_dead boolean, p_did boolean, p_leased boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_dead THEN 'dead_letter' WHEN p_did THEN 'completed' WHEN p_leased THEN 'processing'
                ELSE 'pending' END
$$;

-- Returns every consumer group of a partition's queue, by name. Columns committed and beyond: its cursor in the
-- partition (NULL without one). Column start_at: when its subscription begins (NULL: with the oldest message). Column
-- lease_until: end of its lease, 0 without a live lease. Column lease_end: the last offset on that lease, -1 without
-- one.
CREATE OR REPLACE FUNCTION queend.partition_groups(p_part int)
RETURNS TABLE (name text, committed bigint, beyond int8multirange, start_at bigint, lease_until bigint,
               lease_end bigint)
LANGUAGE sql STABLE AS $$
    SELECT g.name, k.committed, k.beyond, g.start_at, CASE WHEN k.lease_until > n.now THEN k.lease_until ELSE 0 END,
           CASE WHEN k.lease_until > n.now THEN k.lease_end ELSE -1 END
      FROM (SELECT p.queue_id FROM queend.partitions p WHERE p.id = p_part) AS q
     CROSS JOIN (SELECT queend.now_us() AS now OFFSET 0) AS n
     CROSS JOIN LATERAL (SELECT x.id, x.name, x.start_at FROM queend.consumer_groups x WHERE x.queue_id = q.queue_id
                         OFFSET 0) AS g
      LEFT JOIN LATERAL (SELECT x.* FROM queend.cursors x WHERE x.partition_id = p_part AND x.group_id = g.id
                         OFFSET 0) AS k ON true
     ORDER BY g.name
$$;

-- Returns true if a group has consumed a message, or its subscription begins behind it. Parameters p_committed,
-- p_beyond and p_start: of partition_groups. Parameters p_at, p_stored: offset and time of the message.
CREATE OR REPLACE FUNCTION queend.group_did(p_committed bigint, p_beyond int8multirange, p_start bigint, p_at bigint,
    p_stored bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_committed IS NULL THEN COALESCE(p_stored < p_start, false)
                ELSE p_committed >= p_at OR COALESCE(p_beyond @> p_at, false) END
$$;

-- Returns true if a message is for one group only, and this group is another one.
CREATE OR REPLACE FUNCTION queend.is_addressed_away(p_part int, p_at bigint, p_group text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT COALESCE((SELECT a.first_offset <= p_at AND a.group_name <> p_group FROM queend.addressed a
                      WHERE a.partition_id = p_part AND a.last_offset >= p_at
                      ORDER BY a.partition_id, a.last_offset LIMIT 1), false)
$$;

-- Lists messages that are dead letters of some group, each once, the last failure first. Filters: these queues (NULL:
-- all), partitions of this name (NULL: any), stored between two times (µs, inclusive). Reads only the table of dead
-- letters, so the list is complete even if the log has lost the messages.
CREATE OR REPLACE FUNCTION queend.message_dead(p_queue int[], p_partition text, p_from bigint, p_to bigint, p_limit int,
    p_offset int)
RETURNS TABLE (queue text, namespace text, task text, priority int, partition text, partition_id int,
               record_offset bigint, stored_at bigint, transaction_id text, trace_id uuid, producer_sub text,
               body bytea, n int, place int, queue_status text, status text, consumed_by int, groups int,
               lease_until bigint, deliver_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    v_found bigint[];
BEGIN
    -- If several groups gave up a message, the last dead letter counts. A message fails after it was stored.
    IF p_partition IS NOT NULL THEN
        v_found := ARRAY(
            SELECT d.id FROM unnest(p_queue) AS q (id)
             CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x
                                  WHERE x.queue_id = q.id AND x.name = p_partition OFFSET 0) AS p
             CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.partition_id = p.id OFFSET 0) AS d
             WHERE d.created_at BETWEEN p_from AND p_to
               AND NOT EXISTS (SELECT FROM queend.dead_letters e
                                WHERE e.partition_id = d.partition_id AND e.record_offset = d.record_offset
                                  AND e.id > d.id)
             ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset);
    ELSIF cardinality(p_queue) < 2 THEN
        v_found := ARRAY(
            SELECT d.id FROM queend.dead_letters d
             WHERE d.queue_id = p_queue[1] AND d.failed_at >= p_from AND d.created_at BETWEEN p_from AND p_to
               AND NOT EXISTS (SELECT FROM queend.dead_letters e
                                WHERE e.partition_id = d.partition_id AND e.record_offset = d.record_offset
                                  AND e.id > d.id)
             ORDER BY d.queue_id DESC, d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset);
    ELSE
        v_found := ARRAY(
            SELECT d.id FROM queend.dead_letters d
             WHERE d.failed_at >= p_from AND d.created_at BETWEEN p_from AND p_to
               AND (p_queue IS NULL OR d.queue_id = ANY (p_queue))
               AND NOT EXISTS (SELECT FROM queend.dead_letters e
                                WHERE e.partition_id = d.partition_id AND e.record_offset = d.record_offset
                                  AND e.id > d.id)
             ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset);
    END IF;
    RETURN QUERY
    SELECT q.name, q.namespace, q.task, q.priority, p.name, d.partition_id, d.record_offset, d.created_at,
           d.transaction_id, d.trace_id, d.producer_sub, b.body, b.n, (d.record_offset - b.base)::int, 'dead_letter',
           'dead_letter', c.consumed::int, c.groups::int, c.lease_until, NULL::bigint
      FROM unnest(v_found) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.id = u.id OFFSET 0) AS d
      CROSS JOIN LATERAL (SELECT x.* FROM queend.queues x WHERE x.id = d.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = d.partition_id OFFSET 0) AS p
      CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__') AS groups,
                   count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__'
                                      AND queend.group_did(g.committed, g.beyond, g.start_at, d.record_offset,
                                                           d.created_at)) AS consumed,
                   COALESCE(max(g.lease_until) FILTER (WHERE g.name = '__QUEUE_MODE__'
                                                         AND g.lease_end >= d.record_offset), 0) AS lease_until
              FROM queend.partition_groups(d.partition_id) AS g) AS c
      LEFT JOIN LATERAL (SELECT x.* FROM queend.dead_bodies x
                          WHERE x.partition_id = d.partition_id AND x.base <= d.record_offset AND d.payload IS NULL
                          ORDER BY x.base DESC LIMIT 1) AS b ON true
     ORDER BY u.ord;
END $$;

-- Returns rows of the log to list p_most messages from, the newest first, if there are so many. They lie between two
-- times and may have a message of the status (NULL: any). Reads at most p_look rows for it, so it may find fewer than
-- there are. Passes over rows whose messages were all deleted, so a page is full if there are enough messages. For at
-- most 1000 partitions (p_part) it reads their own newest rows. If no status is given, only the p_most partitions
-- written last count: the p_most newest messages are in them. Otherwise (p_part NULL) it reads the log back in windows
-- of time and keeps the rows of the wanted queues (NULL: all). A window with too many rows is made narrower before it
-- is read, the next one wider again.
CREATE OR REPLACE FUNCTION queend.message_rows(p_part int[], p_queue int[], p_status text, p_from bigint, p_to bigint,
    p_most int, p_look int)
RETURNS TABLE (partition_id int, base bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    chunk   CONSTANT int := 5000;      -- largest number of rows in a window
    v_now   bigint := queend.now_us();
    v_to    bigint := LEAST(p_to, v_now);
    v_width bigint := 1000000;
    v_each  int := CASE WHEN p_status IS NULL THEN p_most
                        ELSE GREATEST(p_look / GREATEST(cardinality(p_part), 1), 10) END;
    v_from  bigint;
    v_most  int;
    -- True if every message of a row is to be listed.
    v_holes boolean := (SELECT c.holes FROM queend.catalog c);
    v_whole boolean := p_status IS NULL AND NOT (SELECT c.holes FROM queend.catalog c);
    v_found int := 0;
    v_rows  int;
    v_more  int;
    v_part  int[];
    v_base  bigint[];
    v_n     int[];
BEGIN
    IF p_part IS NOT NULL THEN
        SELECT array_agg(h.id),
               CASE WHEN p_status IS NULL AND p_to >= v_now AND count(*) = p_most THEN min(h.created_at) ELSE p_from END
          INTO v_part, v_from
          FROM (SELECT u.id, l.created_at FROM unnest(p_part) AS u (id)
                 CROSS JOIN LATERAL (SELECT COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = u.id),
                                                     0) AS floor OFFSET 0) AS f
                 CROSS JOIN LATERAL (SELECT x.created_at FROM queend.log x
                                      WHERE x.partition_id = u.id AND x.base >= f.floor
                                        AND (NOT v_holes OR NOT queend.row_deleted(u.id, x.base, x.n))
                                      ORDER BY x.base DESC LIMIT 1) AS l
                 WHERE l.created_at >= p_from
                 ORDER BY l.created_at DESC LIMIT CASE WHEN p_status IS NULL AND p_to >= v_now THEN p_most END) AS h;
        RETURN QUERY
        SELECT r.partition_id, r.base FROM unnest(v_part) AS u (id)
         CROSS JOIN LATERAL (SELECT CASE WHEN p_status IS NULL THEN queend.row_since(u.id, v_from) ELSE 0 END AS low,
                                    CASE WHEN p_to < v_now THEN queend.row_since(u.id, p_to + 1)
                                         ELSE 9223372036854775807 END AS high OFFSET 0) AS w
          LEFT JOIN LATERAL (SELECT s.* FROM queend.partition_reach(u.id, p_status) AS s OFFSET 0) AS s
                 ON p_status <> 'dead_letter'
         CROSS JOIN LATERAL (SELECT l.partition_id, l.base, l.n, l.created_at FROM queend.log l
                              WHERE l.partition_id = u.id AND l.base >= w.low
                                AND l.base <= LEAST(s.last, w.high)
                                AND (NOT v_holes OR NOT queend.row_deleted(u.id, l.base, l.n))
                              ORDER BY l.base DESC LIMIT v_each) AS r
         CROSS JOIN LATERAL queend.row_may(p_status, r.partition_id, r.base, r.base + r.n - 1, s.first, s.last) AS m
         WHERE r.created_at >= v_from AND m.may
         ORDER BY r.created_at DESC, r.partition_id, r.base DESC;
        RETURN;
    END IF;
    LOOP
        v_from := GREATEST(v_to - v_width, p_from - 1);
        -- Rows stored in one microsecond stay in one window.
        v_most := CASE WHEN v_to - v_from = 1 THEN p_look ELSE LEAST(2 * p_most + 1000, chunk, p_look) END;
        SELECT array_agg(r.partition_id), array_agg(r.base), array_agg(r.n), count(*) INTO v_part, v_base, v_n, v_rows
          FROM (SELECT x.* FROM queend.rows_between(v_from, v_to, v_most + 1) AS x
                 ORDER BY x.created_at DESC, x.partition_id, x.base DESC) AS r;
        IF v_rows > v_most AND v_to - v_from > 1 THEN
            v_width := GREATEST((v_to - v_from) / 4, 1);
            CONTINUE;
        END IF;
        SELECT array_agg(f.partition_id), array_agg(f.base), COALESCE(sum(CASE WHEN v_whole THEN f.n ELSE 1 END), 0)
          INTO v_part, v_base, v_more
          FROM (SELECT c.partition_id, c.base, c.n
                  FROM (SELECT u.* FROM unnest(v_part, v_base, v_n) WITH ORDINALITY AS u (partition_id, base, n, ord)
                         ORDER BY u.ord OFFSET 0) AS c
                  LEFT JOIN LATERAL (SELECT p.queue_id FROM queend.partitions p
                                      WHERE p.id = c.partition_id OFFSET 0) AS p ON p_queue IS NOT NULL
                  LEFT JOIN LATERAL (SELECT s.* FROM queend.partition_reach(c.partition_id, p_status) AS s
                                     OFFSET 0) AS s ON p_status <> 'dead_letter'
                 CROSS JOIN LATERAL queend.row_may(p_status, c.partition_id, c.base, c.base + c.n - 1, s.first,
                                                   s.last) AS m
                 WHERE (p_queue IS NULL OR p.queue_id = ANY (p_queue)) AND m.may
                   AND (NOT v_holes OR NOT queend.row_deleted(c.partition_id, c.base, c.n))
                 LIMIT p_most - v_found) AS f;
        RETURN QUERY SELECT * FROM unnest(v_part, v_base);
        v_found := v_found + v_more;
        p_look := p_look - v_rows;
        EXIT WHEN v_found >= p_most OR v_from < p_from OR p_look <= 0;
        v_to := v_from;
        v_width := v_width * 4;
    END LOOP;
END $$;

-- Returns true if all messages of a row of the log, which begins at p_base, were deleted.
CREATE OR REPLACE FUNCTION queend.row_deleted(p_part int, p_base bigint, p_n int) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN p_n = (SELECT count(*) FROM queend.holes h
                   WHERE h.partition_id = p_part AND h.record_offset >= p_base AND h.record_offset < p_base + p_n);
END $$;

-- Returns rows of the log stored between two times (µs, the first excluded), at most p_most of them, in any order.
-- Reads only the block ranges that the index on created_at cannot rule out; all other paths through the log are
-- switched off.
CREATE OR REPLACE FUNCTION queend.rows_between(p_from bigint, p_to bigint, p_most int)
RETURNS TABLE (partition_id int, base bigint, n int, created_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off
    SET enable_bitmapscan = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT l.partition_id, l.base, l.n, l.created_at FROM queend.log l
                  WHERE l.created_at > p_from AND l.created_at <= p_to LIMIT p_most;
END $$;

-- Returns the offsets of a partition between which all its messages of a status lie (pending, processing, completed).
-- Other messages may lie there as well. If the queue has a queue mode's group, that group decides alone, else all named
-- groups together (message_list).
CREATE OR REPLACE FUNCTION queend.partition_reach(p_part int, p_status text) RETURNS TABLE (first bigint, last bigint)
LANGUAGE sql STABLE AS $$
    SELECT CASE p_status WHEN 'completed' THEN 0
                         WHEN 'pending' THEN GREATEST(d.done, CASE WHEN d.alone THEN d.held ELSE -1 END) + 1
                         ELSE d.done + 1 END,
           CASE WHEN p_status = 'processing' THEN d.held
                WHEN p_status = 'pending' OR (SELECT f.addressed FROM queend.floors f WHERE f.partition_id = p_part)
                     THEN 9223372036854775807
                ELSE d.reach END
      FROM (SELECT bool_or(g.name = '__QUEUE_MODE__') AS alone, COALESCE(min(g.done), -1) AS done,
                   COALESCE(max(g.lease_end), -1) AS held,
                   COALESCE(min(GREATEST(g.done, upper(g.beyond) - 1)), -1) AS reach
              FROM (SELECT x.*, bool_or(x.name = '__QUEUE_MODE__') OVER () AS mode,
                           COALESCE(x.committed, CASE WHEN x.start_at IS NOT NULL
                                                      THEN queend.offset_since(p_part, x.start_at) - 1 END, -1) AS done
                      FROM queend.partition_groups(p_part) AS x) AS g
             WHERE NOT g.mode OR g.name = '__QUEUE_MODE__') AS d
$$;

-- Tells whether a row of the log may have a message of a status (message_list; NULL: any status). The row begins at
-- p_base and ends with p_last. Messages of the status lie from p_first to p_end (partition_reach). Returns one row, so
-- that the planner makes this function part of the statement.
CREATE OR REPLACE FUNCTION queend.row_may(p_status text, p_part int, p_base bigint, p_last bigint, p_first bigint,
    p_end bigint)
RETURNS TABLE (may boolean)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_status IN ('pending', 'processing', 'completed') THEN p_last >= p_first AND p_base <= p_end
                WHEN p_status = 'dead_letter'
                     THEN EXISTS (SELECT FROM queend.dead_letters d
                                   WHERE d.partition_id = p_part AND d.record_offset >= p_base
                                     AND d.record_offset <= p_last)
                ELSE p_status IS NULL END
$$;
