-- The options of a queue: made by tools/options.py of queend/control/options.py, the one place to change.

-- Each option but encryptionEnabled, which has rules of its own (configure): its column of queend.queues, its default,
-- whether configure answers it though it was not asked for, and of a whole number the least and the most.
CREATE OR REPLACE FUNCTION queend.queue_options()
RETURNS TABLE (name text, col text, otherwise jsonb, shown boolean, low int, high int)
LANGUAGE sql IMMUTABLE AS $$
    SELECT v.name, v.col, v.otherwise::jsonb, v.shown, v.low, v.high FROM (VALUES
        ('leaseTime', 'lease_time', '300', true, 0, 2147483647),
        ('retryLimit', 'retry_limit', '3', true, 0, 2147483647),
        ('deliveryLimit', 'delivery_limit', '20', false, 0, 2147483647),
        ('retryDelay', 'retry_delay', '1000', true, 0, 2147483647),
        ('retryBackoff', 'retry_backoff', 'null', false, NULL, NULL),
        ('delayedProcessing', 'delayed_processing', '0', true, 0, 2147483647),
        ('windowBuffer', 'window_buffer', '0', true, 0, 2147483647),
        ('maxSize', 'max_size', '0', true, 0, 2147483647),
        ('ttl', 'ttl', '3600', true, 0, 2147483647),
        ('rateLimit', 'rate_limit', '0', false, 0, 1000000),
        ('ratePeriod', 'rate_period', '1', false, 1, 31622400),
        ('rateBurst', 'rate_burst', '0', false, 0, 1000000),
        ('groupRateLimit', 'group_rate_limit', '0', false, 0, 1000000),
        ('groupRateBurst', 'group_rate_burst', '0', false, 0, 1000000),
        ('queueRateLimit', 'queue_rate_limit', '0', false, 0, 1000000),
        ('queueRateBurst', 'queue_rate_burst', '0', false, 0, 1000000),
        ('ordered', 'ordered', 'true', false, NULL, NULL),
        ('spreadPartitions', 'spread_partitions', '64', false, 1, 1024),
        ('priority', 'priority', '0', true, -1000000, 1000000),
        ('deadLetterQueue', 'dead_letter_queue', 'false', true, NULL, NULL),
        ('dlqAfterMaxRetries', 'dlq_after_max_retries', 'false', true, NULL, NULL),
        ('retentionEnabled', 'retention_enabled', 'false', true, NULL, NULL),
        ('retentionSeconds', 'retention_seconds', '0', true, 0, 2147483647),
        ('completedRetentionSeconds', 'completed_retention_seconds', '0', true, 0, 2147483647),
        ('maxWaitTimeSeconds', 'max_wait_time_seconds', '0', true, 0, 2147483647))
        AS v (name, col, otherwise, shown, low, high)
$$;
