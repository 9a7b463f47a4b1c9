-- How far a partition is consumed, as lists of messages tell it: the last offset that the queue mode's group has consumed, or every named
-- group where that one has not come there (NULL: no group has); whether the queue mode's group has a lease at p_now; and the last offset that is
-- consumed beyond a gap (reach).
CREATE OR REPLACE FUNCTION queend.partition_done(p_part int, p_now bigint) RETURNS TABLE (done bigint, leased boolean, reach bigint)
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(max(k.committed) FILTER (WHERE g.name = '__QUEUE_MODE__'), min(k.committed)),
           COALESCE(bool_or(k.lease_until > p_now) FILTER (WHERE g.name = '__QUEUE_MODE__'), false),
           COALESCE(max(GREATEST(k.committed, upper(k.beyond) - 1)) FILTER (WHERE g.name = '__QUEUE_MODE__'), min(GREATEST(k.committed, upper(k.beyond) - 1)))
      FROM queend.cursors k CROSS JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
     WHERE k.partition_id = p_part
$$;
