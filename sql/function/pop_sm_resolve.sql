-- Pop, step RESOLVING: one partition of a queue with records the group has not consumed and no live lease, the least
-- recently consumed first; no row: none. lease_time, window_buffer and delayed_processing are seconds.
-- A proposal only: pop_sm_lease decides.
CREATE OR REPLACE FUNCTION queend.pop_sm_resolve(p_queue text, p_group text)
RETURNS TABLE (partition_id int, partition_name text, group_id int, queue_id int, lease_time int, window_buffer int, delayed_processing int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.id, p.name, g.group_id, q.id, q.lease_time, q.window_buffer, q.delayed_processing
      FROM queend.queues q
      CROSS JOIN LATERAL queend.group_resolve(q.id, p_group, 'all', NULL) AS g
      JOIN queend.partitions p ON p.queue_id = q.id
      LEFT JOIN queend.cursors k ON k.partition_id = p.id AND k.group_id = g.group_id
     WHERE q.name = p_queue AND COALESCE(GREATEST(k.lease_until, k.retry_until), 0) <= queend.now_us()
       AND queend.schedule_due(p.id, COALESCE(k.committed + 1, 0), queend.now_us()) IS NULL
       AND queend.head(p.id) > COALESCE(k.committed + 1, CASE WHEN g.start_at IS NULL THEN 0 ELSE queend.offset_since(p.id, g.start_at) END)
     ORDER BY COALESCE(k.consumed_at, 0), p.id
     LIMIT 1;
END $$;
