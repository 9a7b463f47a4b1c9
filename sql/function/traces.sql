-- Traces: what programs record about messages. Owns queend.traces and queend.trace_names. Locks: only those of the rows
-- written.

-- Stores a trace of a message, under at most 100 names. Returns the trace's id; NULL if the message is unknown. Error
-- 22023: a name is too long, or there are too many.
CREATE OR REPLACE FUNCTION queend.trace_record(p_part int, p_id bytea, p_transaction text, p_group text, p_event text,
    p_worker text, p_data text, p_names text[])
RETURNS uuid
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_now bigint := queend.now_us();
    t     queend.traces;
BEGIN
    PERFORM queend.name_check('consumerGroup', p_group);
    PERFORM queend.name_check('traceNames', n) FROM unnest(p_names) AS n;
    IF cardinality(p_names) > 100 THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('traceNames must be at most 100, and are %s', cardinality(p_names));
    ELSIF octet_length(p_event) > 100 THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('eventType must have at most 100 bytes, and has %s', octet_length(p_event));
    END IF;
    IF queend.message_find(p_part, p_id) IS NULL
       AND NOT EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = p_part AND d.record_id = p_id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO queend.traces (partition_id, record_id, transaction_id, group_name, event_type, worker_id, data, names,
                               created_at)
    VALUES (p_part, p_id, p_transaction, p_group, p_event, p_worker, p_data, p_names, v_now) RETURNING * INTO t;
    INSERT INTO queend.trace_names (name, ord, partition_id, record_id, trace_id, created_at)
    SELECT DISTINCT n, t.ord, p_part, p_id, t.id, v_now FROM unnest(p_names) AS n;
    RETURN t.id;
END $$;

