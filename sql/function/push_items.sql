-- Push for callers that write SQL: messages one by one, queues and partitions by name. In: items. Out: where each is
-- stored, or the older message. Owns nothing. Locks: those of resolve (names), then those of queend.push.

-- Stores messages that are given one by one, in their order per partition, and creates missing queues and partitions.
-- The daemon does not call this function but queend.push, which stores the messages here as well. Returns one row per
-- item (0-based ord). p_headers: as in the extras of a record (record_meta). p_due: delivery moments in µs; the array
-- is NULL if no item has one. Column duplicate: the partition already had the transaction id, from an older message or
-- an earlier item. Columns partition_id, record_offset and stored_at (µs, negative: that message was deleted) say where
-- and when that id is stored. Raises 0A000 if a queue is encrypted, which SQL cannot do. Requires checked names
-- (item_check).
--
-- Requires READ COMMITTED. The catalogue version reveals a name whose meaning changed during the wait for a lane; then
-- the name is looked up again. The caller should commit at once, because the lanes are held until the end of the
-- transaction.
CREATE OR REPLACE FUNCTION queend.push_items(p_queue text[], p_partition text[], p_transaction text[], p_payload text[],
    p_trace uuid[], p_producer text[], p_headers text[] DEFAULT NULL, p_due bigint[] DEFAULT NULL)
