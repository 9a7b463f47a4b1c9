-- Pop, step by step: a partition of the queue with something for the group that nobody holds, the least recently consumed first; no row: none.
CREATE OR REPLACE FUNCTION queen.pop_sm_resolve(queue text, consumer_group text DEFAULT '__QUEUE_MODE__')
RETURNS TABLE (partition_id uuid, partition_name text, queue_id uuid, lease_time int, window_buffer int, delayed_processing int)
LANGUAGE sql AS $$
    SELECT queend.partition_uuid(r.partition_id), r.partition_name, queend.queue_uuid(r.queue_id), r.lease_time, r.window_buffer, r.delayed_processing
      FROM queend.pop_sm_resolve(queue, consumer_group) AS r
$$;
