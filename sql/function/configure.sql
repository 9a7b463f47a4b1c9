-- Creates a queue with its Default partition, or sets all its options anew: what p_options does not name returns to its
-- default. Unknown options are ignored; a value that does not fit its type is an error. A ttl that is named counts, the default is
-- shown only. Returns the answer of POST /api/v1/configure. Says so to the daemons only if something really changed.
CREATE OR REPLACE FUNCTION queend.configure(p_queue text, p_namespace text, p_task text, p_options jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    o    jsonb := COALESCE(p_options, '{}');
    was  queend.queues;
    q    queend.queues;
    part int;
BEGIN
    INSERT INTO queend.queues (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    SELECT * INTO was FROM queend.queues WHERE name = p_queue FOR NO KEY UPDATE;
    UPDATE queend.queues SET
        namespace = COALESCE(p_namespace, ''), task = COALESCE(p_task, ''),
        lease_time = COALESCE((o->>'leaseTime')::int, 300),
        retry_limit = COALESCE((o->>'retryLimit')::int, 3),
        retry_delay = COALESCE((o->>'retryDelay')::int, 1000), retry_delay_set = o->>'retryDelay' IS NOT NULL,
        retry_backoff = queend.backoff_read(o->'retryBackoff'),
        delayed_processing = COALESCE((o->>'delayedProcessing')::int, 0),
        window_buffer = COALESCE((o->>'windowBuffer')::int, 0),
        max_size = COALESCE((o->>'maxSize')::int, 0),
        ttl = COALESCE((o->>'ttl')::int, 3600), ttl_set = o->>'ttl' IS NOT NULL,
        priority = COALESCE((o->>'priority')::int, 0),
        dead_letter_queue = COALESCE((o->>'deadLetterQueue')::boolean, false),
        dlq_after_max_retries = COALESCE((o->>'dlqAfterMaxRetries')::boolean, false),
        retention_enabled = COALESCE((o->>'retentionEnabled')::boolean, false),
        retention_seconds = COALESCE((o->>'retentionSeconds')::int, 0),
        completed_retention_seconds = COALESCE((o->>'completedRetentionSeconds')::int, 0),
        max_wait_time_seconds = COALESCE((o->>'maxWaitTimeSeconds')::int, 0),
        encryption_enabled = COALESCE((o->>'encryptionEnabled')::boolean, false)
     WHERE id = was.id RETURNING * INTO q;
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
            || CASE WHEN q.retry_backoff IS NULL THEN '{}' ELSE jsonb_build_object('retryBackoff', queend.backoff_show(q.retry_backoff)) END);
END $$;
