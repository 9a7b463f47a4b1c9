-- Pop for callers that write SQL: JSON in, JSON out, no daemon. Claims through queend.pop and takes its locks. SQL
-- cannot read compressed or sealed records, so a delivery ends before such a record.

-- Returns a number of a pop request: the default if the request has none, 1 if it has a smaller one. Error 22023: the
-- number is too large.
CREATE OR REPLACE FUNCTION queend.pop_bound(p_request jsonb, p_name text, p_default int, p_most int) RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (p_request->>p_name)::numeric > p_most THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('%s must be from 1 to %s: %s', p_name, p_most, p_request->>p_name);
    END IF;
    RETURN GREATEST(COALESCE((p_request->>p_name)::int, p_default), 1);
END $$;

-- Returns the result of one request of queen.pop_unified_batch_v4; reason says why it is empty. A pop without a
-- partition begins at a random partition of the queue and walks on in pages of 1000 until it has enough.
CREATE OR REPLACE FUNCTION queend.pop_request(p_request jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_name   text := NULLIF(p_request->>'partition_name', '');
    v_group  text := COALESCE(NULLIF(p_request->>'consumer_group', ''), '__QUEUE_MODE__');
    v_left   int := queend.pop_bound(p_request, 'batch_size', 10, 10000);
    v_parts  int := queend.pop_bound(p_request, 'max_partitions', 1, 1000);
    v_worker text := COALESCE(NULLIF(p_request->>'worker_id', ''), queend.id_make()::text);
    v_auto   boolean := COALESCE((p_request->>'auto_ack')::boolean, false);
    v_from   bigint := queend.moment_us(NULLIF(NULLIF(p_request->>'sub_from', ''), 'now'));
    v_page   int[];
    v_start  int := 0;
    v_after  int;
    v_round  int;
    v_part   int;
    v_status int := 0;
    v_held   boolean := false;      -- a lease of the group holds messages
    v_found  jsonb := '[]';
    v_taken  int[] := '{}';
    v_us     bigint;
    q        queend.queues;
    g        record;
    p        record;
BEGIN
    SELECT * INTO q FROM queend.queues x WHERE x.name = p_request->>'queue_name';
    IF v_name IS NOT NULL THEN
        SELECT x.id INTO v_part FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = v_name;
        IF v_part IS NULL THEN
            RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', 'partition_not_found', false)
                   || jsonb_build_object('reason',
                                         CASE WHEN q.id IS NULL THEN 'queue_not_found' ELSE 'partition_not_found' END);
        END IF;
    ELSIF q.id IS NULL THEN
        RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', 'no_available_partition', false)
               || '{"reason": "queue_not_found"}';
    END IF;
    IF COALESCE(NULLIF(p_request->>'sub_mode', ''), 'all') NOT IN ('all', 'from_beginning', 'new', 'new-only') THEN
        RAISE invalid_parameter_value USING MESSAGE = 'sub_mode must be all, new or new-only';
    END IF;
    SELECT r.group_id INTO g
      FROM queend.group_resolve(q.id, v_group,
                                CASE WHEN 'now' = p_request->>'sub_from' OR 'new-only' = p_request->>'sub_mode'
                                          THEN 'new' ELSE p_request->>'sub_mode' END,
                                v_from) AS r;
    IF queend.is_paused(q.id, g.group_id) THEN
        RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', 'paused', false) || '{"reason": "paused"}';
    END IF;
    v_us := COALESCE(NULLIF((p_request->>'lease_seconds')::int, 0), NULLIF(q.lease_time, 0), 60) * 1000000::bigint;
    IF v_part IS NOT NULL THEN
        SELECT * INTO p
          FROM queend.pop_partition(v_part, g.group_id, v_left, queend.lease_uuid(v_worker), v_us, v_auto);
        IF p.messages IS NULL THEN
            RETURN queend.pop_result(p_request, v_group, NULL, '{}',
                                     '[]', CASE p.status WHEN 2 THEN 'lease_held' WHEN 5 THEN 'unreadable' END,
                                     p.status = 3 AND q.window_buffer > 0)
                   || jsonb_build_object('reason', CASE p.status WHEN 2 THEN 'leased' WHEN 5 THEN 'unreadable'
                                                        ELSE 'empty' END);
        END IF;
        RETURN queend.pop_result(p_request, v_group, CASE WHEN NOT v_auto THEN v_worker END, ARRAY[v_part], p.messages,
                                 NULL, false);
    END IF;
    SELECT x.id INTO v_start FROM queend.partitions x
     WHERE x.queue_id = q.id
       AND x.id >= (SELECT min(y.id) + floor(random() * (max(y.id) - min(y.id) + 1))::int FROM queend.partitions y
                     WHERE y.queue_id = q.id) ORDER BY x.id LIMIT 1;
    FOR v_round IN 1 .. 2 LOOP      -- from v_start to the end, then from the beginning to v_start
        v_after := CASE WHEN v_round = 1 THEN COALESCE(v_start, 1) - 1 ELSE 0 END;
        LOOP
            SELECT array_agg(s.partition_id ORDER BY s.partition_id) FILTER (WHERE s.head >= 0
                    AND s.lease_until <= queend.now_us()),
                   max(s.partition_id) FILTER (WHERE s.head = -1),
                   v_held OR COALESCE(bool_or(s.lease_until > queend.now_us()), false) INTO v_page, v_after, v_held
              FROM queend.pop_scan(q.id, g.group_id, v_after, 1000) AS s;
            FOREACH v_part IN ARRAY COALESCE(v_page, '{}') LOOP
                CONTINUE WHEN v_round = 2 AND v_part >= v_start;
                SELECT * INTO p
                  FROM queend.pop_partition(v_part, g.group_id, v_left, queend.lease_uuid(v_worker), v_us, v_auto);
                v_status := GREATEST(v_status, p.status);
                IF p.messages IS NOT NULL THEN
                    v_taken := v_taken || v_part;
                    v_found := v_found || p.messages;
                    v_left := v_left - jsonb_array_length(p.messages);
                    IF v_left = 0 OR cardinality(v_taken) = v_parts THEN
                        RETURN queend.pop_result(p_request, v_group, CASE WHEN NOT v_auto THEN v_worker END, v_taken,
                                                 v_found, NULL, false);
                    END IF;
                END IF;
            END LOOP;
            EXIT WHEN v_after IS NULL OR v_round = 2 AND v_after >= v_start;
        END LOOP;
    END LOOP;
    IF v_taken = '{}' THEN
        RETURN queend.pop_result(p_request, v_group, NULL, '{}',
                                 '[]', CASE WHEN v_status = 5 THEN 'unreadable' ELSE 'no_available_partition' END,
                                 v_status = 3 AND q.window_buffer > 0)
               || jsonb_build_object('reason', CASE WHEN v_status = 5 THEN 'unreadable'
                                                    WHEN v_held OR v_status = 2 THEN 'leased' ELSE 'empty' END);
    END IF;
    RETURN queend.pop_result(p_request, v_group, CASE WHEN NOT v_auto THEN v_worker END, v_taken, v_found, NULL, false);
END $$;

-- Claims at most p_take records of a partition for a group and reads them, for a caller that speaks SQL. Column
-- messages: in order, in the form of queen.pop_unified_batch_v4; NULL if nothing was claimed. Then status says why: 0
-- empty, 2 leased, 3 not yet due, 5 SQL cannot read the next record. Such a record is compressed or sealed, and queend
-- delivers it over HTTP. A delivery ends before such a record. Parameter p_auto: acknowledges at once.
CREATE OR REPLACE FUNCTION queend.pop_partition(p_part int, p_group int, p_take int, p_lease uuid, p_lease_us bigint,
    p_auto boolean, OUT status int, OUT messages jsonb)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    none    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    c       record;
    v_count int;
    v_next  bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM queend.cursors x WHERE x.partition_id = p_part AND x.group_id = p_group)
       AND NOT queend.cursor_opened(p_part, p_group) THEN
        status := 2;
        RETURN;
    END IF;
    SELECT * INTO c FROM queend.pop_one(p_part, p_group, p_take, p_lease, p_lease_us);
    status := c.status;
    IF c.first IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*), max(r.record_offset) + 1, jsonb_agg(jsonb_build_object(
               'id', queend.message_id(r.stored_at, p_part, r.record_offset), 'transactionId', r.transaction_id,
               'traceId', r.trace_id, 'data', r.data, 'producerSub', r.producer_sub,
               'createdAt', queend.iso(r.stored_at), 'partitionId', queend.partition_uuid(p_part),
               'partition', (SELECT p.name FROM queend.partitions p WHERE p.id = p_part))
                                                   || COALESCE(r.origin, '{}')
                                                   ORDER BY r.record_offset)
      INTO v_count, v_next, messages
      FROM (SELECT x.*, bool_and(x.data IS NOT NULL) OVER (ORDER BY x.record_offset) AS readable
              FROM (SELECT y.*, queend.as_jsonb(y.payload) AS data
                      FROM queend.records(p_part, c.first, c.take) AS y) AS x) AS r
     WHERE r.readable;
    IF v_count = 0 THEN
        PERFORM queend.release(ARRAY[p_part], ARRAY[p_group], ARRAY[p_lease]);
        status := 5;
    ELSIF p_auto THEN
        UPDATE queend.cursors k
           SET committed = v_next - 1, lease_end = v_next - 1, lease_id = none, lease_until = 0, retries = 0,
               row_base = CASE WHEN EXISTS (SELECT FROM queend.log l WHERE l.partition_id = p_part AND l.base = v_next)
                                    THEN v_next ELSE queend.row_of(p_part, v_next - 1) END
         WHERE k.partition_id = p_part AND k.group_id = p_group;
    ELSIF v_next < c.first + c.take THEN
        UPDATE queend.cursors k SET lease_end = v_next - 1 WHERE k.partition_id = p_part AND k.group_id = p_group;
    END IF;
    PERFORM queend.leases_keep(ARRAY[p_lease], ARRAY[p_part], ARRAY[p_group], true);
