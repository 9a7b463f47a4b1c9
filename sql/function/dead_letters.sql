-- Dead letters: copies of records that a group gave up, or that an operator took out by hand. Owns queend.dead_letters
-- and queend.dead_bodies. Locks: an acknowledgment that makes a dead letter holds the cursor.

-- Copies stored records of one partition into dead_letters; p_offset and p_error by place. Opens each row once, however
-- many of its records become dead letters. Keeps the body of a compressed row as it is, once, in dead_bodies. The dead
-- letters of such a row have a NULL payload. The transaction id of such a dead letter is found only in the body, unless
-- it is a UUID. Leaves out deleted records. Waits for deletions that are under way (partition_hold). Each dead letter
-- has the name of its group, also if the group is deleted before the transaction ends. Group 0 has no name. Error
-- 40001: the group was deleted; a caller with an older catalogue version learns that when it tries again.
CREATE OR REPLACE FUNCTION queend.dead_letter(p_part int, p_group int, p_offset bigint[], p_error text[], p_retries int)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text := (SELECT g.name FROM queend.consumer_groups g WHERE g.id = p_group);
BEGIN
    IF v_name IS NULL AND p_group <> 0 THEN
        RAISE serialization_failure USING MESSAGE = 'the consumer group was deleted';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1903519079, p_part);
    IF (SELECT c.holes FROM queend.catalog c) THEN
        SELECT array_agg(u.at ORDER BY u.ord), array_agg(u.error ORDER BY u.ord) INTO p_offset, p_error
          FROM unnest(p_offset, p_error) WITH ORDINALITY AS u (at, error, ord)
         WHERE NOT EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = u.at);
    END IF;
    INSERT INTO queend.dead_bodies (partition_id, base, n, body)
    SELECT p_part, l.base, l.n, l.body FROM queend.log l
     WHERE l.partition_id = p_part AND l.base <= (SELECT max(d) FROM unnest(p_offset) AS d)
       AND l.base >= (SELECT x.base FROM queend.log x
                       WHERE x.partition_id = p_part AND x.base <= (SELECT min(d) FROM unnest(p_offset) AS d)
                       ORDER BY x.base DESC LIMIT 1)
       AND get_byte(l.body, 0) <> 16
       AND EXISTS (SELECT 1 FROM unnest(p_offset) AS d WHERE d >= l.base AND d < l.base + l.n)
    ON CONFLICT (partition_id, base) DO UPDATE SET n = excluded.n, body = excluded.body
     WHERE excluded.n > dead_bodies.n;
    WITH d AS MATERIALIZED (SELECT * FROM unnest(p_offset, p_error) WITH ORDINALITY AS u (at, error, ord)),
    r AS MATERIALIZED (
        SELECT l.base, l.n, l.created_at, l.ids, l.body, l.meta, queend.record_times(l.created_at, l.meta) AS times,
               b.sizes, b.starts
          FROM queend.log l CROSS JOIN LATERAL queend.body_open(l.body, l.n) AS b
         WHERE l.partition_id = p_part AND l.base <= (SELECT max(d.at) FROM d)
           AND l.base >= (SELECT x.base FROM queend.log x
                           WHERE x.partition_id = p_part AND x.base <= (SELECT min(d.at) FROM d)
                           ORDER BY x.base DESC LIMIT 1)),
    m AS MATERIALIZED (SELECT r.base + e.ord AS at, p.* FROM r CROSS JOIN LATERAL queend.meta_records(r.meta) AS e
                         CROSS JOIN LATERAL queend.meta_piece(e.piece) AS p)
    INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, group_name, record_offset, record_id,
                                     transaction_id, trace_id, producer_sub, seal, headers, payload, error, retry_count,
                                     created_at, failed_at)
    SELECT p.queue_id, p_part, p_group, v_name, d.at, i.id,
           COALESCE(m.transaction_id, encode(i.id, 'hex')::uuid::text), m.trace_id, m.producer_sub, m.seal, m.headers,
           convert_from(substr(r.body, r.starts[i.ord + 1] + 1, r.sizes[i.ord + 1]), 'UTF8'), d.error, p_retries,
           COALESCE(r.times[i.ord + 1], r.created_at), queend.now_us()
      FROM r CROSS JOIN LATERAL queend.id_spread(r.ids) AS i
      JOIN d ON d.at = r.base + i.ord
      JOIN queend.partitions p ON p.id = p_part
      LEFT JOIN m ON m.at = d.at
     ORDER BY d.ord;
END $$;

