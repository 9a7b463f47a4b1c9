-- Namespaces or tasks (p_kind: namespace, task) that have a queue, by name, with the sums of their queues' kept figures: a page of them.
-- Where queues are many the sums are kept as well, and as old as the last look (stats_spaces).
CREATE OR REPLACE FUNCTION queend.space_list(p_kind text, p_limit bigint, p_offset bigint)
RETURNS TABLE (name text, queues bigint, partitions bigint, total bigint, pending bigint)
LANGUAGE plpgsql STABLE SET jit = off SET enable_sort = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    IF queend.names_total(0, 'queue') > 10000 AND EXISTS (SELECT FROM queend.stat_spaces) THEN
        RETURN QUERY
        SELECT s.name, s.queues, s.partitions, s.total, s.pending FROM queend.stat_spaces s WHERE s.kind = p_kind ORDER BY s.kind, s.name LIMIT p_limit OFFSET p_offset;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT q.name, count(*), COALESCE(sum(s.partitions), 0)::bigint, COALESCE(sum(s.total), 0)::bigint, COALESCE(sum(s.pending), 0)::bigint
      FROM (SELECT x.id, CASE p_kind WHEN 'task' THEN x.task ELSE x.namespace END AS name FROM queend.queues x) AS q
      LEFT JOIN queend.stat_queues s ON s.queue_id = q.id WHERE q.name <> '' GROUP BY q.name ORDER BY q.name LIMIT p_limit OFFSET p_offset;
END $$;
