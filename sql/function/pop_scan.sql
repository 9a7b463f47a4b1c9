-- The partitions of a queue that have something a group has not consumed, by ascending id, a page of p_limit partitions
-- after p_after at a time. next: first offset to deliver; lease_until: 0 = no lease was left.
-- A last row with head = -1 names the last partition looked at, to go on from; with head = -2, or without it, there are
-- no more: a queue of less than a page is done in one call.
CREATE OR REPLACE FUNCTION queend.pop_scan(p_queue int, p_group int, p_after int, p_limit int)
RETURNS TABLE (partition_id int, next bigint, head bigint, lease_until bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_start bigint;
BEGIN
    SELECT g.start_at INTO v_start FROM queend.consumer_groups g WHERE g.id = p_group;
    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT p.id FROM queend.partitions p WHERE p.queue_id = p_queue AND p.id > p_after ORDER BY p.id LIMIT p_limit)
    SELECT e.id, e.next, e.head, e.lease_until
      FROM (SELECT page.id, COALESCE(k.lease_until, 0) AS lease_until, h.head,
                   CASE WHEN k.partition_id IS NOT NULL THEN k.committed + 1
                        WHEN h.head IS NULL THEN 0
                        WHEN v_start IS NULL THEN COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = page.id), 0)
                        ELSE queend.offset_since(page.id, v_start) END AS next
              FROM page
              LEFT JOIN queend.cursors k ON k.partition_id = page.id AND k.group_id = p_group
              LEFT JOIN LATERAL (SELECT l.base + l.n AS head FROM queend.log l
                                  WHERE l.partition_id = page.id AND l.base >= COALESCE(k.row_base, 0)
                                  ORDER BY l.base DESC LIMIT 1) AS h ON true) AS e
     WHERE e.head > e.next
    UNION ALL
    SELECT m.id, 0::bigint, CASE WHEN m.looked < p_limit THEN -2 ELSE -1 END::bigint, 0::bigint
      FROM (SELECT max(page.id) AS id, count(*) AS looked FROM page) AS m WHERE m.id IS NOT NULL;
END $$;