-- Returns ids of dead letters, the newest failure first. Every filter may be NULL: queue (by id), partition and
-- consumer group (by name), time of the failure, a text in the error. Times are in µs, both ends inclusive. Names
-- become numbers first: with a partition only its own dead letters are read, and a group costs no look-up per dead
-- letter. Sorts only dead letters of one partition and failures of one microsecond: PostgreSQL 15 would sort all of a
-- queue's.
CREATE OR REPLACE FUNCTION queend.dead_find(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint,
    p_limit int, p_offset int, p_error text)
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    v_from  bigint := COALESCE(p_from, 0);
    v_to    bigint := COALESCE(p_to, 9223372036854775807);
    v_group int[] := ARRAY(SELECT g.id FROM queend.consumer_groups g
                            WHERE p_group IS NOT NULL AND g.name = p_group
                              AND (p_queue IS NULL OR g.queue_id = p_queue));
BEGIN
    IF p_partition IS NOT NULL THEN
        RETURN QUERY
        SELECT d.id FROM (SELECT q.id FROM queend.queues q WHERE p_queue IS NULL OR q.id = p_queue) AS q
         CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x
                              WHERE x.queue_id = q.id AND x.name = p_partition OFFSET 0) AS p
         CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.partition_id = p.id OFFSET 0) AS d
         WHERE d.failed_at >= v_from AND d.failed_at <= v_to
           AND (p_group IS NULL OR COALESCE(d.group_name = p_group, d.group_id = ANY (v_group)))
           AND (p_error IS NULL OR strpos(d.error, p_error) > 0)
         ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    ELSIF p_queue IS NOT NULL THEN
        RETURN QUERY
        SELECT d.id FROM queend.dead_letters d
         WHERE d.queue_id = p_queue AND d.failed_at >= v_from AND d.failed_at <= v_to
           AND (p_group IS NULL OR COALESCE(d.group_name = p_group, d.group_id = ANY (v_group)))
           AND (p_error IS NULL OR strpos(d.error, p_error) > 0)
         ORDER BY d.queue_id DESC, d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    ELSE
        RETURN QUERY
        SELECT d.id FROM queend.dead_letters d
         WHERE d.failed_at >= v_from AND d.failed_at <= v_to
           AND (p_group IS NULL OR COALESCE(d.group_name = p_group, d.group_id = ANY (v_group)))
           AND (p_error IS NULL OR strpos(d.error, p_error) > 0)
         ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    END IF;
END $$;

-- Returns how many dead letters match these filters (dead_find), counted up to p_most. If partition, group and error
-- are NULL, the keys of an index suffice.
CREATE OR REPLACE FUNCTION queend.dead_count(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint,
    p_most int, p_error text) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_from bigint := COALESCE(p_from, 0);
    v_to   bigint := COALESCE(p_to, 9223372036854775807);
BEGIN
    IF p_partition IS NOT NULL OR p_group IS NOT NULL OR p_error IS NOT NULL THEN
        RETURN (SELECT count(*)
                  FROM queend.dead_find(p_queue, p_partition, p_group, p_from, p_to, p_most, 0, p_error));
    ELSIF p_queue IS NOT NULL THEN
        RETURN (SELECT count(*)
                  FROM (SELECT FROM queend.dead_letters d
                         WHERE d.queue_id = p_queue AND d.failed_at >= v_from
                           AND d.failed_at <= v_to LIMIT p_most) AS d);
    END IF;
    RETURN (SELECT count(*)
              FROM (SELECT FROM queend.dead_letters d
                     WHERE d.failed_at >= v_from AND d.failed_at <= v_to LIMIT p_most) AS d);
END $$;

-- Returns dead letters by their ids, in that order. Columns body, n and place are of a compressed row, whose payload is
-- NULL here. The column from_all says that an operator moved the message here for all groups.
CREATE OR REPLACE FUNCTION queend.dead_show(p_id bigint[])
RETURNS TABLE (id bigint, queue text, partition text, partition_id int, group_name text, record_offset bigint,
               transaction_id text, trace_id uuid, producer_sub text, payload text, error text, retries int,
               created_at bigint, failed_at bigint, body bytea, n int, place int, seal text, headers text,
               encrypted boolean, from_all boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT d.id, q.name, p.name, d.partition_id, COALESCE(d.group_name, g.name), d.record_offset, d.transaction_id,
           d.trace_id, d.producer_sub, d.payload, d.error, d.retry_count, d.created_at, d.failed_at, b.body, b.n,
           (d.record_offset - b.base)::int, d.seal, d.headers, q.encryption_enabled,
           d.from_all
      FROM unnest(p_id) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.id = u.id OFFSET 0) AS d
      CROSS JOIN LATERAL (SELECT x.name, x.encryption_enabled FROM queend.queues x
                           WHERE x.id = d.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = d.partition_id OFFSET 0) AS p
      LEFT JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = d.group_id OFFSET 0) AS g ON true
      LEFT JOIN LATERAL (SELECT x.* FROM queend.dead_bodies x
                          WHERE x.partition_id = d.partition_id AND x.base <= d.record_offset AND d.payload IS NULL
                          ORDER BY x.base DESC LIMIT 1) AS b ON true
     ORDER BY u.ord;