END $$;

-- Creates the cursor of a group in a partition. Returns false if another transaction creates it and does not end within
-- 10 ms. A call in SQL holds cursors of other partitions in any order, so a longer wait could be a deadlock.
CREATE OR REPLACE FUNCTION queend.cursor_opened(p_part int, p_group int) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = 10 AS $$
BEGIN
    PERFORM queend.cursors_open(ARRAY[p_part], ARRAY[p_group], ARRAY[true]);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Claims at most p_take records of one partition for a group under a lease, by the options of its queue. Columns first
-- and take: the claimed records. They are NULL if nothing was claimed, and status says why, as in pop.
CREATE OR REPLACE FUNCTION queend.pop_one(p_part int, p_group int, p_take int, p_lease uuid, p_lease_us bigint,
    OUT status int, OUT first bigint, OUT take bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_paced int := (SELECT q.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id
                     WHERE p.id = p_part AND (q.group_rate_limit > 0 OR q.queue_rate_limit > 0));
    v_take  int := p_take;
BEGIN
    IF v_paced IS NOT NULL THEN
        v_take := queend.rates_reserve(v_paced, p_group, p_take);
        IF v_take = 0 THEN
            status := 3;
            RETURN;
        END IF;
    END IF;
    IF queend.conflates(p_group) THEN
        SELECT r.status, CASE WHEN r.status = 1 THEN r.first END, CASE WHEN r.status = 1 THEN r.take END
          INTO status, first, take
          FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id
          CROSS JOIN LATERAL queend.pop_newest(0, ARRAY[1], ARRAY[p_part], ARRAY[p_group], ARRAY[true], ARRAY[v_take],
                                        ARRAY[1], ARRAY[false], ARRAY[p_lease], ARRAY[p_lease_us],
                                        ARRAY[q.delayed_processing * 1000000::bigint],
                                        ARRAY[q.window_buffer * 1000000::bigint],
                                        ARRAY[CASE WHEN q.ttl_set THEN q.ttl ELSE 0 END * 1000000::bigint],
                                        ARRAY[queend.rate_us(q.rate_limit, q.rate_period)],
                                        ARRAY[queend.rate_burst(q.rate_limit, q.rate_burst,
                                                                q.rate_period)]) AS r
         WHERE p.id = p_part;
    ELSE
        SELECT max(r.status), min(r.first) FILTER (WHERE r.status = 1), sum(r.take) FILTER (WHERE r.status = 1)
          INTO status, first, take
          FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id
          CROSS JOIN LATERAL queend.pop(0, ARRAY[1], ARRAY[p_part], ARRAY[p_group], ARRAY[true], ARRAY[v_take],
                                        ARRAY[1], ARRAY[false], ARRAY[p_lease], ARRAY[p_lease_us],
                                        ARRAY[q.delayed_processing * 1000000::bigint],
                                        ARRAY[q.window_buffer * 1000000::bigint],
                                        ARRAY[CASE WHEN q.ttl_set THEN q.ttl ELSE 0 END * 1000000::bigint],
                                        ARRAY[queend.rate_us(q.rate_limit, q.rate_period)],
                                        ARRAY[queend.rate_burst(q.rate_limit, q.rate_burst,
                                                                q.rate_period)]) AS r
         WHERE p.id = p_part;
    END IF;
    IF v_paced IS NOT NULL THEN
        PERFORM queend.rates_return(v_paced, p_group, v_take - COALESCE(take, 0)::int);
    END IF;
END $$;

-- Returns the result of a pop in the reference server's shape. p_taken: the claimed partitions; the first one names the
-- answer.
CREATE OR REPLACE FUNCTION queend.pop_result(p_request jsonb, p_group text, p_lease text, p_taken int[],
    p_messages jsonb, p_error text, p_window boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_build_object(
        'success', p_taken <> '{}', 'queue', p_request->>'queue_name',
        'partition',
        COALESCE((SELECT p.name FROM queend.partitions p WHERE p.id = p_taken[1]),
                 NULLIF(p_request->>'partition_name', '')),
        'partitionId', queend.partition_uuid(p_taken[1]), 'leaseId', COALESCE(p_lease, ''), 'consumerGroup', p_group,
        'partitionsClaimed', cardinality(p_taken),
        'messages',
        (SELECT COALESCE(jsonb_agg(m.v
                                   || jsonb_build_object('leaseId', COALESCE(p_lease, ''), 'consumerGroup', p_group)
                                   ORDER BY m.ord), '[]')
           FROM jsonb_array_elements(p_messages) WITH ORDINALITY AS m (v, ord)))
        || CASE WHEN p_error IS NULL THEN '{}' ELSE jsonb_build_object('error', p_error) END
        || CASE WHEN p_window THEN '{"windowBufferActive": true}' ELSE '{}'::jsonb END;
END $$;
