-- The figures of partitions, live, one row each. Where several groups consume one, each figure is the largest over the groups;
-- where none does, all that is stored is pending. consumed: records of the group that consumed most; oldest: moment of the oldest
-- record some group has not consumed (NULL: none); until: when the first of its leases runs out (0: none); active: the last
-- claim or acknowledgment (NULL: never).
CREATE OR REPLACE FUNCTION queend.partition_figures(p_parts int[])
RETURNS TABLE (queue_id int, partition_id int, floor bigint, head bigint, newest bigint, pending bigint, processing bigint, completed bigint, consumed bigint,
               oldest bigint, until bigint, active bigint)
LANGUAGE sql STABLE AS $$
    SELECT c.queue_id, c.partition_id, min(c.floor), max(c.head), max(c.newest),
           max(GREATEST(c.head - COALESCE(c.next, c.floor) - c.beyond - c.leased, 0)), max(c.leased), max(COALESCE(c.next, c.floor) - c.floor + c.beyond),
           max(c.consumed), min(c.oldest), COALESCE(min(c.lease_until) FILTER (WHERE c.lease_until > 0), 0), max(c.consumed_at)
      FROM queend.partition_cursors(p_parts) AS c GROUP BY c.queue_id, c.partition_id
$$;
