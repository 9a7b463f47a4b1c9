-- Pop step by step.

CREATE OR REPLACE FUNCTION queen.pop_sm_resolve(queue text, consumer_group text DEFAULT '__QUEUE_MODE__')
RETURNS TABLE (partition_id uuid, partition_name text, queue_id uuid, lease_time int, window_buffer int,
               delayed_processing int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_group int;
    v_now   bigint := queend.now_us();
    q       queend.queues;
BEGIN
    SELECT * INTO q FROM queend.queues x WHERE x.name = pop_sm_resolve.queue;
    v_group := (SELECT g.group_id FROM queend.group_resolve(q.id, pop_sm_resolve.consumer_group, 'all', NULL) AS g);
    IF v_group IS NULL OR queend.is_paused(q.id, v_group) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT queend.partition_uuid(p.id), p.name, queend.queue_uuid(q.id), q.lease_time, q.window_buffer,
           q.delayed_processing
      FROM queend.cursor_figures(ARRAY(SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id), v_group) AS c
      JOIN queend.partitions p ON p.id = c.partition_id
      LEFT JOIN queend.cursors k ON k.partition_id = p.id AND k.group_id = v_group
     WHERE c.lag > 0 AND c.lease_until = 0 AND COALESCE(k.retry_until, 0) <= v_now AND c.waiting_since <= v_now
       AND (q.window_buffer = 0
            OR queend.window_until(p.id, c.next, c.newest, q.window_buffer * 1000000::bigint) <= v_now)
     ORDER BY COALESCE(c.consumed_at, 0), p.id
     LIMIT 1;
END $$;
COMMENT ON FUNCTION queen.pop_sm_resolve(text, text) IS
'Step of a pop: proposes the least recently consumed partition with a deliverable message for the group (delays and
windowBuffer apply) and without a lease. The result is empty if no partition qualifies. The function queen.pop_sm_lease
may still find the partition on lease.';

CREATE OR REPLACE FUNCTION queen.pop_sm_lease(queue text, partition text, consumer_group text, lease_seconds int,
    worker_id text, batch_size int)
RETURNS TABLE (partition_id uuid, cursor_id uuid, cursor_ts timestamptz, queue_lease_time int, window_buffer int,
               delayed_processing int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_lease uuid := queend.lease_uuid(worker_id);
    v       record;
BEGIN
    IF v_lease IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'worker_id must be a non-empty text';
    END IF;
    PERFORM queend.filter_number(NULL, 'batch_size', pop_sm_lease.batch_size, 1, 10000),
            queend.filter_number(NULL, 'lease_seconds', pop_sm_lease.lease_seconds, 0, 31536000);
    SELECT p.id, g.group_id, l.first, q.lease_time, q.window_buffer, q.delayed_processing INTO v
      FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id
      CROSS JOIN LATERAL queend.group_resolve(q.id, pop_sm_lease.consumer_group, 'all', NULL) AS g
      CROSS JOIN LATERAL (SELECT WHERE NOT queend.is_paused(q.id, g.group_id)) AS going
      CROSS JOIN LATERAL queend.pop_one(p.id, g.group_id, pop_sm_lease.batch_size, v_lease,
                                        COALESCE(NULLIF(pop_sm_lease.lease_seconds, 0),
                                                 q.lease_time) * 1000000::bigint) AS l
     WHERE q.name = pop_sm_lease.queue AND p.name = pop_sm_lease.partition;
    IF v.first IS NOT NULL THEN
        PERFORM queend.leases_keep(ARRAY[v_lease], ARRAY[v.id], ARRAY[v.group_id], true);
        RETURN QUERY
        SELECT queend.partition_uuid(v.id), m.id, m.created_at, v.lease_time, v.window_buffer, v.delayed_processing
          FROM queend.cursor_message(v.id, v.first - 1) AS m;
    END IF;
END $$;
COMMENT ON FUNCTION queen.pop_sm_lease(text, text, text, integer, text, integer) IS
'Step of a pop: leases a partition under the name worker_id for lease_seconds (0: the queue''s leaseTime). The result is
empty if the partition is on lease or has nothing for the group. The cursor_id and cursor_ts are those of the message
before the first one to fetch; zero and NULL at the start. Error 22023: a batch_size outside 1 to 10000, or a negative
lease_seconds.';

CREATE OR REPLACE FUNCTION queen.pop_sm_fetch(partition_id uuid, cursor_ts timestamptz, cursor_id uuid, batch_size int,
    window_buffer int DEFAULT 0, delayed_processing int DEFAULT 0) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_part  int := queend.partition_id(partition_id);
    v_first bigint := CASE WHEN cursor_ts IS NULL
                                THEN (SELECT COALESCE(max(f.floor), 0) FROM queend.floors f
                                       WHERE f.partition_id = v_part) ELSE queend.message_offset(cursor_id) + 1 END;
BEGIN
    RETURN (
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'id', queend.message_id(r.stored_at, v_part, r.record_offset), 'transactionId', r.transaction_id,
               'traceId', r.trace_id, 'data', r.data, 'producerSub', r.producer_sub,
               'createdAt', queend.iso(r.stored_at))
                              || COALESCE(r.origin, '{}')
                              ORDER BY r.record_offset), '[]')
      FROM (SELECT x.*, bool_and(x.data IS NOT NULL) OVER (ORDER BY x.record_offset) AS readable
              FROM (SELECT y.*, queend.as_jsonb(y.payload) AS data
                      FROM queend.records(v_part, v_first, batch_size) AS y) AS x) AS r
     WHERE r.readable);
END $$;
COMMENT ON FUNCTION queen.pop_sm_fetch(uuid, timestamp with time zone, uuid, integer, integer, integer) IS
'Step of a pop: returns the messages of a partition after the cursor that queen.pop_sm_lease returned, in order, in the
form of queen.pop_unified_batch_v4. Stops before a message that SQL cannot read.';

CREATE OR REPLACE FUNCTION queen.pop_sm_release(partition_id uuid, consumer_group text, worker_id text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_part  int := queend.partition_id(pop_sm_release.partition_id);
    v_group int := (SELECT g.id FROM queend.partitions p
                      JOIN queend.consumer_groups g ON g.queue_id = p.queue_id
                                                       AND g.name = pop_sm_release.consumer_group WHERE p.id = v_part);
    v_done  boolean := (SELECT r.released
                          FROM queend.release(ARRAY[v_part], ARRAY[v_group],
                                              ARRAY[queend.lease_uuid(pop_sm_release.worker_id)]) AS r);
BEGIN
    IF v_done THEN
        PERFORM queend.lease_freed(ARRAY[v_part], ARRAY[v_group]);
    END IF;
    RETURN v_done;
END $$;
COMMENT ON FUNCTION queen.pop_sm_release(uuid, text, text) IS
'Step of a pop: returns the lease if worker_id still holds it.';
