-- The catalogue version and seed with every queue and its options: one row per queue, one row with NULLs if there is none.
-- ttl: 0 where it is not enforced.
CREATE OR REPLACE FUNCTION queend.catalog_load()
RETURNS TABLE (version bigint, seed bytea, queue_id int, epoch int, name text, namespace text, task text, lease_time int,
               retry_limit int, retry_delay int, delayed int, window_buffer int, max_size int, encryption boolean, priority int, ttl int,
               cleaned bigint, cleaned_last bytea)
LANGUAGE sql STABLE AS $$
    SELECT c.version, c.seed, q.id, q.epoch, q.name, q.namespace, q.task, q.lease_time, q.retry_limit, q.retry_delay,
           q.delayed_processing, q.window_buffer, q.max_size, q.encryption_enabled, q.priority, CASE WHEN q.ttl_set THEN q.ttl ELSE 0 END,
           q.cleaned, q.cleaned_last
      FROM queend.catalog c LEFT JOIN queend.queues q ON true
$$;
