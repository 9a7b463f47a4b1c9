-- Messages that are dead letters of some group, each once, the last failure first; filters as of message_list, the moments (µs, inclusive) are
-- those at which the messages were stored. From the table of dead letters alone: complete, also where the log has them no more.
CREATE OR REPLACE FUNCTION queend.message_dead(p_queue text, p_partition text, p_namespace text, p_task text, p_from bigint, p_to bigint, p_limit int, p_offset int)
RETURNS TABLE (queue text, namespace text, task text, priority int, partition text, partition_id int, record_offset bigint, stored_at bigint,
               transaction_id text, trace_id uuid, producer_sub text, body bytea, n int, place int,
               queue_status text, status text, consumed_by int, groups int, lease_until bigint, deliver_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    v_any   boolean := p_queue IS NULL AND p_namespace IS NULL AND p_task IS NULL AND p_partition IS NULL;
    v_queue int[];
    v_found bigint[];
BEGIN
    IF p_queue IS NOT NULL THEN
        v_queue := ARRAY(SELECT q.id FROM queend.queues q WHERE q.name = p_queue AND (p_namespace IS NULL OR q.namespace = p_namespace) AND (p_task IS NULL OR q.task = p_task));
    ELSIF NOT v_any THEN
        v_queue := ARRAY(SELECT q.id FROM queend.queues q WHERE (p_namespace IS NULL OR q.namespace = p_namespace) AND (p_task IS NULL OR q.task = p_task));
    END IF;
    -- of a message that several groups gave up the last one counts; who fails was stored before
    IF p_partition IS NOT NULL THEN
        v_found := ARRAY(
            SELECT d.id FROM unnest(v_queue) AS q (id)
             CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = p_partition OFFSET 0) AS p
             CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.partition_id = p.id OFFSET 0) AS d
             WHERE d.created_at BETWEEN p_from AND p_to
               AND NOT EXISTS (SELECT FROM queend.dead_letters e WHERE e.partition_id = d.partition_id AND e.record_offset = d.record_offset AND e.id > d.id)
             ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset);
    ELSIF p_queue IS NOT NULL THEN
        v_found := ARRAY(
            SELECT d.id FROM queend.dead_letters d
             WHERE d.queue_id = v_queue[1] AND d.failed_at >= p_from AND d.created_at BETWEEN p_from AND p_to
               AND NOT EXISTS (SELECT FROM queend.dead_letters e WHERE e.partition_id = d.partition_id AND e.record_offset = d.record_offset AND e.id > d.id)
             ORDER BY d.queue_id DESC, d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset);
    ELSE
        v_found := ARRAY(
            SELECT d.id FROM queend.dead_letters d
             WHERE d.failed_at >= p_from AND d.created_at BETWEEN p_from AND p_to AND (v_any OR d.queue_id = ANY (v_queue))
               AND NOT EXISTS (SELECT FROM queend.dead_letters e WHERE e.partition_id = d.partition_id AND e.record_offset = d.record_offset AND e.id > d.id)
             ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset);
    END IF;
    RETURN QUERY
    SELECT q.name, q.namespace, q.task, q.priority, p.name, d.partition_id, d.record_offset, d.created_at, d.transaction_id, d.trace_id, d.producer_sub,
           b.body, b.n, (d.record_offset - b.base)::int, 'dead_letter', 'dead_letter', c.consumed::int, c.groups::int, c.lease_until, NULL::bigint
      FROM unnest(v_found) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.id = u.id OFFSET 0) AS d
      CROSS JOIN LATERAL (SELECT x.* FROM queend.queues x WHERE x.id = d.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = d.partition_id OFFSET 0) AS p
      CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__') AS groups,
                   count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__' AND (k.committed >= d.record_offset OR k.beyond @> d.record_offset)) AS consumed,
                   COALESCE(max(k.lease_until) FILTER (WHERE g.name = '__QUEUE_MODE__' AND k.lease_until > queend.now_us()), 0) AS lease_until
              FROM queend.cursors k CROSS JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
             WHERE k.partition_id = d.partition_id) AS c
      LEFT JOIN LATERAL (SELECT x.* FROM queend.dead_bodies x WHERE x.partition_id = d.partition_id AND x.base <= d.record_offset AND d.payload IS NULL
                          ORDER BY x.base DESC LIMIT 1) AS b ON true
     ORDER BY u.ord;
END $$;
