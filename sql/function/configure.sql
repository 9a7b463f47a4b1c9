-- Creates a queue with its Default partition, or changes options of it. What p_options does not name stays as it is, and so do
-- namespace and task where they are NULL; an option that is null returns to its default. Unknown options are ignored; a value that
-- does not fit its type is an error. `mode` among the options: "replace" returns all that is not named to its default, "reset" also
-- turns encryption off, which otherwise only `encryption` = "off" does. A ttl or retryDelay that is named counts, the default is shown
-- only. Returns the answer of POST /api/v1/configure. Says so to the daemons only if something really changed.
-- Error QD409: there are as many queues as this session may make (names_bound).
CREATE OR REPLACE FUNCTION queend.configure(p_queue text, p_namespace text, p_task text, p_options jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    names CONSTANT text[] := '{leaseTime,retryLimit,retryDelay,retryBackoff,delayedProcessing,windowBuffer,maxSize,ttl,priority,deadLetterQueue,dlqAfterMaxRetries,retentionEnabled,retentionSeconds,completedRetentionSeconds,maxWaitTimeSeconds,deliveryLimit}';
    o     jsonb := COALESCE(p_options, '{}');
    was   queend.queues;
    q     queend.queues;
    part  int;
    every boolean := o->>'mode' IN ('replace', 'reset');
BEGIN
    IF every THEN
        o := (SELECT jsonb_object_agg(n.name, NULL) FROM unnest(names) AS n (name)) || o;
    END IF;
    PERFORM queend.queues_make(ARRAY[p_queue], ARRAY[''], ARRAY['']);
    SELECT * INTO was FROM queend.queues WHERE name = p_queue FOR NO KEY UPDATE;
    UPDATE queend.queues AS x SET
        namespace = COALESCE(p_namespace, CASE WHEN every THEN '' ELSE x.namespace END), task = COALESCE(p_task, CASE WHEN every THEN '' ELSE x.task END),
        lease_time = CASE WHEN o ? 'leaseTime' THEN COALESCE((o->>'leaseTime')::int, 300) ELSE x.lease_time END,
        retry_limit = CASE WHEN o ? 'retryLimit' THEN COALESCE((o->>'retryLimit')::int, 3) ELSE x.retry_limit END,
        retry_delay = CASE WHEN o ? 'retryDelay' THEN COALESCE((o->>'retryDelay')::int, 1000) ELSE x.retry_delay END,
        retry_delay_set = CASE WHEN o ? 'retryDelay' THEN o->>'retryDelay' IS NOT NULL ELSE x.retry_delay_set END,
        retry_backoff = CASE WHEN o ? 'retryBackoff' THEN queend.backoff_read(o->'retryBackoff') ELSE x.retry_backoff END,
        delayed_processing = CASE WHEN o ? 'delayedProcessing' THEN COALESCE((o->>'delayedProcessing')::int, 0) ELSE x.delayed_processing END,
        window_buffer = CASE WHEN o ? 'windowBuffer' THEN COALESCE((o->>'windowBuffer')::int, 0) ELSE x.window_buffer END,
        max_size = CASE WHEN o ? 'maxSize' THEN COALESCE((o->>'maxSize')::int, 0) ELSE x.max_size END,
        ttl = CASE WHEN o ? 'ttl' THEN COALESCE((o->>'ttl')::int, 3600) ELSE x.ttl END,
        ttl_set = CASE WHEN o ? 'ttl' THEN o->>'ttl' IS NOT NULL ELSE x.ttl_set END,
        priority = CASE WHEN o ? 'priority' THEN COALESCE((o->>'priority')::int, 0) ELSE x.priority END,
        dead_letter_queue = CASE WHEN o ? 'deadLetterQueue' THEN COALESCE((o->>'deadLetterQueue')::boolean, false) ELSE x.dead_letter_queue END,
        dlq_after_max_retries = CASE WHEN o ? 'dlqAfterMaxRetries' THEN COALESCE((o->>'dlqAfterMaxRetries')::boolean, false) ELSE x.dlq_after_max_retries END,
        retention_enabled = CASE WHEN o ? 'retentionEnabled' THEN COALESCE((o->>'retentionEnabled')::boolean, false) ELSE x.retention_enabled END,
        retention_seconds = CASE WHEN o ? 'retentionSeconds' THEN COALESCE((o->>'retentionSeconds')::int, 0) ELSE x.retention_seconds END,
        completed_retention_seconds = CASE WHEN o ? 'completedRetentionSeconds' THEN COALESCE((o->>'completedRetentionSeconds')::int, 0)
                                           ELSE x.completed_retention_seconds END,
        max_wait_time_seconds = CASE WHEN o ? 'maxWaitTimeSeconds' THEN COALESCE((o->>'maxWaitTimeSeconds')::int, 0) ELSE x.max_wait_time_seconds END,
        delivery_limit = CASE WHEN o ? 'deliveryLimit' THEN COALESCE((o->>'deliveryLimit')::int, 20) ELSE x.delivery_limit END,
        encryption_enabled = CASE WHEN o->>'encryption' IS NOT NULL THEN o->>'encryption' = 'on' WHEN (o->>'encryptionEnabled')::boolean THEN true
                                  ELSE x.encryption_enabled AND o->>'mode' IS DISTINCT FROM 'reset' END,
        asked = ARRAY(SELECT n.name FROM unnest(names) AS n (name)
                       WHERE CASE WHEN o ? n.name THEN jsonb_typeof(o->n.name) <> 'null' ELSE n.name = ANY (x.asked) END)
                || CASE WHEN o ?| '{encryption,encryptionEnabled}' OR 'encryptionEnabled' = ANY (x.asked) THEN ARRAY['encryptionEnabled'] ELSE '{}' END
     WHERE x.id = was.id RETURNING * INTO q;
    SELECT r.partition_id INTO part FROM queend.resolve(ARRAY[p_queue], ARRAY['Default']) AS r;
    IF q IS DISTINCT FROM was THEN      -- last: nobody may wait for anything while holding the catalogue
        PERFORM queend.catalog_raise();
    END IF;
    RETURN jsonb_build_object(
        'configured', true, 'queueId', queend.queue_uuid(q.id), 'partitionId', queend.partition_uuid(part),
        'queue', q.name, 'namespace', q.namespace, 'task', q.task,
        'options', jsonb_build_object(
            'leaseTime', q.lease_time, 'retryLimit', q.retry_limit, 'retryDelay', q.retry_delay, 'priority', q.priority,
            'delayedProcessing', q.delayed_processing, 'windowBuffer', q.window_buffer, 'maxSize', q.max_size, 'ttl', q.ttl,
            'deadLetterQueue', q.dead_letter_queue, 'dlqAfterMaxRetries', q.dlq_after_max_retries,
            'retentionEnabled', q.retention_enabled, 'retentionSeconds', q.retention_seconds,
            'completedRetentionSeconds', q.completed_retention_seconds, 'maxWaitTimeSeconds', q.max_wait_time_seconds,
            'encryptionEnabled', q.encryption_enabled)
            || CASE WHEN 'deliveryLimit' = ANY (q.asked) THEN jsonb_build_object('deliveryLimit', q.delivery_limit) ELSE '{}' END
            || CASE WHEN q.retry_backoff IS NULL THEN '{}' ELSE jsonb_build_object('retryBackoff', queend.backoff_show(q.retry_backoff)) END);
END $$;
