-- Dead letters by their ids, in that order. body, n, place: of a compressed row, whose payload is NULL here. from_all: it was moved
-- here by hand, away from all groups.
CREATE OR REPLACE FUNCTION queend.dead_show(p_id bigint[])
RETURNS TABLE (id bigint, queue text, partition text, partition_id int, group_name text, record_offset bigint, transaction_id text, trace_id uuid,
               producer_sub text, payload text, error text, retries int, created_at bigint, failed_at bigint, body bytea, n int, place int, seal text, headers text, encrypted boolean,
               from_all boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT d.id, q.name, p.name, d.partition_id, COALESCE(d.group_name, g.name), d.record_offset, d.transaction_id, d.trace_id, d.producer_sub, d.payload,
           d.error, d.retry_count, d.created_at, d.failed_at, b.body, b.n, (d.record_offset - b.base)::int, d.seal, d.headers, q.encryption_enabled,
           d.from_all
      FROM unnest(p_id) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.id = u.id OFFSET 0) AS d
      CROSS JOIN LATERAL (SELECT x.name, x.encryption_enabled FROM queend.queues x WHERE x.id = d.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = d.partition_id OFFSET 0) AS p
      LEFT JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = d.group_id OFFSET 0) AS g ON true
      LEFT JOIN LATERAL (SELECT x.* FROM queend.dead_bodies x WHERE x.partition_id = d.partition_id AND x.base <= d.record_offset AND d.payload IS NULL
                          ORDER BY x.base DESC LIMIT 1) AS b ON true
     ORDER BY u.ord;
END $$;
