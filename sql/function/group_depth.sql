-- Messages of a queue that a group has not consumed. The first row has the sums: pending, and the partitions that have some; then,
-- at most p_limit, those partitions with their part (lag), longest waiting first. Of kept figures; the group has all that is stored
-- since its subscription began before it where it has no cursor yet. p_group NULL: the group that is furthest behind in each
-- partition, sums only; one nobody has heard of has consumed nothing.
CREATE OR REPLACE FUNCTION queend.group_depth(p_queue int, p_group text, p_limit int)
RETURNS TABLE (pending bigint, partitions bigint, name text, lag bigint)
LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_group int;
    v_start bigint;
    q       queend.stat_queues;
    s       queend.stat_groups;
BEGIN
    SELECT x.* INTO q FROM queend.stat_queues x WHERE x.queue_id = p_queue;
    IF p_group IS NULL THEN
        RETURN QUERY SELECT COALESCE(q.pending + q.processing, 0),
                            (SELECT count(*) FROM queend.stat_partitions x WHERE x.queue_id = p_queue AND x.pending + x.processing > 0), NULL::text, 0::bigint;
        RETURN;
    END IF;
    SELECT g.id, g.start_at INTO v_group, v_start FROM queend.consumer_groups g WHERE g.queue_id = p_queue AND g.name = p_group;
    SELECT x.* INTO s FROM queend.stat_groups x WHERE x.group_id = v_group;
    RETURN QUERY
    WITH ahead AS MATERIALIZED (      -- partitions it has no cursor in
        SELECT x.partition_id, x.head - GREATEST(x.floor, CASE WHEN v_start IS NULL THEN 0 ELSE queend.offset_since(x.partition_id, v_start) END) AS lag
          FROM queend.stat_partitions x
         WHERE COALESCE(s.members, 0) < q.partitions AND x.queue_id = p_queue AND x.head > x.floor AND x.newest >= COALESCE(v_start, 0)
           AND NOT EXISTS (SELECT FROM queend.stat_cursors c WHERE c.group_id = v_group AND c.partition_id = x.partition_id)),
    shown AS (
        (SELECT c.partition_id, c.lag FROM queend.stat_cursors c WHERE c.group_id = v_group AND c.lag > 0 ORDER BY c.oldest LIMIT p_limit)
        UNION ALL (SELECT a.partition_id, a.lag FROM ahead a WHERE a.lag > 0 ORDER BY a.partition_id LIMIT p_limit))
    SELECT COALESCE(s.lag, 0) + COALESCE(sum(a.lag), 0)::bigint, COALESCE(s.lagging, 0) + count(*) FILTER (WHERE a.lag > 0), NULL::text, 0::bigint FROM ahead a
    UNION ALL
    (SELECT 0, 0, p.name, h.lag FROM shown h JOIN queend.partitions p ON p.id = h.partition_id LIMIT p_limit);
END $$;