END $$;

-- Deletes dead letters by their ids, and copies of compressed rows that no dead letter needs any more. Returns how many
-- were deleted. If a message was deleted or removed by retention, and this was its last dead letter, its remaining
-- copies are to be overwritten (queend.erasures). Locks the queues of the dead letters first (FOR NO KEY UPDATE).
-- Otherwise two sessions that delete the same dead letters in different orders could wait for each other in a circle.
-- Then locks their partitions (FOR SHARE, ascending): retention, which inserts into queend.erasures what has no dead
-- letter, is either seen here or comes later.
CREATE OR REPLACE FUNCTION queend.dead_delete(p_id bigint[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
DECLARE
    v_gone int;
    v_part int[];
    v_at   bigint[];
    v_all  int[];
    v_each bigint[];
BEGIN
    PERFORM FROM queend.queues q WHERE q.id IN (SELECT d.queue_id FROM queend.dead_letters d WHERE d.id = ANY (p_id))
      ORDER BY q.id FOR NO KEY UPDATE;
    PERFORM FROM queend.partitions p
      WHERE p.id IN (SELECT d.partition_id FROM queend.dead_letters d WHERE d.id = ANY (p_id))
      ORDER BY p.id FOR SHARE;
    WITH gone AS (
        DELETE FROM queend.dead_letters d WHERE d.id = ANY (p_id) RETURNING d.partition_id, d.record_offset, d.payload)
    SELECT count(*), array_agg(g.partition_id) FILTER (WHERE g.payload IS NULL),
           array_agg(g.record_offset) FILTER (WHERE g.payload IS NULL), array_agg(g.partition_id),
           array_agg(g.record_offset)
      INTO v_gone, v_part, v_at, v_all, v_each FROM gone g;
    INSERT INTO queend.erasures (partition_id, record_offset)
    SELECT DISTINCT u.part, u.at FROM unnest(v_all, v_each) AS u (part, at)
     WHERE (EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = u.part AND h.record_offset = u.at)
            OR u.at < (SELECT f.floor FROM queend.floors f WHERE f.partition_id = u.part))
       AND NOT EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = u.part AND d.record_offset = u.at)
    ON CONFLICT DO NOTHING;
    IF v_part IS NOT NULL THEN
        DELETE FROM queend.dead_bodies b
         WHERE (b.partition_id, b.base) IN (
            SELECT x.partition_id, x.base FROM unnest(v_part, v_at) AS u (part, at)
             CROSS JOIN LATERAL (SELECT y.* FROM queend.dead_bodies y WHERE y.partition_id = u.part AND y.base <= u.at
                                  ORDER BY y.base DESC LIMIT 1) AS x
             WHERE NOT EXISTS (SELECT FROM queend.dead_letters d
                                WHERE d.partition_id = x.partition_id AND d.record_offset >= x.base
                                  AND d.record_offset < x.base + x.n AND d.payload IS NULL));
    END IF;
    RETURN v_gone;
END $$;

-- Stores dead letters again, in the order they failed, and deletes them: the newest p_most that match the filters
-- (dead_find) and that SQL can read. Each is addressed to the group it was a dead letter of; a message moved by hand
-- goes to all groups. Does for callers that write SQL what control/routes/redrive does. Leaves dead letters that SQL
-- cannot read (of compressed rows, sealed ones) and those that another session has locked. Returns in unreadable how
-- many of the dead letters examined SQL could not read. Error 0A000: the queue is encrypted. Locks: the queue, the dead
-- letters, then what push_items takes.
CREATE OR REPLACE FUNCTION queend.dead_redrive(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint,
    p_error text, p_most int, OUT redriven int, OUT unreadable int)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_size  CONSTANT int := GREATEST(p_most, 1000);
    v_page  bigint[];
    v_found bigint[] := '{}';      -- dead letters that SQL can read
    v_skip  int := 0;
    v       record;
    s       record;
