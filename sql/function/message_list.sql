-- Messages stored between two moments (µs, inclusive), the newest first. Every filter may be NULL: queue, partition, namespace
-- and task by name, status (pending, processing, completed, dead_letter). Deleted ones are left out. body only where the client framed the row (codec 2): texts and ids of its records stand there.
-- At most p_look rows of the log are looked at (message_rows.sql): a filter that few messages meet may find less than there is. Dead letters come from
-- their own table (message_dead.sql), all of them.
--   queue_status  of the queue mode's group; status: of the named groups together where no queue mode's group has come to the
--                 partition; consumed_by of the `groups` named groups that have come there; lease_until: of the queue mode, 0 = none
CREATE OR REPLACE FUNCTION queend.message_list(p_queue text, p_partition text, p_namespace text, p_task text, p_status text, p_from bigint, p_to bigint,
    p_limit int, p_offset int, p_look int)
RETURNS TABLE (queue text, namespace text, task text, priority int, partition text, partition_id int, record_offset bigint, stored_at bigint,
               transaction_id text, trace_id uuid, producer_sub text, body bytea, n int, place int,
               queue_status text, status text, consumed_by int, groups int, lease_until bigint, deliver_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_any    boolean := p_queue IS NULL AND p_namespace IS NULL AND p_task IS NULL AND p_partition IS NULL;
    v_queue  int[];
    v_part   int[];
    v_skip   int := p_offset;
    v_left   int := p_limit;
    v_holes  boolean := (SELECT c.holes FROM queend.catalog c);
    v_mode   bigint;      -- the queue mode's cursor, NULL: it has none here
    v_done   int8multirange;      -- what it has done beyond a gap
    v_next   bigint[];    -- those of the named groups
    v_beyond int8multirange[];
    r        record;
    l        record;
    m        record;
BEGIN
    IF p_status NOT IN ('pending', 'processing', 'completed', 'dead_letter') THEN
        RETURN;
    END IF;
    IF p_status = 'dead_letter' THEN
        RETURN QUERY SELECT * FROM queend.message_dead(p_queue, p_partition, p_namespace, p_task, p_from, p_to, p_limit, p_offset);
        RETURN;
    END IF;
    IF p_queue IS NOT NULL THEN
        v_queue := ARRAY(SELECT q.id FROM queend.queues q WHERE q.name = p_queue AND (p_namespace IS NULL OR q.namespace = p_namespace) AND (p_task IS NULL OR q.task = p_task));
    ELSIF NOT v_any THEN
        v_queue := ARRAY(SELECT q.id FROM queend.queues q WHERE (p_namespace IS NULL OR q.namespace = p_namespace) AND (p_task IS NULL OR q.task = p_task));
    END IF;
    IF p_partition IS NOT NULL THEN
        v_part := ARRAY(SELECT p.id FROM unnest(v_queue) AS u (id) CROSS JOIN LATERAL (
                          SELECT x.id FROM queend.partitions x WHERE x.queue_id = u.id AND x.name = p_partition OFFSET 0) AS p LIMIT 1001);
    ELSIF NOT v_any THEN
        v_part := ARRAY(SELECT p.id FROM unnest(v_queue) AS u (id) CROSS JOIN LATERAL (
                          SELECT x.id FROM queend.partitions x WHERE x.queue_id = u.id ORDER BY x.id LIMIT 1001) AS p LIMIT 1001);
    END IF;
    IF cardinality(v_part) > 1000 THEN
        v_part := NULL;
    END IF;
    FOR r IN SELECT * FROM queend.message_rows(v_part, v_queue, p_status, p_from, p_to, p_limit + p_offset, p_look) LOOP
        EXIT WHEN v_left <= 0;
        SELECT x.* INTO l FROM queend.log x WHERE x.partition_id = r.partition_id AND x.base = r.base;
        CONTINUE WHEN NOT FOUND;      -- retention was faster
        SELECT q.name, q.namespace, q.task, q.priority, p.name INTO queue, namespace, task, priority, partition
          FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = r.partition_id;
        CONTINUE WHEN NOT FOUND OR p_partition IS NOT NULL AND partition <> p_partition;
        IF v_skip >= l.n AND p_status IS NULL AND NOT v_holes AND l.created_at <= p_to AND queend.record_time(l.created_at, l.meta, 0) >= p_from THEN
            v_skip := v_skip - l.n;
            CONTINUE;
        END IF;
        SELECT max(k.committed) FILTER (WHERE g.name = '__QUEUE_MODE__'), max(k.lease_until) FILTER (WHERE g.name = '__QUEUE_MODE__'),
               range_agg(k.beyond) FILTER (WHERE g.name = '__QUEUE_MODE__'), array_agg(k.committed ORDER BY k.group_id) FILTER (WHERE g.name <> '__QUEUE_MODE__'),
               array_agg(k.beyond ORDER BY k.group_id) FILTER (WHERE g.name <> '__QUEUE_MODE__') INTO v_mode, lease_until, v_done, v_next, v_beyond
          FROM queend.cursors k CROSS JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
         WHERE k.partition_id = r.partition_id;
        lease_until := CASE WHEN lease_until > queend.now_us() THEN lease_until ELSE 0 END;
        groups := COALESCE(cardinality(v_next), 0);
        partition_id := r.partition_id;
        n := l.n;
        body := CASE WHEN get_byte(l.body, 0) = 18 THEN l.body END;
        FOR m IN
            SELECT l.base + i.ord AS at, i.ord, i.id, queend.record_time(l.created_at, l.meta, i.ord) AS stored_at,
                   EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = r.partition_id AND d.record_offset = l.base + i.ord) AS dead
              FROM queend.id_spread(l.ids) AS i
             WHERE NOT EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = r.partition_id AND h.record_offset = l.base + i.ord)
             ORDER BY i.ord DESC
        LOOP
            EXIT WHEN v_left <= 0;
            CONTINUE WHEN m.stored_at < p_from OR m.stored_at > p_to;
            consumed_by := (SELECT count(*) FROM unnest(v_next, v_beyond) AS c (committed, beyond) WHERE c.committed >= m.at OR c.beyond @> m.at);
            queue_status := CASE WHEN m.dead THEN 'dead_letter' WHEN v_mode >= m.at OR v_done @> m.at THEN 'completed' WHEN lease_until > 0 THEN 'processing' ELSE 'pending' END;
            status := CASE WHEN m.dead OR v_mode IS NOT NULL OR groups = 0 THEN queue_status WHEN consumed_by = groups THEN 'completed' ELSE 'pending' END;
            CONTINUE WHEN status <> p_status;
            IF v_skip > 0 THEN
                v_skip := v_skip - 1;
                CONTINUE;
            END IF;
            v_left := v_left - 1;
            record_offset := m.at;
            place := m.ord;
            stored_at := m.stored_at;
            SELECT x.transaction_id, x.trace_id, x.producer_sub, x.due INTO transaction_id, trace_id, producer_sub, deliver_at
              FROM (SELECT l.meta WHERE l.meta <> '') AS extras (meta) CROSS JOIN LATERAL queend.record_meta(extras.meta, m.ord) AS x;
            transaction_id := COALESCE(transaction_id, encode(m.id, 'hex')::uuid::text);
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;
