-- Pop, step by step: takes the lease of a partition under the name worker_id for lease_seconds (0: the queue's), if nobody holds it and there is
-- something; no row otherwise. cursor_id, cursor_ts: the message before the first one to fetch, zero and NULL where there is none.
CREATE OR REPLACE FUNCTION queen.pop_sm_lease(queue text, partition text, consumer_group text, lease_seconds int, worker_id text, batch_size int)
RETURNS TABLE (partition_id uuid, cursor_id uuid, cursor_ts timestamptz, queue_lease_time int, window_buffer int, delayed_processing int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF queend.lease_uuid(worker_id) IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'worker_id must be a non-empty text';
    END IF;
    RETURN QUERY
    SELECT queend.partition_uuid(p.id), m.id, m.created_at, q.lease_time, q.window_buffer, q.delayed_processing
      FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id
      CROSS JOIN LATERAL queend.group_resolve(q.id, pop_sm_lease.consumer_group, 'all', NULL) AS g
      CROSS JOIN LATERAL queend.pop_sm_lease(p.id, g.group_id, COALESCE(NULLIF(pop_sm_lease.lease_seconds, 0), q.lease_time), queend.lease_uuid(pop_sm_lease.worker_id), pop_sm_lease.batch_size) AS l
      CROSS JOIN LATERAL queend.cursor_message(p.id, l.first - 1) AS m
     WHERE q.name = pop_sm_lease.queue AND p.name = pop_sm_lease.partition;
END $$;
