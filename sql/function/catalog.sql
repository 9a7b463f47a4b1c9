-- The catalogue: names and options as daemons know them. One version covers all of it, and every change raises it. Owns
-- the row of queend.catalog. Locks: that row, the last of all locks.

-- Returns the catalogue version and seed with every queue and its options. One row per queue; one row with NULLs if the
-- database has no queue. In ttl: 0 if it is not enforced. In paused: ids of paused groups, 4 bytes each, 0 for all
-- groups of the queue. In rate_us: 0 without a rate. In shared: the rates over all partitions (rates), 0 without such a
-- rate. The lowest bits of shared: 1 each group has a rate, 2 all groups together have a rate. The bits above are a
-- hash of these rates, which changes with them. In spread: the partitions of a queue without order, 0 for a queue that
-- keeps the order.
CREATE OR REPLACE FUNCTION queend.catalog_load()
RETURNS TABLE (version bigint, seed bytea, queue_id int, epoch int, name text, namespace text, task text,
               lease_time int, retry_limit int, retry_delay int, delayed int, window_buffer int, max_size int,
               encryption boolean, priority int, ttl int, cleaned bigint, cleaned_last bytea,
               paused bytea, rate_us bigint, rate_burst int, shared bigint, spread int)
LANGUAGE sql STABLE AS $$
    SELECT c.version, c.seed, q.id, q.epoch, q.name, q.namespace, q.task, q.lease_time, q.retry_limit, q.retry_delay,
           q.delayed_processing, q.window_buffer, q.max_size, q.encryption_enabled, q.priority,
           CASE WHEN q.ttl_set THEN q.ttl ELSE 0 END, q.cleaned, q.cleaned_last, p.paused,
           queend.rate_us(q.rate_limit, q.rate_period), queend.rate_burst(q.rate_limit, q.rate_burst, q.rate_period),
           CASE WHEN q.group_rate_limit > 0 OR q.queue_rate_limit > 0
                THEN ((hashtext(concat_ws(',', q.group_rate_limit, q.group_rate_burst, q.queue_rate_limit,
                                          q.queue_rate_burst, q.rate_period))::bigint & 2147483647) << 2)
                     | (q.group_rate_limit > 0)::int | 2 * (q.queue_rate_limit > 0)::int ELSE 0 END,
           CASE WHEN q.ordered THEN 0 ELSE q.spread_partitions END
      FROM queend.catalog c LEFT JOIN queend.queues q ON true
      LEFT JOIN (SELECT x.queue_id, string_agg(int4send(x.group_id), ''::bytea ORDER BY x.group_id) AS paused
                   FROM queend.paused x GROUP BY x.queue_id) AS p ON p.queue_id = q.id
$$;

-- Returns the µs from one message of a partition to the next, rounded up, from a queue's rate (0: no limit), as pop
-- takes it.
CREATE OR REPLACE FUNCTION queend.rate_us(p_limit int, p_period int) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_limit > 0 THEN (p_period * 1000000::bigint + p_limit - 1) / p_limit ELSE 0 END
$$;

-- Returns how many messages of a partition may be delivered at once by a queue's rate. If a step is long, limits the
-- number to what queend.pop can compute with.
CREATE OR REPLACE FUNCTION queend.rate_burst(p_limit int, p_burst int, p_period int) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
    SELECT LEAST(CASE WHEN p_burst > 0 THEN p_burst ELSE GREATEST(p_limit, 1) END,
                 4000000000000000000 / GREATEST(queend.rate_us(p_limit, p_period), 1))::int
$$;

-- Returns ids of existing partitions by (queue id, name). Column ord is the 0-based place; a missing partition has no
-- row. The search is ordered, so that a plan made while the table is small cannot take the index without the name. It
-- has two bounds, so that the probe ends at the name instead of reading the rest of its leaf page.
CREATE OR REPLACE FUNCTION queend.partition_find(p_queue int[], p_name text[]) RETURNS TABLE (ord int, partition_id int)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, p.id FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x
                           WHERE x.queue_id = u.queue AND x.name >= u.name AND x.name <= u.name
                           ORDER BY x.name LIMIT 1) AS p
     WHERE p.name = u.name
$$;

-- Returns queue and name of existing partitions by id; a missing partition has no row.
CREATE OR REPLACE FUNCTION queend.partitions_find(p_id int[]) RETURNS TABLE (id int, queue_id int, name text)
LANGUAGE sql STABLE AS $$
    SELECT p.id, p.queue_id, p.name FROM unnest(p_id) AS u (id)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
$$;

-- Returns ids of existing consumer groups by (queue id, name), and whether they conflate. Column ord is the 0-based
-- place; a missing group has no row.
CREATE OR REPLACE FUNCTION queend.groups_find(p_queue int[], p_name text[])
RETURNS TABLE (ord int, group_id int, conflates boolean)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, g.id, g.conflates FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      CROSS JOIN LATERAL (SELECT x.id, x.conflates FROM queend.consumer_groups x
                           WHERE x.queue_id = u.queue AND x.name = u.name OFFSET 0) AS g
$$;

-- Tells every daemon that the names, options or groups it remembers may be stale. Must run in the transaction of the
-- change.
CREATE OR REPLACE FUNCTION queend.catalog_raise() RETURNS void
LANGUAGE sql AS $$
    UPDATE queend.catalog SET version = version + 1
$$;
