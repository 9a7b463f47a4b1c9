-- Metrics of daemons, per minute, queue and worker. Owns queend.metric_queues, metric_workers and metric_totals. Locks:
-- each daemon writes its own rows; the one row of the totals comes last.

-- Adds the numbers of one daemon since its last call. The first arrays have one element per queue and worker, the last
-- one per worker. Parameter p_values has 14 numbers for each element, one after the other, in the order of the table.
CREATE OR REPLACE FUNCTION queend.metrics_keep(p_hostname text, p_port int, p_pid int, p_bucket bigint, p_queues int[],
    p_workers int[], p_values bigint[],
                                               p_counts jsonb, p_levels jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.metric_queues AS m (bucket, queue_id, port, worker, hostname, push_requests, push_messages,
                                           pop_requests, pop_messages, pop_empty,
           ack_requests, ack_done, ack_failed, transactions, lag_us, lag_n, lag_most_us, parked, samples)
    SELECT p_bucket, u.queue, p_port, u.worker, p_hostname, p_values[u.at + 1], p_values[u.at + 2], p_values[u.at + 3],
           p_values[u.at + 4], p_values[u.at + 5], p_values[u.at + 6], p_values[u.at + 7], p_values[u.at + 8],
           p_values[u.at + 9], p_values[u.at + 10], p_values[u.at + 11], p_values[u.at + 12],
           p_values[u.at + 13], p_values[u.at + 14]
      FROM (SELECT x.queue, x.worker, (x.ord - 1) * 14 AS at
              FROM unnest(p_queues, p_workers) WITH ORDINALITY AS x (queue, worker, ord)) AS u
     ORDER BY u.queue, u.worker
    ON CONFLICT (bucket, queue_id, hostname, port, worker) DO UPDATE SET
        push_requests = m.push_requests + excluded.push_requests,
        push_messages = m.push_messages + excluded.push_messages, pop_requests = m.pop_requests + excluded.pop_requests,
        pop_messages = m.pop_messages + excluded.pop_messages, pop_empty = m.pop_empty + excluded.pop_empty,
        ack_requests = m.ack_requests + excluded.ack_requests, ack_done = m.ack_done + excluded.ack_done,
        ack_failed = m.ack_failed + excluded.ack_failed, transactions = m.transactions + excluded.transactions,
        lag_us = m.lag_us + excluded.lag_us, lag_n = m.lag_n + excluded.lag_n,
        lag_most_us = GREATEST(m.lag_most_us, excluded.lag_most_us), parked = m.parked + excluded.parked,
        samples = m.samples + excluded.samples;
    INSERT INTO queend.metric_workers AS m (bucket, port, worker, pid, hostname, seen_at, counts, levels)
    SELECT p_bucket, p_port, u.ord - 1, p_pid, p_hostname, queend.now_us(),
           ARRAY(SELECT e::bigint FROM jsonb_array_elements_text(u.counts) AS e), u.levels
      FROM ROWS FROM (jsonb_array_elements(p_counts), jsonb_array_elements(p_levels)) WITH ORDINALITY AS u (counts,
              levels, ord)
    ON CONFLICT (bucket, hostname, port, worker) DO UPDATE SET pid = excluded.pid, seen_at = excluded.seen_at,
        counts = queend.counts_add(m.counts, excluded.counts), levels = queend.levels_add(m.levels, excluded.levels);
    IF p_counts = '[]' THEN      -- another call of this daemon brings the workers
        RETURN;
    END IF;
    UPDATE queend.metric_totals t SET counts = queend.counts_add(t.counts, (
        SELECT array_agg(s.n ORDER BY s.ord) FROM (
            SELECT e.ord, sum(e.n::bigint)::bigint AS n FROM jsonb_array_elements(p_counts) AS w
              CROSS JOIN LATERAL jsonb_array_elements_text(w) WITH ORDINALITY AS e (n, ord)
             GROUP BY e.ord) AS s));
END $$;

-- Adds two lists of counts place by place, the shorter one padded with zeros.
CREATE OR REPLACE FUNCTION queend.counts_add(p_one bigint[], p_other bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT COALESCE(array_agg(COALESCE(u.a, 0) + COALESCE(u.b, 0) ORDER BY u.ord), '{}')
      FROM unnest(p_one, p_other) WITH ORDINALITY AS u (a, b, ord)
$$;

-- Merges two sets of levels of one bucket: name → [sum, samples, least, most, last]; p_other is the later.
CREATE OR REPLACE FUNCTION queend.levels_add(p_one jsonb, p_other jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_one || COALESCE(jsonb_object_agg(o.key, CASE WHEN p_one ? o.key THEN jsonb_build_array(
               (p_one -> o.key ->> 0)::numeric + (o.value ->> 0)::numeric,
               (p_one -> o.key ->> 1)::numeric + (o.value ->> 1)::numeric,
               LEAST((p_one -> o.key ->> 2)::numeric, (o.value ->> 2)::numeric),
               GREATEST((p_one -> o.key ->> 3)::numeric, (o.value ->> 3)::numeric),
               o.value -> 4) ELSE o.value END), '{}')
      FROM jsonb_each(p_other) AS o
$$;
