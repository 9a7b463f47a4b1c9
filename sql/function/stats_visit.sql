-- Brings the kept figures of partitions up to date: what was kept of them is taken from the sums of their queues and groups, what
-- is there now is added, in one statement and so from one snapshot. Partition i is of queue p_queue[i]; one that is gone leaves
-- the sums. Whoever calls it holds the session lock of the statistics (service/stats): visits do not overlap.
CREATE OR REPLACE FUNCTION queend.stats_visit(p_queue int[], p_parts int[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    WITH want AS MATERIALIZED (
        SELECT u.queue_id, u.partition_id FROM unnest(p_queue, p_parts) AS u (queue_id, partition_id)),
    live AS MATERIALIZED (
        SELECT c.*, CASE WHEN c.group_id IS NOT NULL THEN GREATEST(c.head - c.next - c.beyond, 0) END AS lag FROM queend.partition_cursors(p_parts) AS c),
    parts AS MATERIALIZED (
        SELECT c.queue_id, c.partition_id, min(c.floor) AS floor, max(c.head) AS head, COALESCE(max(c.newest), 0) AS newest,
               max(COALESCE(c.lag - LEAST(c.leased, c.lag), c.head - c.floor)) AS pending,
               max(c.leased) AS processing, max(COALESCE(c.next, c.floor) - c.floor + c.beyond) AS completed, max(c.consumed) AS consumed,
               COALESCE(min(c.lease_until) FILTER (WHERE c.lease_until > 0), 0) AS until
          FROM live c GROUP BY c.queue_id, c.partition_id),
    old_parts AS MATERIALIZED (
        SELECT s.* FROM want w CROSS JOIN LATERAL (
            SELECT x.* FROM queend.stat_partitions x WHERE x.queue_id = w.queue_id AND x.partition_id = w.partition_id OFFSET 0) AS s),
    old_cursors AS MATERIALIZED (
        SELECT g.queue_id, s.* FROM want w
         CROSS JOIN LATERAL (SELECT x.id, x.queue_id FROM queend.consumer_groups x WHERE x.queue_id = w.queue_id OFFSET 0) AS g
         CROSS JOIN LATERAL (SELECT x.* FROM queend.stat_cursors x WHERE x.group_id = g.id AND x.partition_id = w.partition_id OFFSET 0) AS s),
    put_parts AS (
        INSERT INTO queend.stat_partitions AS s (floor, head, newest, pending, processing, completed, consumed, until, queue_id, partition_id)
        SELECT p.floor, p.head, p.newest, p.pending, p.processing, p.completed, p.consumed, p.until, p.queue_id, p.partition_id FROM parts p
        ON CONFLICT (queue_id, partition_id) DO UPDATE SET floor = excluded.floor, head = excluded.head, newest = excluded.newest, pending = excluded.pending,
            processing = excluded.processing, completed = excluded.completed, consumed = excluded.consumed, until = excluded.until
         WHERE (s.floor, s.head, s.newest, s.pending, s.processing, s.completed, s.consumed, s.until)
               IS DISTINCT FROM (excluded.floor, excluded.head, excluded.newest, excluded.pending, excluded.processing, excluded.completed, excluded.consumed, excluded.until)),
    put_cursors AS (
        INSERT INTO queend.stat_cursors AS s (next, lag, leased, oldest, newest, group_id, partition_id, consumed)
        SELECT c.next, c.lag, c.leased, COALESCE(c.oldest, 0), COALESCE(c.newest, 0), c.group_id, c.partition_id, c.consumed_at IS NOT NULL
          FROM live c WHERE c.group_id IS NOT NULL
        ON CONFLICT (group_id, partition_id) DO UPDATE SET next = excluded.next, lag = excluded.lag, leased = excluded.leased, oldest = excluded.oldest,
            newest = excluded.newest, consumed = excluded.consumed
         WHERE (s.next, s.lag, s.leased, s.oldest, s.newest, s.consumed)
               IS DISTINCT FROM (excluded.next, excluded.lag, excluded.leased, excluded.oldest, excluded.newest, excluded.consumed)),
    drop_parts AS (
        DELETE FROM queend.stat_partitions s USING old_parts o
         WHERE s.queue_id = o.queue_id AND s.partition_id = o.partition_id
           AND NOT EXISTS (SELECT FROM parts p WHERE p.queue_id = o.queue_id AND p.partition_id = o.partition_id)),
    drop_cursors AS (
        DELETE FROM queend.stat_cursors s USING old_cursors o
         WHERE s.group_id = o.group_id AND s.partition_id = o.partition_id
           AND NOT EXISTS (SELECT FROM live c WHERE c.group_id = o.group_id AND c.partition_id = o.partition_id)),
    put_groups AS (
        INSERT INTO queend.stat_groups AS s (group_id, queue_id, members, lagging, lag, leases, leased, consumed)
        SELECT d.group_id, d.queue_id, sum(d.sign), sum(d.sign * (d.lag > 0)::int), sum(d.sign * d.lag), sum(d.sign * (d.leased > 0)::int),
               sum(d.sign * d.leased), sum(d.sign * d.consumed::int)
          FROM (SELECT 1 AS sign, c.group_id, c.queue_id, c.lag, c.leased, c.consumed_at IS NOT NULL AS consumed FROM live c WHERE c.group_id IS NOT NULL
                UNION ALL SELECT -1, o.group_id, o.queue_id, o.lag, o.leased, o.consumed FROM old_cursors o) AS d GROUP BY d.group_id, d.queue_id
        ON CONFLICT (group_id) DO UPDATE SET members = s.members + excluded.members, lagging = s.lagging + excluded.lagging, lag = s.lag + excluded.lag,
            leases = s.leases + excluded.leases, leased = s.leased + excluded.leased, consumed = s.consumed + excluded.consumed)
    INSERT INTO queend.stat_queues AS s (queue_id, visit_after, partitions, pushed, total, pending, processing, completed, consumed, leased, newest)
    SELECT d.queue_id, 0, sum(d.sign), sum(d.sign * d.head), sum(d.sign * (d.head - d.floor)), sum(d.sign * d.pending), sum(d.sign * d.processing),
           sum(d.sign * d.completed), sum(d.sign * d.consumed), sum(d.sign * (d.until > 0)::int), max(d.newest)
      FROM (SELECT 1 AS sign, p.queue_id, p.head, p.floor, p.pending, p.processing, p.completed, p.consumed, p.until, p.newest FROM parts p
            UNION ALL SELECT -1, o.queue_id, o.head, o.floor, o.pending, o.processing, o.completed, o.consumed, o.until, 0 FROM old_parts o) AS d
     GROUP BY d.queue_id
    ON CONFLICT (queue_id) DO UPDATE SET partitions = s.partitions + excluded.partitions, pushed = s.pushed + excluded.pushed, total = s.total + excluded.total,
        pending = s.pending + excluded.pending, processing = s.processing + excluded.processing, completed = s.completed + excluded.completed,
        consumed = s.consumed + excluded.consumed, leased = s.leased + excluded.leased, newest = GREATEST(s.newest, excluded.newest);
END $$;
