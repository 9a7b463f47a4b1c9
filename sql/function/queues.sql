-- Queues: options, deletion, sizes. Owns queend.queues. Locks: the queue's row, then the rows that depend on it, the
-- catalogue last.

-- Creates a queue with its Default partition, or changes options of it (queue_options). Returns the answer of POST
-- /api/v1/configure. Options that p_options does not name stay as they are, and so do namespace and task if they are
-- NULL. An option that is null returns to its default. Unknown options are ignored; a value that does not fit its type
-- is an error. A ttl or retryDelay takes effect only if it was named; the default is only shown. If p_options has
-- `mode` "replace", all options that are not named return to their defaults. The mode "reset" also turns encryption
-- off, which otherwise only `encryption` = "off" does. Raises the catalogue version only if something changed. Error
-- QD409: there are as many queues as this session may create (names_bound).
CREATE OR REPLACE FUNCTION queend.configure(p_queue text, p_namespace text, p_task text, p_options jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    o     jsonb := COALESCE(p_options, '{}');
    was   queend.queues;
    q     queend.queues;
    part  int;
    every boolean := o->>'mode' IN ('replace', 'reset');
    made  boolean := NOT EXISTS (SELECT FROM queend.queues x WHERE x.name = p_queue);
BEGIN
    PERFORM queend.name_check('queue', p_queue), queend.name_check('namespace', p_namespace),
            queend.name_check('task', p_task);
    IF every THEN
        o := (SELECT jsonb_object_agg(d.name, NULL) FROM queend.queue_options() AS d) || o;
    END IF;
    PERFORM queend.queues_make(ARRAY[p_queue], ARRAY[''], ARRAY['']);
    SELECT * INTO was FROM queend.queues WHERE name = p_queue FOR NO KEY UPDATE;
    q := jsonb_populate_record(was, (
        SELECT jsonb_object_agg(d.col, CASE WHEN jsonb_typeof(o->d.name) = 'null' THEN d.otherwise
                                            WHEN d.name = 'retryBackoff' THEN queend.backoff_read(o->d.name)
                                            ELSE o->d.name END)
          FROM queend.queue_options() AS d WHERE o ? d.name));
    q.namespace := COALESCE(p_namespace, CASE WHEN every THEN '' ELSE was.namespace END);
    q.task := COALESCE(p_task, CASE WHEN every THEN '' ELSE was.task END);
    q.encryption_enabled := CASE WHEN o->>'encryption' IS NOT NULL THEN o->>'encryption' = 'on'
                                 WHEN (o->>'encryptionEnabled')::boolean THEN true
                                 ELSE was.encryption_enabled AND o->>'mode' IS DISTINCT FROM 'reset' END;
    q.asked := ARRAY(SELECT d.name FROM queend.queue_options() AS d
                      WHERE CASE WHEN o ? d.name THEN jsonb_typeof(o->d.name) <> 'null'
                                 ELSE d.name = ANY (was.asked) END)
               || CASE WHEN o ?| '{encryption,encryptionEnabled}' OR 'encryptionEnabled' = ANY (was.asked)
                            THEN ARRAY['encryptionEnabled'] ELSE '{}' END;
    q.retry_delay_set := 'retryDelay' = ANY (q.asked);
    q.ttl_set := 'ttl' = ANY (q.asked);
    SELECT r.partition_id INTO part FROM queend.resolve(ARRAY[p_queue], ARRAY['Default']) AS r;
    PERFORM queend.stats_mark(ARRAY[part]);      -- the partition may be new and without a message
    IF q IS DISTINCT FROM was THEN
        EXECUTE (SELECT format('UPDATE queend.queues SET %s WHERE id = ($1).id',
                               string_agg(format('%1$I = ($1).%1$I', n.key), ', '))
                   FROM jsonb_each(to_jsonb(q)) AS n WHERE n.value IS DISTINCT FROM to_jsonb(was)->n.key) USING q;
    END IF;
    IF made OR q IS DISTINCT FROM was THEN
        PERFORM queend.catalog_raise();      -- last: no transaction may wait while it holds the catalogue
    END IF;
    RETURN jsonb_build_object(
        'configured', true, 'queueId', queend.queue_uuid(q.id), 'partitionId', queend.partition_uuid(part),
        'queue', q.name, 'namespace', q.namespace, 'task', q.task,
        'options', (SELECT jsonb_object_agg(d.name, CASE WHEN d.name = 'retryBackoff'
                                                              THEN queend.backoff_show(q.retry_backoff)
                                                         ELSE to_jsonb(q)->d.col END)
                      FROM queend.queue_options() AS d WHERE d.shown OR d.name = ANY (q.asked))
                   || jsonb_build_object('encryptionEnabled', q.encryption_enabled));
END $$;

-- Refuses options with an invalid value: a number outside its range, or a flag that is not true or false. The error
-- texts are those of POST /api/v1/configure. null stands for any option's default. Error 22023.
CREATE OR REPLACE FUNCTION queend.options_checked(p_options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    o       record;
    v_given text;
BEGIN
    IF p_options->>'encryption' NOT IN ('on', 'off') THEN
        RAISE invalid_parameter_value USING MESSAGE = 'options.encryption must be "on" or "off"';
    END IF;
    FOR o IN SELECT d.name, d.low, d.high FROM queend.queue_options() AS d WHERE d.name <> 'retryBackoff'
             UNION ALL SELECT 'encryptionEnabled', NULL, NULL LOOP
        v_given := p_options->>o.name;
        CONTINUE WHEN v_given IS NULL;
        IF o.high IS NULL THEN
            IF v_given NOT IN ('true', 'false') THEN
                RAISE invalid_parameter_value USING MESSAGE = format('options.%s must be true or false', o.name);
            END IF;
        ELSIF (CASE WHEN v_given ~ '^-?[0-9]{1,18}$' THEN v_given::bigint NOT BETWEEN o.low AND o.high
                    ELSE true END) THEN
            RAISE invalid_parameter_value
                  USING MESSAGE = format('options.%s must be an integer from %s to %s', o.name, o.low, o.high);
        END IF;
    END LOOP;
END $$;

-- Creates missing queues with the given namespaces and tasks; existing queues stay as they are. Requires distinct
-- names. Error QD409: there are as many queues as this session may create (names_bound).
CREATE OR REPLACE FUNCTION queend.queues_make(p_name text[], p_namespace text[], p_task text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_most CONSTANT int := queend.names_bound('queue');
    v_new  int;
BEGIN
    v_new := (SELECT count(*) FROM unnest(p_name) AS u (name)
               WHERE NOT EXISTS (SELECT FROM queend.queues q WHERE q.name = u.name));
    IF v_new > 0 AND queend.names_room(0, 'queue', v_most, v_new) < v_new THEN
        PERFORM queend.names_full('queue', NULL, v_most);
    END IF;
    INSERT INTO queend.queues (id, name, namespace, task)
    SELECT u.id, u.name, u.namespace, u.task
      FROM unnest(p_name, p_namespace, p_task,
                  queend.queue_numbers(CASE WHEN v_new > 0 THEN cardinality(p_name) ELSE 0 END))
           AS u (name, namespace, task, id)
     WHERE v_new > 0 ORDER BY u.name
    ON CONFLICT DO NOTHING;
END $$;

-- Returns the option retryBackoff as it is stored: {"steps": [ms, …]} or {"initial", "multiplier", "max", "jitter"};
-- NULL for NULL. Parameter p_option is a list of 1 to 32 pauses in ms, or an object. The object is {"type":
-- "exponential", "initial": ms, "multiplier": 1 … 1000 (2), "max": ms (3600000), "jitter": 0 … 1 (0)}; defaults in
-- parentheses. Anything else is an error (invalid_parameter_value), worded for the person who configures.
CREATE OR REPLACE FUNCTION queend.backoff_read(p_option jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    longest CONSTANT bigint := 2147483647;
    o       jsonb;
BEGIN
    IF p_option IS NULL OR jsonb_typeof(p_option) = 'null' THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(p_option) = 'array' THEN
        IF jsonb_array_length(p_option) NOT BETWEEN 1 AND 32
           OR EXISTS (SELECT FROM jsonb_array_elements(p_option) AS e (ms)
                       WHERE CASE WHEN jsonb_typeof(e.ms) = 'number'
                                       THEN e.ms::numeric NOT BETWEEN 0 AND longest OR e.ms::numeric % 1 <> 0
                                  ELSE true END) THEN
            RAISE EXCEPTION 'retryBackoff must have 1 to 32 pauses, each a whole number of ms from 0 to %', longest
                  USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN jsonb_build_object('steps', p_option);
    END IF;
    IF jsonb_typeof(p_option) <> 'object' OR p_option->>'type' IS DISTINCT FROM 'exponential' THEN
        RAISE EXCEPTION 'retryBackoff must be a list of ms or an object of type exponential'
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    o := jsonb_build_object('multiplier', 2, 'max', 3600000, 'jitter', 0) || jsonb_strip_nulls(p_option);
    IF EXISTS (SELECT FROM (VALUES ('initial', 1, longest, true), ('max', 1, longest, true),
                            ('multiplier', 1, 1000, false), ('jitter', 0, 1, false)) AS v (name, lo, hi, whole)
                WHERE CASE WHEN jsonb_typeof(o->v.name) IS DISTINCT FROM 'number' THEN true
                           ELSE (o->>v.name)::numeric NOT BETWEEN v.lo AND v.hi OR v.whole
                                AND (o->>v.name)::numeric % 1 <> 0 END) THEN
        RAISE EXCEPTION 'retryBackoff needs initial and max, whole numbers of ms from 1 to %, '
              'multiplier from 1 to 1000 and jitter from 0 to 1', longest
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN jsonb_build_object('initial', o->'initial', 'multiplier', o->'multiplier', 'max', o->'max',
                              'jitter', o->'jitter');
END $$;

-- Returns the option retryBackoff as it was configured, with its defaults filled in.
CREATE OR REPLACE FUNCTION queend.backoff_show(p_backoff jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_backoff ? 'steps' THEN p_backoff->'steps'
                ELSE jsonb_build_object('type', 'exponential') || p_backoff END
$$;

-- Returns the effective values of a queue's options, by name. null: the option has no effect now. Then its value stands
-- for no bound, or another option takes precedence or disables it.
CREATE OR REPLACE FUNCTION queend.options_in_force(q queend.queues) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'leaseTime', COALESCE(NULLIF(q.lease_time, 0), 60), 'retryLimit', q.retry_limit,
        'deliveryLimit', NULLIF(q.delivery_limit, 0),
        'retryDelay', CASE WHEN q.retry_delay_set AND q.retry_backoff IS NULL THEN q.retry_delay END,
        'retryBackoff', CASE WHEN q.retry_backoff IS NOT NULL THEN queend.backoff_show(q.retry_backoff) END,
        'delayedProcessing', NULLIF(q.delayed_processing, 0), 'windowBuffer', NULLIF(q.window_buffer, 0),
        'maxSize', NULLIF(q.max_size, 0), 'ttl', CASE WHEN q.ttl_set THEN NULLIF(q.ttl, 0) END,
        'rateLimit', NULLIF(q.rate_limit, 0),
        'ratePeriod', CASE WHEN GREATEST(q.rate_limit, q.group_rate_limit, q.queue_rate_limit) > 0
                                THEN q.rate_period END,
        'rateBurst', CASE WHEN q.rate_limit > 0 THEN queend.rate_burst(q.rate_limit, q.rate_burst, q.rate_period) END,
        'groupRateLimit', NULLIF(q.group_rate_limit, 0),
        'groupRateBurst', CASE WHEN q.group_rate_limit > 0
                                    THEN COALESCE(NULLIF(q.group_rate_burst, 0), q.group_rate_limit) END,
        'queueRateLimit', NULLIF(q.queue_rate_limit, 0),
        'queueRateBurst', CASE WHEN q.queue_rate_limit > 0
                                    THEN COALESCE(NULLIF(q.queue_rate_burst, 0), q.queue_rate_limit) END,
        'ordered', q.ordered, 'spreadPartitions', CASE WHEN NOT q.ordered THEN q.spread_partitions END,
        'priority', q.priority, 'deadLetterQueue', true, 'dlqAfterMaxRetries', true,
        'retentionEnabled', q.retention_enabled,
        'retentionSeconds', CASE WHEN q.retention_enabled THEN NULLIF(q.retention_seconds, 0) END,
        'completedRetentionSeconds', CASE WHEN q.retention_enabled THEN NULLIF(q.completed_retention_seconds, 0) END,
        'maxWaitTimeSeconds', NULLIF(q.max_wait_time_seconds, 0), 'encryptionEnabled', q.encryption_enabled)
$$;

-- Deletes a queue with everything in it. Returns false if there is no such queue. The partitions are unreachable at
-- once; queend.sweep removes their rows.
CREATE OR REPLACE FUNCTION queend.queue_delete(p_queue text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_queue int;
BEGIN
    SELECT q.id INTO v_queue FROM queend.queues q WHERE q.name = p_queue FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO queend.graves (partition_id) SELECT p.id FROM queend.partitions p WHERE p.queue_id = v_queue;
    DELETE FROM queend.partitions p WHERE p.queue_id = v_queue;
    DELETE FROM queend.consumer_groups g WHERE g.queue_id = v_queue;
    DELETE FROM queend.dead_letters d WHERE d.queue_id = v_queue;
    DELETE FROM queend.paused p WHERE p.queue_id = v_queue;
    DELETE FROM queend.rates r WHERE r.queue_id = v_queue;
    DELETE FROM queend.queues q WHERE q.id = v_queue;
    PERFORM queend.catalog_raise();
    PERFORM queend.timers_drop(p_queue);
    RETURN true;
END $$;

-- Returns the sizes of queues and their bounds (max_size, 0: unlimited). A queue's size is the number of stored records
-- that some group has yet to consume. In a queue without groups every stored record counts. A group without a cursor in
-- a partition stands where its subscription begins. Computed from heads, floors and cursors: index probes per partition
-- and group, however many records there are. Deleted records count until the cursors have passed them, and expired
-- records (ttl) until retention has removed them.
CREATE OR REPLACE FUNCTION queend.queue_sizes(p_queue int[]) RETURNS TABLE (queue_id int, size bigint, max_size int)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.id, COALESCE((
        SELECT sum(GREATEST(t.head - GREATEST(t.floor, s.next), 0))::bigint
          FROM queend.partitions p
          CROSS JOIN LATERAL queend.log_end(p.id) AS t
          CROSS JOIN LATERAL (SELECT min(COALESCE(k.committed + 1,
                                                  CASE WHEN g.start_at IS NULL THEN 0
                                                       ELSE queend.offset_since(p.id, g.start_at) END)) AS next
                                FROM queend.consumer_groups g
                                LEFT JOIN LATERAL (SELECT x.committed FROM queend.cursors x
                                                    WHERE x.partition_id = p.id
                                                      AND x.group_id = g.id OFFSET 0) AS k ON true
                               WHERE g.queue_id = q.id) AS s
         WHERE p.queue_id = q.id), 0), q.max_size
      FROM (SELECT DISTINCT u.id FROM unnest(p_queue) AS u (id)) AS u
     CROSS JOIN LATERAL (SELECT x.id, x.max_size FROM queend.queues x WHERE x.id = u.id OFFSET 0) AS q;
END $$;
