-- The options of a queue: made by tools/options.py of queend/control/options.py, the one place to change.

-- Each option but encryptionEnabled, which has rules of its own (configure): its column of queend.queues, its default,
-- and whether configure answers it though it was not asked for.
CREATE OR REPLACE FUNCTION queend.queue_options() RETURNS TABLE (name text, col text, otherwise jsonb, shown boolean)
LANGUAGE sql IMMUTABLE AS $$
    SELECT v.name, v.col, v.otherwise::jsonb, v.shown FROM (VALUES
        ('leaseTime', 'lease_time', '300', true),
        ('retryLimit', 'retry_limit', '3', true),
        ('deliveryLimit', 'delivery_limit', '20', false),
        ('retryDelay', 'retry_delay', '1000', true),
        ('retryBackoff', 'retry_backoff', 'null', false),
        ('delayedProcessing', 'delayed_processing', '0', true),
        ('windowBuffer', 'window_buffer', '0', true),
        ('maxSize', 'max_size', '0', true),
        ('ttl', 'ttl', '3600', true),
        ('rateLimit', 'rate_limit', '0', false),
        ('ratePeriod', 'rate_period', '1', false),
        ('rateBurst', 'rate_burst', '0', false),
        ('groupRateLimit', 'group_rate_limit', '0', false),
        ('groupRateBurst', 'group_rate_burst', '0', false),
        ('queueRateLimit', 'queue_rate_limit', '0', false),
        ('queueRateBurst', 'queue_rate_burst', '0', false),
        ('priority', 'priority', '0', true),
        ('deadLetterQueue', 'dead_letter_queue', 'false', true),
        ('dlqAfterMaxRetries', 'dlq_after_max_retries', 'false', true),
        ('retentionEnabled', 'retention_enabled', 'false', true),
        ('retentionSeconds', 'retention_seconds', '0', true),
        ('completedRetentionSeconds', 'completed_retention_seconds', '0', true),
        ('maxWaitTimeSeconds', 'max_wait_time_seconds', '0', true)) AS v (name, col, otherwise, shown)
$$;
