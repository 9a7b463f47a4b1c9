-- Copies stored records of one partition into dead_letters; p_offset and p_error by place. Each row is opened once,
-- however many of its records die. Of a compressed row the body is kept as it is, once, in dead_bodies; its dead letters
-- have no payload, and a transaction id that is no UUID is known from the body alone.
CREATE OR REPLACE FUNCTION queend.dead_letter(p_part int, p_group int, p_offset bigint[], p_error text[], p_retries int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.dead_bodies (partition_id, base, n, body)
    SELECT p_part, l.base, l.n, l.body FROM queend.log l
     WHERE l.partition_id = p_part AND l.base <= (SELECT max(d) FROM unnest(p_offset) AS d)
       AND l.base >= (SELECT x.base FROM queend.log x WHERE x.partition_id = p_part AND x.base <= (SELECT min(d) FROM unnest(p_offset) AS d) ORDER BY x.base DESC LIMIT 1)
       AND get_byte(l.body, 0) <> 16 AND EXISTS (SELECT 1 FROM unnest(p_offset) AS d WHERE d >= l.base AND d < l.base + l.n)
    ON CONFLICT (partition_id, base) DO UPDATE SET n = excluded.n, body = excluded.body WHERE excluded.n > dead_bodies.n;
    WITH d AS MATERIALIZED (SELECT * FROM unnest(p_offset, p_error) WITH ORDINALITY AS u (at, error, ord)),
    r AS MATERIALIZED (
        SELECT l.base, l.n, l.created_at, l.ids, l.body, l.meta, queend.record_times(l.created_at, l.meta) AS times, b.sizes, b.starts
          FROM queend.log l CROSS JOIN LATERAL queend.body_open(l.body, l.n) AS b
         WHERE l.partition_id = p_part AND l.base <= (SELECT max(d.at) FROM d)
           AND l.base >= (SELECT x.base FROM queend.log x WHERE x.partition_id = p_part AND x.base <= (SELECT min(d.at) FROM d) ORDER BY x.base DESC LIMIT 1)),
    m AS MATERIALIZED (SELECT r.base + e.ord AS at, p.* FROM r CROSS JOIN LATERAL queend.meta_records(r.meta) AS e CROSS JOIN LATERAL queend.meta_piece(e.piece) AS p)
    INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id, transaction_id, trace_id,
                                     producer_sub, seal, headers, payload, error, retry_count, created_at, failed_at)
    SELECT p.queue_id, p_part, p_group, d.at, i.id, COALESCE(m.transaction_id, encode(i.id, 'hex')::uuid::text), m.trace_id, m.producer_sub, m.seal, m.headers,
           convert_from(substr(r.body, r.starts[i.ord + 1] + 1, r.sizes[i.ord + 1]), 'UTF8'), d.error, p_retries, COALESCE(r.times[i.ord + 1], r.created_at), queend.now_us()
      FROM r CROSS JOIN LATERAL queend.id_spread(r.ids) AS i
      JOIN d ON d.at = r.base + i.ord
      JOIN queend.partitions p ON p.id = p_part
      LEFT JOIN m ON m.at = d.at
     ORDER BY d.ord;
END $$;
