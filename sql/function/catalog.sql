-- What a daemon knows of names and options: one version over all of it, raised by every change. The catalogue's row is
-- the last of all locks.

-- The catalogue version and seed with every queue and its options: one row per queue, one row with NULLs if there is
-- none. ttl: 0 where it is not enforced. paused: ids of groups that are, 4 bytes each, 0 for all of the queue's.
-- rate_us: 0 without a rate. shared: of rates over all partitions (rates), 1 where each group has one, 2 where all
-- of them together have one, and what changes with them in the bits above; 0: neither.
CREATE OR REPLACE FUNCTION queend.catalog_load()
RETURNS TABLE (version bigint, seed bytea, queue_id int, epoch int, name text, namespace text, task text,
               lease_time int, retry_limit int, retry_delay int, delayed int, window_buffer int, max_size int,
               encryption boolean, priority int, ttl int, cleaned bigint, cleaned_last bytea,
               paused bytea, rate_us bigint, rate_burst int, shared bigint)
LANGUAGE sql STABLE AS $$
    SELECT c.version, c.seed, q.id, q.epoch, q.name, q.namespace, q.task, q.lease_time, q.retry_limit, q.retry_delay,
           q.delayed_processing, q.window_buffer, q.max_size, q.encryption_enabled, q.priority,
           CASE WHEN q.ttl_set THEN q.ttl ELSE 0 END, q.cleaned, q.cleaned_last, p.paused,
           queend.rate_us(q.rate_limit, q.rate_period), queend.rate_burst(q.rate_limit, q.rate_burst, q.rate_period),
           CASE WHEN q.group_rate_limit > 0 OR q.queue_rate_limit > 0
                THEN ((hashtext(concat_ws(',', q.group_rate_limit, q.group_rate_burst, q.queue_rate_limit,
                                          q.queue_rate_burst, q.rate_period))::bigint & 2147483647) << 2)
                     | (q.group_rate_limit > 0)::int | 2 * (q.queue_rate_limit > 0)::int ELSE 0 END
      FROM queend.catalog c LEFT JOIN queend.queues q ON true
      LEFT JOIN (SELECT x.queue_id, string_agg(int4send(x.group_id), ''::bytea ORDER BY x.group_id) AS paused
                   FROM queend.paused x GROUP BY x.queue_id) AS p ON p.queue_id = q.id
$$;

-- A queue's rate as pop wants it: µs from one message of a partition to the next, rounded up (0: no bound), and how
-- many at once: as many as queend.pop can count with, where a step is long.
CREATE OR REPLACE FUNCTION queend.rate_us(p_limit int, p_period int) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_limit > 0 THEN (p_period * 1000000::bigint + p_limit - 1) / p_limit ELSE 0 END
$$;

CREATE OR REPLACE FUNCTION queend.rate_burst(p_limit int, p_burst int, p_period int) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
    SELECT LEAST(CASE WHEN p_burst > 0 THEN p_burst ELSE GREATEST(p_limit, 1) END,
                 4000000000000000000 / GREATEST(queend.rate_us(p_limit, p_period), 1))::int
$$;

-- Ids of existing partitions by (queue id, name); ord is the 0-based place, a missing one has no row.
-- Asked for in order, so that a plan made while the table is small cannot take the index without the name; and between
-- two bounds, so that the probe ends at the name instead of reading the rest of its leaf page.
CREATE OR REPLACE FUNCTION queend.partition_find(p_queue int[], p_name text[]) RETURNS TABLE (ord int, partition_id int)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, p.id FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x
                           WHERE x.queue_id = u.queue AND x.name >= u.name AND x.name <= u.name
                           ORDER BY x.name LIMIT 1) AS p
     WHERE p.name = u.name
$$;

-- Queue and name of existing partitions by id; a missing one has no row.
CREATE OR REPLACE FUNCTION queend.partitions_find(p_id int[]) RETURNS TABLE (id int, queue_id int, name text)
LANGUAGE sql STABLE AS $$
    SELECT p.id, p.queue_id, p.name FROM unnest(p_id) AS u (id)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
$$;

-- Ids of existing consumer groups by (queue id, name); ord is the 0-based place, a missing group has no row.
CREATE OR REPLACE FUNCTION queend.groups_find(p_queue int[], p_name text[]) RETURNS TABLE (ord int, group_id int)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, g.id FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      CROSS JOIN LATERAL (SELECT x.id FROM queend.consumer_groups x
                           WHERE x.queue_id = u.queue AND x.name = u.name OFFSET 0) AS g
$$;

-- Tells every daemon that names, options or groups it remembers may be stale. Call it in the transaction of the change.
CREATE OR REPLACE FUNCTION queend.catalog_raise() RETURNS void
LANGUAGE sql AS $$
    UPDATE queend.catalog SET version = version + 1
$$;
