-- Sums the kept figures of queues up by namespace and by task, where a page would take too long for it (space_list): all of them, with
-- each look. Where queues are few, nothing is kept.
CREATE OR REPLACE FUNCTION queend.stats_spaces() RETURNS void
LANGUAGE plpgsql SET jit = off AS $$
BEGIN
    IF queend.names_total(0, 'queue') <= 10000 THEN
        IF EXISTS (SELECT FROM queend.stat_spaces) THEN
            DELETE FROM queend.stat_spaces;
        END IF;
        RETURN;
    END IF;
    WITH now AS MATERIALIZED (
        SELECT CASE WHEN grouping(q.namespace) = 0 THEN 'namespace' ELSE 'task' END COLLATE "C" AS kind, COALESCE(q.namespace, q.task) AS name, count(*) AS queues,
               COALESCE(sum(s.partitions), 0)::bigint AS partitions, COALESCE(sum(s.total), 0)::bigint AS total, COALESCE(sum(s.pending), 0)::bigint AS pending
          FROM queend.queues q LEFT JOIN queend.stat_queues s ON s.queue_id = q.id
         GROUP BY GROUPING SETS ((q.namespace), (q.task)) HAVING COALESCE(q.namespace, q.task) <> ''),
    gone AS (
        DELETE FROM queend.stat_spaces x WHERE NOT EXISTS (SELECT FROM now n WHERE n.kind = x.kind AND n.name = x.name))
    INSERT INTO queend.stat_spaces AS x (kind, name, queues, partitions, total, pending) SELECT n.kind, n.name, n.queues, n.partitions, n.total, n.pending FROM now n
    ON CONFLICT (kind, name) DO UPDATE SET queues = excluded.queues, partitions = excluded.partitions, total = excluded.total, pending = excluded.pending
     WHERE (x.queues, x.partitions, x.total, x.pending) IS DISTINCT FROM (excluded.queues, excluded.partitions, excluded.total, excluded.pending);
END $$;