BEGIN
    redriven := 0;
    unreadable := 0;
    PERFORM 1 FROM queend.queues q WHERE q.id = p_queue FOR NO KEY UPDATE;
    LOOP
        v_page := ARRAY(SELECT f FROM queend.dead_find(p_queue, p_partition, p_group, p_from, p_to, v_size, v_skip,
                                                       p_error) AS f);
        SELECT unreadable + count(*) FILTER (WHERE NOT c.may AND c.readable < p_most - cardinality(v_found)),
               v_found || COALESCE(array_agg(c.id ORDER BY c.ord) FILTER (WHERE c.may), '{}') INTO unreadable, v_found
          FROM (SELECT u.id, u.ord, r.may, count(*) FILTER (WHERE r.may) OVER (ORDER BY u.ord) AS readable
                  FROM unnest(v_page) WITH ORDINALITY AS u (id, ord)
                 CROSS JOIN LATERAL (SELECT x.payload IS NOT NULL AND x.seal IS NULL AS may FROM queend.dead_letters x
                                      WHERE x.id = u.id OFFSET 0) AS r) AS c;
        EXIT WHEN cardinality(v_found) >= p_most OR cardinality(v_page) < v_size;
        v_skip := v_skip + v_size;
    END LOOP;
    WITH held AS MATERIALIZED (
        SELECT d.id FROM queend.dead_letters d WHERE d.id = ANY (v_found[1:p_most]) ORDER BY d.id
           FOR UPDATE SKIP LOCKED),
    dead AS MATERIALIZED (
        SELECT d.*, queend.id_make() AS made, x.record_id,
               row_number() OVER (ORDER BY d.failed_at, d.id) AS ord,
               CASE WHEN NOT d.from_all THEN d.group_name END AS only
          FROM queend.dead_show(ARRAY(SELECT h.id FROM held h)) AS d
          JOIN queend.dead_letters x ON x.id = d.id)
    SELECT array_agg(d.id ORDER BY d.ord) AS ids,
           array_agg(d.queue ORDER BY d.ord) AS queue,
           array_agg(d.partition ORDER BY d.ord) AS partition,
           array_agg(d.made::text ORDER BY d.ord) AS made,
           array_agg(d.payload ORDER BY d.ord) AS payload,
           array_agg(d.trace_id ORDER BY d.ord) AS trace,
           array_agg(d.producer_sub ORDER BY d.ord) AS producer,
           array_agg(queend.origin_headers(d.headers, d.transaction_id, d.queue, d.partition, d.record_offset)
                     ORDER BY d.ord) AS headers,
           array_agg(d.only ORDER BY d.ord) AS only,
           array_agg(d.partition_id ORDER BY d.ord) AS part,
           array_agg(d.record_id ORDER BY d.ord) AS record,
           array_agg(d.transaction_id ORDER BY d.ord) AS was,
           array_agg(d.group_name ORDER BY d.ord) AS grp
      INTO v FROM dead d;
    IF v.ids IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO queend.traces (partition_id, record_id, transaction_id, group_name, event_type, worker_id, data, names,
                               created_at)
    SELECT u.part, u.record, u.was, COALESCE(u.grp, ''), 'redriven', 'queend',
           json_build_object('transactionId', u.made, 'queue', u.queue, 'partition', u.partition), '{}', queend.now_us()
      FROM unnest(v.part, v.record, v.was, v.grp, v.made, v.queue, v.partition)
           AS u (part, record, was, grp, made, queue, partition);
    redriven := queend.dead_delete(v.ids);
    FOR s IN SELECT p.partition_id, p.record_offset, v.only[p.ord + 1] AS only
               FROM queend.push_items(v.queue, v.partition, v.made, v.payload, v.trace, v.producer, v.headers) AS p
              ORDER BY p.partition_id, p.record_offset LOOP
        IF s.only IS NOT NULL THEN
            PERFORM queend.address_add(s.partition_id, s.record_offset, s.record_offset, s.only);
        END IF;
    END LOOP;
END $$;

-- Returns headers with the origin of a dead letter's message. Headers that already name an origin stay as they are.
CREATE OR REPLACE FUNCTION queend.origin_headers(p_headers text, p_transaction text, p_queue text, p_partition text,
    p_offset bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN queend.origin_of(p_headers) IS NOT NULL THEN p_headers
                ELSE left(h.text, -1) || CASE WHEN length(h.text) > 2 THEN ',' ELSE '' END
                     || '"originTransactionId":' || to_json(p_transaction) || ',"originQueue":' || to_json(p_queue)
                     || ',"originPartition":' || to_json(p_partition) || ',"originOffset":' || p_offset || '}' END
      FROM (SELECT COALESCE(NULLIF(p_headers, ''), '{}') AS text) AS h
$$;
