-- Which options of a queue somebody asked for, by their names in POST /api/v1/configure: what differs from the defaults was.
ALTER TABLE queend.queues ADD COLUMN asked text[] NOT NULL DEFAULT '{}';
UPDATE queend.queues SET asked = array_remove(ARRAY[
    CASE WHEN lease_time <> 300 THEN 'leaseTime' END, CASE WHEN retry_limit <> 3 THEN 'retryLimit' END, CASE WHEN retry_delay_set THEN 'retryDelay' END,
    CASE WHEN retry_backoff IS NOT NULL THEN 'retryBackoff' END, CASE WHEN delayed_processing <> 0 THEN 'delayedProcessing' END,
    CASE WHEN window_buffer <> 0 THEN 'windowBuffer' END, CASE WHEN max_size <> 0 THEN 'maxSize' END, CASE WHEN ttl_set THEN 'ttl' END,
    CASE WHEN priority <> 0 THEN 'priority' END, CASE WHEN dead_letter_queue THEN 'deadLetterQueue' END,
    CASE WHEN dlq_after_max_retries THEN 'dlqAfterMaxRetries' END, CASE WHEN retention_enabled THEN 'retentionEnabled' END,
    CASE WHEN retention_seconds <> 0 THEN 'retentionSeconds' END, CASE WHEN completed_retention_seconds <> 0 THEN 'completedRetentionSeconds' END,
    CASE WHEN max_wait_time_seconds <> 0 THEN 'maxWaitTimeSeconds' END, CASE WHEN encryption_enabled THEN 'encryptionEnabled' END], NULL);
