-- Transactions for callers that write SQL: JSON in, JSON out; creates missing names. Applied by queend.transaction,
-- under its locks.

-- Runs one transaction of queen.execute_transaction_v2 and returns its answer. Every refusal is found before anything
-- is stored, and undoes the names that were created for it.
CREATE OR REPLACE FUNCTION queend.transaction_request(p_request jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ops     jsonb;              -- [{"type", "v"}]: one per item of a push, one per ack
    v_fault   int;                -- the first operation that refuses, from 1
    v_error   text;
    v_version bigint;
    v_names   record;             -- of the pushes: ord, queue, partition, transaction, payload, trace
    v_part    int[];
    k         record;             -- of the acks: arrays by row
    a         record;
BEGIN
    IF 'array' NOT IN (COALESCE(jsonb_typeof(p_request), ''), COALESCE(jsonb_typeof(p_request->'operations'), '')) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'operations array required';
    END IF;
    SELECT COALESCE(jsonb_agg(jsonb_build_object('type', o.v->'type', 'v', i.v) ORDER BY o.ord, i.ord), '[]') INTO v_ops
      FROM jsonb_array_elements(CASE jsonb_typeof(p_request) WHEN 'array' THEN p_request
                                     ELSE p_request->'operations' END) WITH ORDINALITY AS o (v, ord)
      CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN o.v->>'type' = 'push' AND jsonb_typeof(o.v->'items') = 'array'
                                                        THEN o.v->'items'
                                                   ELSE jsonb_build_array(o.v
                                                                          || CASE WHEN o.v ? 'payload'
                                                                                  OR NOT o.v ? 'data' THEN '{}'
                                                                                  ELSE jsonb_build_object('payload',
                                                                                          o.v->'data') END)
                                              END) WITH ORDINALITY AS i (v, ord);
    PERFORM queend.items_served((SELECT jsonb_agg(o.v->'v' ORDER BY o.ord)
                                   FROM jsonb_array_elements(v_ops) WITH ORDINALITY AS o (v, ord)
                                  WHERE o.v->>'type' = 'push'), false);
    PERFORM queend.members_checked((SELECT jsonb_agg(o.v->'v' ORDER BY o.ord)
                                      FROM jsonb_array_elements(v_ops) WITH ORDINALITY AS o (v, ord)
                                     WHERE o.v->>'type' = 'ack'),
                                   '{transactionId,partitionId,consumerGroup,leaseId,status,error,delayMs,cumulative,
                                     type}');
    SELECT o.ord::int,
           CASE WHEN o.v->>'type' = 'ack' THEN 'ACK operation failed: Unknown error'
                ELSE 'Unknown operation type: ' || COALESCE(o.v->>'type', 'null') END
      INTO v_fault, v_error
      FROM jsonb_array_elements(v_ops) WITH ORDINALITY AS o (v, ord)
     WHERE COALESCE(o.v->>'type', '') NOT IN ('push', 'ack')
        OR o.v->>'type' = 'ack'
        AND COALESCE(o.v->'v'->>'status', 'completed') NOT IN ('completed', 'success', 'failed', 'dlq')
     ORDER BY o.ord LIMIT 1;
    IF v_fault IS NOT NULL THEN
        RETURN queend.transaction_answer(v_ops, v_fault, v_error, '{}');
    END IF;
    SELECT array_agg(o.ord::int ORDER BY o.ord) AS ord, array_agg(o.v->'v'->>'queue' ORDER BY o.ord) AS queue,
           array_agg(COALESCE(o.v->'v'->>'partition', 'Default') ORDER BY o.ord) AS partition,
           array_agg(COALESCE(NULLIF(o.v->'v'->>'transactionId', ''), gen_random_uuid()::text)
                     ORDER BY o.ord) AS transaction,
           array_agg(COALESCE(o.v->'v'->'payload', '{}')::text ORDER BY o.ord) AS payload,
           array_agg(NULLIF(o.v->'v'->>'traceId', '')::uuid ORDER BY o.ord) AS trace
      INTO v_names FROM jsonb_array_elements(v_ops) WITH ORDINALITY AS o (v, ord) WHERE o.v->>'type' = 'push';
    PERFORM queend.item_check(u.q, u.p, u.t), queend.payload_check(u.v)
       FROM unnest(v_names.queue, v_names.partition, v_names.transaction, v_names.payload) AS u (q, p, t, v);

    FOR v_round IN 1 .. 10 LOOP
        BEGIN
            SELECT c.version INTO v_version FROM queend.catalog c;
            SELECT array_agg(r.partition_id ORDER BY r.ord) INTO v_part
              FROM queend.resolve(COALESCE(v_names.queue, '{}'), COALESCE(
                       queend.spread_places(v_names.queue, v_names.partition, v_names.transaction), '{}')) AS r;
            IF cardinality(v_part) IS DISTINCT FROM cardinality(v_names.queue) THEN
                RAISE SQLSTATE 'QT009';      -- a queue was deleted this moment
            ELSIF EXISTS (SELECT FROM queend.queues q WHERE q.name = ANY (v_names.queue) AND q.encryption_enabled) THEN
                RAISE feature_not_supported
                      USING MESSAGE = 'a queue is encrypted: SQL cannot seal what is pushed to it';
            END IF;
            SELECT * INTO a
              FROM queend.push_arrays(v_part, v_names.transaction, v_names.payload, v_names.trace, NULL, NULL,
                                      NULL);
            IF cardinality(a.copies) > 0 THEN
                v_fault := v_names.ord[a.copies[1]];
                RAISE SQLSTATE 'QT001';
            END IF;
            WITH ack AS MATERIALIZED (
                SELECT o.ord::int AS ord, p.id AS part,
                       p.id IS NULL AND queend.partition_removed(o.v->'v'->>'partitionId') AS gone,
                       (SELECT g.group_id
                          FROM queend.group_resolve(p.queue_id,
                                                    COALESCE(NULLIF(o.v->'v'->>'consumerGroup', ''), '__QUEUE_MODE__'),
                                                    'all', NULL) AS g) AS grp,
                       queend.lease_uuid(o.v->'v'->>'leaseId') AS lease,
                       queend.record_id(o.v->'v'->>'transactionId') AS rid, o.v->'v'->>'error' AS error,
                       CASE COALESCE(o.v->'v'->>'status', 'completed') WHEN 'failed' THEN 1 WHEN 'dlq' THEN 2
                            ELSE CASE WHEN o.v->'v'->'cumulative' = 'true' THEN 4 ELSE 0 END END AS status
                  FROM jsonb_array_elements(v_ops) WITH ORDINALITY AS o (v, ord)
                  LEFT JOIN queend.partitions p ON p.id = queend.partition_number(o.v->'v'->>'partitionId')
                 WHERE o.v->>'type' = 'ack'),
            placed AS MATERIALIZED (
                SELECT x.*, dense_rank() OVER (ORDER BY x.part, x.grp, x.lease) AS row,
                       row_number() OVER (PARTITION BY x.part, x.grp, x.lease ORDER BY x.ord) AS place
                  FROM ack x WHERE NOT x.gone),
            one AS MATERIALIZED (
                SELECT x.row, min(x.part) AS part, min(x.grp) AS grp, min(x.lease::text)::uuid AS lease,
                       count(*)::int AS n, string_agg(x.rid, '' ORDER BY x.ord) AS ids,
                       string_agg(set_byte(E'\\x00', 0, x.status), '' ORDER BY x.ord) AS status FROM placed x
                 GROUP BY x.row)
            SELECT array_agg(x.part ORDER BY x.row) AS part, array_agg(x.grp ORDER BY x.row) AS grp,
                   array_agg(x.lease ORDER BY x.row) AS lease, array_agg(x.n ORDER BY x.row) AS n,
                   array_agg(x.ids ORDER BY x.row) AS ids, array_agg(x.status ORDER BY x.row) AS status,
                   (SELECT min(y.ord) FROM ack y
                     WHERE NOT y.gone AND (y.part IS NULL OR y.grp IS NULL OR y.rid IS NULL)) AS unknown,
                   ARRAY(SELECT y.ord FROM ack y WHERE y.gone) AS gone,
                   (SELECT array_agg(y.row::int ORDER BY y.ord) FROM placed y) AS rows,
                   (SELECT array_agg(y.place::int ORDER BY y.ord) FROM placed y) AS places,
                   (SELECT array_agg(y.ord ORDER BY y.ord) FROM placed y) AS ord,
                   ARRAY(SELECT y.row::int - 1 FROM placed y WHERE y.error IS NOT NULL
                          ORDER BY y.row, y.place) AS f_row,
                   ARRAY(SELECT y.place::int - 1 FROM placed y WHERE y.error IS NOT NULL
                          ORDER BY y.row, y.place) AS f_idx,
                   ARRAY(SELECT y.error FROM placed y WHERE y.error IS NOT NULL ORDER BY y.row, y.place) AS f_error
              INTO k FROM one x;
            IF k.unknown IS NOT NULL THEN
                v_fault := k.unknown;
                v_error := 'ACK operation failed: Message not found';
                RAISE SQLSTATE 'QT001';
            END IF;
            WITH done AS MATERIALIZED (
                SELECT t.*
                  FROM queend.transaction(v_version, COALESCE(a.lanes, '{}'), COALESCE(a.parts, '{}'),
                                          COALESCE(a.skip, '{}'), COALESCE(a.n, '{}'), COALESCE(a.kind, '{}'),
                                          COALESCE(a.lo, '{}'), COALESCE(a.hi, '{}'), COALESCE(a.ids, '{}'),
                                          COALESCE(a.body, '{}'), COALESCE(a.meta, '{}'),
                                          COALESCE(k.part, '{}'), COALESCE(k.grp, '{}'), COALESCE(k.lease, '{}'),
                                          COALESCE(k.n, '{}'), COALESCE(k.ids, '{}'), COALESCE(k.status, '{}'), k.f_row,
                                          k.f_idx, k.f_error,
                                          ARRAY(SELECT COALESCE(queend.lease_uuid(r),
                                                                '00000000-0000-0000-0000-000000000000')
                                                  FROM jsonb_array_elements_text(
                              CASE WHEN jsonb_typeof(p_request->'requiredLeases') = 'array'
                                        THEN p_request->'requiredLeases' ELSE '[]' END) AS r), '{}', '{}') AS t),
            op AS (
                SELECT v_names.ord[a.items[c.before + i]] AS ord, c.part, d.base + i - 1 AS at, d.created_at,
                       NULL::int AS code, d.status = 1 AND d.dup_index = i - 1 AS duplicate,
                       d.created_at < 0 AS deleted
                  FROM (SELECT u.*, sum(u.n) OVER (ORDER BY u.ord) - u.n AS before
                          FROM unnest(a.parts, a.n) WITH ORDINALITY AS u (part, n, ord)) AS c
                  JOIN done d ON d.kind = 0 AND d.ord = c.ord - 1 CROSS JOIN LATERAL generate_series(1, c.n) AS i
                UNION ALL
                SELECT u.ord, k.part[u.row], NULL, NULL, get_byte(d.codes, u.place - 1), false, false
                  FROM unnest(k.ord, k.rows, k.places) AS u (ord, row, place)
                  JOIN done d ON d.kind = 1 AND d.ord = u.row - 1
                UNION ALL
                SELECT g.ord, NULL, NULL, NULL, 33, false, false FROM unnest(k.gone) AS g (ord))
            SELECT (SELECT array_agg(d.ord) FROM done d WHERE d.kind = 1 AND d.released) AS freed,
                   (SELECT min(d.ord) FROM done d) AS first, EXISTS (SELECT FROM done d WHERE d.kind = 2) AS dead,
                   (SELECT min(o.ord) FROM op o WHERE o.duplicate OR o.code & 88 > 0) AS fault,
                   (SELECT COALESCE(jsonb_object_agg(o.ord,
                                                     jsonb_build_object('code', o.code,
                                                                        'partitionId', queend.partition_uuid(o.part),
                                                                        'messageId',
                                                                        queend.message_id(o.created_at, o.part, o.at))),
                                    '{}') FROM op o) AS made,
                   (SELECT min(o.code) FROM op o
                     WHERE o.ord = (SELECT min(x.ord) FROM op x WHERE x.duplicate OR x.code & 88 > 0)) AS code,
                   (SELECT bool_or(o.deleted) FROM op o
                     WHERE o.ord = (SELECT min(x.ord) FROM op x WHERE x.duplicate OR x.code & 88 > 0)) AS deleted
              INTO a;
            IF a.first < 0 THEN
                RAISE SQLSTATE 'QT009';
            ELSIF a.fault IS NOT NULL OR a.dead THEN
                v_fault := COALESCE(a.fault, 0);
                v_error := CASE WHEN a.fault IS NULL THEN 'Invalid or expired lease'
                                WHEN a.deleted
                                     THEN 'duplicate_of_deleted: the message with this transactionId was deleted'
                                WHEN a.code & 8 > 0
                                     THEN 'ACK operation failed: Message not found'
                                WHEN a.code & 16 > 0 THEN 'ACK operation failed: Invalid or expired lease'
                                WHEN a.code & 64 > 0 THEN 'ACK operation failed: Message already committed' END;
                RAISE SQLSTATE 'QT001';
            END IF;
            PERFORM queend.lease_freed(array_agg(k.part[f + 1]), array_agg(k.grp[f + 1])) FROM unnest(a.freed) AS f;
            RETURN queend.transaction_answer((
                SELECT jsonb_agg(CASE WHEN n.id IS NULL THEN o.v
                                      ELSE jsonb_set(o.v, '{v,transactionId}', to_jsonb(n.id)) END ORDER BY o.ord)
                  FROM jsonb_array_elements(v_ops) WITH ORDINALITY AS o (v, ord)
                  LEFT JOIN unnest(v_names.ord, v_names.transaction) AS n (ord, id) ON n.ord = o.ord),
                NULL, NULL, a.made);
        EXCEPTION
            WHEN SQLSTATE 'QT001' THEN
                RETURN queend.transaction_answer(v_ops, v_fault, COALESCE(v_error,
                    'duplicate key value violates unique constraint "messages_partition_transaction_unique"'), '{}');
            WHEN SQLSTATE 'QT009' THEN
                NULL;
        END;
    END LOOP;
    RAISE object_in_use USING MESSAGE = 'the queues change faster than they can be looked up; try again';