RETURNS TABLE (ord int, duplicate boolean, partition_id int, record_offset bigint, stored_at bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_part    int[];
    v_queue   int[];
    v_sealed  text;
    a         record;
BEGIN
    IF cardinality(p_queue) = 0 THEN
        RETURN;
    END IF;
    FOR v_round IN 1 .. 10 LOOP
        SELECT c.version INTO v_version FROM queend.catalog c;
        SELECT array_agg(r.partition_id ORDER BY r.ord), array_agg(DISTINCT r.queue_id) INTO v_part, v_queue
          FROM queend.resolve(p_queue, p_partition) AS r;
        CONTINUE WHEN cardinality(v_part) IS DISTINCT FROM cardinality(p_queue);      -- a queue was deleted this moment
        SELECT min(q.name) INTO v_sealed FROM queend.queues q WHERE q.id = ANY (v_queue) AND q.encryption_enabled;
        IF v_sealed IS NOT NULL THEN
            RAISE feature_not_supported
                  USING MESSAGE = format('queue "%s" is encrypted: SQL cannot seal what is pushed to it', v_sealed);
        END IF;
        SELECT * INTO a
          FROM queend.push_arrays(v_part, p_transaction, p_payload, p_trace, p_producer, p_headers, p_due);

        RETURN QUERY
        WITH stored AS MATERIALIZED (
            SELECT s.ord, s.base, s.created_at, s.dup_offset, s.dup_at
              FROM queend.push(v_version, a.lanes, a.parts, a.skip, a.n, a.kind, a.lo, a.hi, a.ids, a.body, a.meta) AS s
             WHERE p_due IS NULL AND s.ord >= 0
            UNION ALL
            SELECT s.ord, s.base, s.created_at, s.dup_offset, s.dup_at
              FROM queend.push_due(v_version, a.lanes, a.parts, a.skip, a.n, a.kind, a.lo, a.hi, a.ids, a.body,
                                   a.meta) AS s
             WHERE p_due IS NOT NULL AND s.ord >= 0),
        placed AS MATERIALIZED (
            SELECT a.items[c.before + k] AS ord, s.dup_offset[k] >= 0 AS duplicate, c.part,
                   CASE WHEN s.dup_offset[k] >= 0 THEN s.dup_offset[k]
                        ELSE s.base + k - 1 - (SELECT count(*) FROM unnest(s.dup_offset[1:k]) AS d
                                                WHERE d >= 0) END AS at,
                   CASE WHEN s.dup_offset[k] >= 0 THEN s.dup_at[k] ELSE s.created_at END AS stored_at
              FROM (SELECT u.*, sum(u.n) OVER (ORDER BY u.ord) - u.n AS before
                      FROM unnest(a.parts, a.n) WITH ORDINALITY AS u (part, n, ord)) AS c
              JOIN stored s ON s.ord = c.ord - 1
              CROSS JOIN LATERAL generate_series(1, c.n) AS k)
        SELECT p.ord - 1, COALESCE(p.duplicate, false), p.part, p.at, p.stored_at FROM placed p
        UNION ALL
        SELECT c.ord - 1, true, p.part, p.at, p.stored_at FROM unnest(a.copies, a.firsts) AS c (ord, first)
          JOIN placed p ON p.ord = c.first;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE object_in_use USING MESSAGE = 'the queues change faster than they can be looked up; try again';
END $$;

-- Returns the arrays of queend.push for messages that are given one by one. A batch row holds at most 1000 records and
-- about 64 KB of one partition. Items that repeat the partition and id of an earlier item are left out. Column items:
-- the kept items (from 1), in the order of the rows. Columns copies and firsts: each left-out item and the item that it
-- repeats. Column lanes: ascending.
CREATE OR REPLACE FUNCTION queend.push_arrays(p_part int[], p_transaction text[], p_payload text[], p_trace uuid[],
    p_producer text[], p_headers text[], p_due bigint[], OUT lanes int[], OUT parts int[], OUT skip int[], OUT n int[],
    OUT kind smallint[], OUT lo uuid[], OUT hi uuid[], OUT ids bytea[], OUT body bytea[], OUT meta bytea[],
    OUT items int[], OUT copies int[], OUT firsts int[])
LANGUAGE plpgsql IMMUTABLE AS $$
#variable_conflict use_column
BEGIN
    WITH item AS MATERIALIZED (
        SELECT u.ord::int AS ord, u.part, u.rid, convert_to(u.payload, 'UTF8') AS body,
               CASE WHEN u.trace IS NULL THEN 0 ELSE 1 END | CASE WHEN u.producer IS NULL THEN 0 ELSE 2 END
               | CASE WHEN u.transaction = encode(u.rid, 'hex')::uuid::text THEN 0 ELSE 4 END
               | CASE WHEN u.due IS NULL THEN 0 ELSE 8 END | CASE WHEN u.headers IS NULL THEN 0 ELSE 32 END AS flags,
               u.trace, u.producer, u.transaction, u.headers, u.due,
               first_value(u.ord::int) OVER (PARTITION BY u.part, u.rid ORDER BY u.ord) AS winner
          FROM (SELECT x.*, queend.record_id(x.transaction) AS rid
                  FROM unnest(p_part, p_transaction, p_payload, p_trace, p_producer, p_headers, p_due) WITH ORDINALITY
                       AS x (part, transaction, payload, trace, producer, headers, due, ord)) AS u),
    kept AS MATERIALIZED (
        SELECT i.*, row_number() OVER w - 1 AS place,
               (sum(octet_length(i.body) + COALESCE(octet_length(i.headers), 0)) OVER w
                - octet_length(i.body) - COALESCE(octet_length(i.headers), 0)) / 65536 AS span
          FROM item i WHERE i.winner = i.ord WINDOW w AS (PARTITION BY i.part ORDER BY i.ord)),
    chunk AS MATERIALIZED (
        SELECT k.part, min(k.place) AS skip, count(*) AS n, string_agg(k.rid, '' ORDER BY k.ord) AS ids,
               E'\\x10' || string_agg(queend.varint_bytes(octet_length(k.body)), '' ORDER BY k.ord)
                  || string_agg(k.body, '' ORDER BY k.ord) AS body,
               E'\\x10' || string_agg(queend.varint_bytes((k.place - k.base)::int) || set_byte(E'\\x00', 0, k.flags)
                                    || CASE WHEN k.flags & 1 = 0 THEN '' ELSE uuid_send(k.trace) END
                                    || CASE WHEN k.flags & 2 = 0 THEN ''
                                            ELSE queend.varint_bytes(octet_length(k.producer))
                                                || convert_to(k.producer, 'UTF8') END
                                    || CASE WHEN k.flags & 4 = 0 THEN ''
                                            ELSE queend.varint_bytes(octet_length(k.transaction))
                                                || convert_to(k.transaction, 'UTF8') END
                                    || CASE WHEN k.flags & 8 = 0 THEN ''
                                            ELSE queend.varint_bytes(8) || int8send(k.due) END
                                    || CASE WHEN k.flags & 32 = 0 THEN ''
                                            ELSE queend.varint_bytes(octet_length(k.headers))
                                                || convert_to(k.headers, 'UTF8') END,
                                    '' ORDER BY k.ord) FILTER (WHERE k.flags > 0) AS meta
          FROM (SELECT k.*, min(k.place) OVER (PARTITION BY k.part, k.place / 1000, k.span) AS base FROM kept k) AS k
         GROUP BY k.part, k.place / 1000, k.span),
    part AS MATERIALIZED (
        SELECT s.part, CASE WHEN s.sevens = s.n THEN 1 WHEN s.sevens = 0 THEN 2 ELSE 3 END AS kind, s.lo, s.hi
          FROM (SELECT k.part, count(*) AS n, count(*) FILTER (WHERE get_byte(k.rid, 6) >> 4 = 7) AS sevens,
                       (min(encode(k.rid, 'hex') COLLATE "C") FILTER (WHERE get_byte(k.rid, 6) >> 4 = 7))::uuid AS lo,
                       (max(encode(k.rid, 'hex') COLLATE "C") FILTER (WHERE get_byte(k.rid, 6) >> 4 = 7))::uuid AS hi
                  FROM kept k GROUP BY k.part) AS s)
    SELECT array_agg(c.part ORDER BY c.part, c.skip) AS parts, array_agg(c.skip::int ORDER BY c.part, c.skip) AS skip,
           array_agg(c.n::int ORDER BY c.part, c.skip) AS n,
           array_agg(p.kind::smallint ORDER BY c.part, c.skip) AS kind, array_agg(p.lo ORDER BY c.part, c.skip) AS lo,
           array_agg(p.hi ORDER BY c.part, c.skip) AS hi, array_agg(c.ids ORDER BY c.part, c.skip) AS ids,
           array_agg(c.body ORDER BY c.part, c.skip) AS body, array_agg(c.meta ORDER BY c.part, c.skip) AS meta,
           (SELECT array_agg(k.ord ORDER BY k.part, k.ord) FROM kept k) AS ord,
           (SELECT array_agg(i.ord ORDER BY i.ord) FROM item i WHERE i.winner <> i.ord) AS copy,
           (SELECT array_agg(i.winner ORDER BY i.ord) FROM item i WHERE i.winner <> i.ord) AS first
      INTO parts, skip, n, kind, lo, hi, ids, body, meta, items, copies, firsts
      FROM chunk c JOIN part p ON p.part = c.part;
    lanes := ARRAY(SELECT DISTINCT p & 63 AS lane FROM unnest(parts) AS p ORDER BY lane);
END $$;

-- Refuses names that no message can have, with the error texts of the HTTP routes (22023, invalid_parameter_value).
-- Names of queues and partitions have at most 255 bytes, a transaction id at most 255 characters. p_transaction NULL:
-- the push makes an id.
CREATE OR REPLACE FUNCTION queend.item_check(p_queue text, p_partition text, p_transaction text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_queue IS NULL OR p_queue = '' OR octet_length(p_queue) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'Queue must be a non-empty text of at most 255 bytes';
    ELSIF p_partition IS NULL OR octet_length(p_partition) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'Partition must be valid text of at most 255 bytes';
    ELSIF char_length(p_transaction) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'TransactionId must be valid text of at most 255 characters';
    END IF;
END $$;

-- Refuses a payload of more bytes than an HTTP request may have by default (54000, program_limit_exceeded). The relay
-- would need longer for a larger payload than a statement may take, and later messages would wait for it.
CREATE OR REPLACE FUNCTION queend.payload_check(p_payload text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(p_payload) > queend.payload_most() THEN
        RAISE program_limit_exceeded USING MESSAGE =
              format('A payload has at most %s bytes, and has %s', queend.payload_most(), octet_length(p_payload));
    END IF;
END $$;

-- Returns the largest payload in bytes that SQL may push.
CREATE OR REPLACE FUNCTION queend.payload_most() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 67108864';

-- Returns the headers of a message as the extras of its record hold them (record_meta). NULL: it has none. p_headers:
-- an object of texts, with at most 64 names of 1 to 256 bytes and 16384 bytes in all. A trace context among them is
-- that of the message. Error 22023.
CREATE OR REPLACE FUNCTION queend.headers_made(p_headers jsonb, p_traceparent text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_parent text := COALESCE(p_traceparent, p_headers->>'traceparent');
    v_state  text;
    v_own    jsonb;
    v        record;
BEGIN
    IF jsonb_typeof(p_headers) = 'null' OR p_headers IS NULL THEN
        p_headers := '{}';
    ELSIF jsonb_typeof(p_headers) <> 'object' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'headers must be an object of strings';
    END IF;
    SELECT count(*) AS n, count(*) FILTER (WHERE octet_length(h.name) NOT BETWEEN 1 AND 256) AS odd,
           min(h.name) FILTER (WHERE jsonb_typeof(h.value) <> 'string') AS wrong INTO v
      FROM jsonb_each(p_headers) AS h (name, value);
    v_state := p_headers->>'tracestate';
    IF v.wrong IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('header %s must be a string', left(v.wrong, 64));
    ELSIF v.odd > 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the name of a header must have 1 to 256 bytes';
    ELSIF v.n > 64 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'headers must have at most 64 names';
    ELSIF octet_length(p_headers::text) > 16384 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'headers must have at most 16384 bytes as JSON';
    ELSIF v_parent <> p_headers->>'traceparent' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'traceparent and the one in headers differ';
    ELSIF v_parent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?$' OR v_parent ~ '^(ff|00.{53}.)'
          OR length(v_parent) > 255 OR substr(v_parent, 4, 32) ~ '^0*$' OR substr(v_parent, 37, 16) ~ '^0*$'
          OR v_state IS NOT NULL AND v_parent IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'traceparent must be one of W3C trace context';
    ELSIF v_state !~ '^[ -~]+$' OR length(v_state) > 512 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'tracestate must be one of W3C trace context';
    END IF;
    v_own := p_headers - '{traceparent,tracestate}'::text[];
    RETURN '{' || NULLIF(concat_ws(',', '"traceparent":' || to_json(v_parent), '"tracestate":' || to_json(v_state),
                                   CASE WHEN v_own <> '{}' THEN '"headers":' || v_own::text END), '') || '}';
END $$;

-- Returns a delivery moment in µs; NULL if it is NULL or has passed. Error 22023 if it is more than 366 days away.
CREATE OR REPLACE FUNCTION queend.due_checked(p_at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_at > clock_timestamp() + interval '366 days' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'deliver_at must be at most 366 days away';
    END IF;
    RETURN CASE WHEN p_at > clock_timestamp() THEN (extract(epoch FROM p_at) * 1000000)::bigint END;
END $$;

-- Refuses items (a JSON array) if one has a member that SQL does not support, or a misspelled member (members_checked).
-- Dropping the member would store another message than its sender meant. p_headers: items may have headers and
-- traceparent. Error 22023.
CREATE OR REPLACE FUNCTION queend.items_served(p_items jsonb, p_headers boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v record;
BEGIN
    SELECT n.name, e.ord - 1 AS at INTO v
      FROM jsonb_array_elements(p_items) WITH ORDINALITY AS e (v, ord)
     CROSS JOIN unnest(ARRAY['headers', 'traceparent', 'ttl', 'priority', 'delayMs', 'deliverAt']) AS n (name)
     WHERE jsonb_typeof(e.v->n.name) <> 'null' AND (NOT p_headers OR n.name NOT IN ('headers', 'traceparent'))
     ORDER BY e.ord LIMIT 1;
    IF FOUND THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('%s is not supported in an item: %s (item %s)', v.name,
                                     CASE WHEN v.name NOT IN ('ttl', 'priority') THEN 'push it over HTTP'
                                          ELSE 'it is an option of the queue' END, v.at);
    END IF;
    PERFORM queend.members_checked(p_items, '{queue,partition,payload,data,transactionId,traceId,traceparent,
                                              tracestate,headers,producerSub,index,items,type,delayMs,deliverAt}');
END $$;