-- Returns a page of the names of traces, the last used first. Each has the number of its traces and of their messages
-- (of the latest p_count traces), and the time of its last trace. The first row (name NULL) has in traces the number of
-- names. Traces of deleted partitions do not count, also while they wait to be removed. Reads at most p_names names,
-- the first in alphabetical order. Each is one probe, however many traces it has. Only where its last traces are those
-- of deleted partitions, these are read as well, at most p_count.
CREATE OR REPLACE FUNCTION queend.trace_names_list(p_limit int, p_offset int, p_names int, p_count int)
RETURNS TABLE (name text, traces bigint, messages bigint, last bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE names (name, i) AS (
        (SELECT n.name, 1 FROM queend.trace_names n ORDER BY n.name LIMIT 1)
        UNION ALL
        SELECT x.name, s.i + 1 FROM names s
          CROSS JOIN LATERAL (SELECT n.name FROM queend.trace_names n WHERE n.name > s.name
                               ORDER BY n.name LIMIT 1) AS x
         WHERE s.i < p_names),
    used AS MATERIALIZED (
        SELECT s.name, t.created_at FROM names s
         CROSS JOIN LATERAL (SELECT r.created_at
                               FROM (SELECT n.created_at, n.partition_id FROM queend.trace_names n
                                      WHERE n.name = s.name ORDER BY n.name DESC, n.ord DESC LIMIT p_count) AS r
                              WHERE NOT EXISTS (SELECT FROM queend.graves g WHERE g.partition_id = r.partition_id)
                              LIMIT 1) AS t),
    page AS MATERIALIZED (
        SELECT u.name, u.created_at FROM used u ORDER BY u.created_at DESC, u.name LIMIT p_limit OFFSET p_offset)
    SELECT NULL::text, (SELECT count(*) FROM used), 0::bigint, 0::bigint
    UNION ALL
    (SELECT g.name, c.traces, c.messages, g.created_at FROM page g
      CROSS JOIN LATERAL (SELECT count(*) AS traces, count(DISTINCT (r.partition_id, r.record_id)) AS messages
                            FROM (SELECT n.partition_id, n.record_id FROM queend.trace_names n WHERE n.name = g.name
                                   ORDER BY n.ord DESC LIMIT p_count) AS r
                           WHERE NOT EXISTS (SELECT FROM queend.graves d WHERE d.partition_id = r.partition_id)) AS c
      ORDER BY g.created_at DESC, g.name);
END $$;

-- Returns the traces of a name, oldest first, with the queue and partition of each. Leaves out traces of deleted
-- partitions.
CREATE OR REPLACE FUNCTION queend.traces_named(p_name text, p_limit int, p_offset int)
RETURNS TABLE (id uuid, transaction_id text, partition_id int, event_type text, data text, group_name text,
               worker_id text, created_at bigint, queue text, partition text, record_id bytea, names text[])
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.id, t.transaction_id, t.partition_id, t.event_type, t.data, t.group_name, t.worker_id, t.created_at,
           w.queue, w.name, t.record_id, t.names
      FROM (SELECT x.ord, x.trace_id FROM queend.trace_names x WHERE x.name = p_name
               AND NOT EXISTS (SELECT FROM queend.graves g WHERE g.partition_id = x.partition_id)
             ORDER BY x.name, x.ord LIMIT p_limit OFFSET p_offset) AS n
      CROSS JOIN LATERAL (SELECT x.* FROM queend.traces x WHERE x.id = n.trace_id OFFSET 0) AS t
      LEFT JOIN LATERAL (SELECT p.name, (SELECT q.name FROM queend.queues q WHERE q.id = p.queue_id) AS queue
                           FROM queend.partitions p WHERE p.id = t.partition_id OFFSET 0) AS w ON true
     ORDER BY n.ord;
END $$;

-- Returns the traces of one message, oldest first, at most p_limit; none of a deleted partition.
CREATE OR REPLACE FUNCTION queend.traces_of(p_part int, p_id bytea, p_limit int) RETURNS SETOF queend.traces
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY SELECT t.* FROM queend.traces t WHERE t.partition_id = p_part AND t.record_id = p_id
                    AND NOT EXISTS (SELECT FROM queend.graves g WHERE g.partition_id = p_part)
                  ORDER BY t.partition_id, t.record_id, t.ord LIMIT p_limit;
END $$;

-- Removes the traces of messages, by partition and record ids. Returns how many were removed.
CREATE OR REPLACE FUNCTION queend.traces_drop(p_part int, p_id bytea[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN queend.trace_remove(ARRAY(SELECT t.id FROM queend.traces t
                                      WHERE t.partition_id = p_part AND t.record_id = ANY (p_id)));
END $$;

-- Removes traces by their ids. Returns how many were removed.
CREATE OR REPLACE FUNCTION queend.trace_remove(p_id uuid[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
DECLARE
    v_gone int;
BEGIN
    DELETE FROM queend.trace_names n WHERE n.trace_id = ANY (p_id);
    DELETE FROM queend.traces t WHERE t.id = ANY (p_id);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END $$;

-- Removes traces that were stored before p_before and whose message is gone. Then retention or a clear has removed it
-- from the log, and no dead letter keeps a copy. Reads p_limit traces after (p_part, p_record, p_ord), in the order of
-- their index. Returns in removed how many were removed. Columns next_part, next_record and next_ord are the key to
-- continue after, NULL at the end. Looks only for messages of partitions from whose log something was removed.
CREATE OR REPLACE FUNCTION queend.traces_tidy(p_part int, p_record bytea, p_ord bigint, p_limit int, p_before bigint,
    OUT removed int, OUT next_part int, OUT next_record bytea, OUT next_ord bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_page  queend.traces[] := ARRAY(
        SELECT t FROM queend.traces t WHERE (t.partition_id, t.record_id, t.ord) > (p_part, p_record, p_ord)
         ORDER BY t.partition_id, t.record_id, t.ord LIMIT p_limit);
    v_last  queend.traces;
    v_there bytea[];
    m       record;
BEGIN
    removed := 0;
    FOR m IN
        SELECT t.partition_id AS part, array_agg(DISTINCT t.record_id) AS ids,
               string_agg(DISTINCT t.record_id, '') AS joined
          FROM unnest(v_page) AS t
         WHERE t.created_at < p_before
           AND EXISTS (SELECT FROM queend.floors f WHERE f.partition_id = t.partition_id AND f.floor > 0)
         GROUP BY t.partition_id
    LOOP
        v_there := ARRAY(SELECT m.ids[f.ord + 1] FROM queend.ids_find(m.part, m.joined) AS f
                         UNION ALL
                         SELECT d.record_id FROM queend.dead_letters d
                          WHERE d.partition_id = m.part AND d.record_id = ANY (m.ids));
        removed := removed + queend.trace_remove(ARRAY(
            SELECT t.id FROM unnest(v_page) AS t
             WHERE t.partition_id = m.part AND t.created_at < p_before AND t.record_id <> ALL (v_there)));
    END LOOP;
    IF cardinality(v_page) = p_limit THEN
        v_last := v_page[p_limit];
        next_part := v_last.partition_id;
        next_record := v_last.record_id;
        next_ord := v_last.ord;
    END IF;
END $$;