END $$;

-- Returns the answer of a transaction in the reference server's shape. Parameter p_ops: the operations as
-- transaction_request flattens them. Parameter p_fault: number of the operation that refused it, from 1; 0: a required
-- lease; NULL: the transaction was done. Parameter p_made: the result of each operation, by number.
CREATE OR REPLACE FUNCTION queend.transaction_answer(p_ops jsonb, p_fault int, p_error text, p_made jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('transactionId', gen_random_uuid(), 'success', p_fault IS NULL,
                              'results', COALESCE(jsonb_agg(
               jsonb_build_object('index', o.ord - 1, 'type', o.v->'type', 'success', p_fault IS NULL,
                       'transactionId', o.v->'v'->'transactionId')
               || CASE WHEN o.v->>'type' = 'push'
                       THEN jsonb_build_object('messageId', m.v->'messageId', 'partitionId', m.v->'partitionId',
                                               'queueName', o.v->'v'->'queue')
                       ELSE jsonb_build_object('error',
                                               CASE WHEN o.ord = p_fault
                                                         THEN replace(p_error, 'ACK operation failed: ', '') END,
                                               'dlq', COALESCE((m.v->>'code')::int & 2 > 0, false)) END ORDER BY o.ord),
                                                  '[]'))
           || CASE WHEN p_fault IS NULL THEN '{}' ELSE jsonb_build_object('error', p_error) END
      FROM jsonb_array_elements(p_ops) WITH ORDINALITY AS o (v, ord)
      LEFT JOIN LATERAL (SELECT p_made->o.ord::text AS v) AS m ON true
     WHERE p_fault IS NULL OR o.ord < p_fault OR o.ord = p_fault AND o.v->>'type' IS DISTINCT FROM 'push'
$$;
