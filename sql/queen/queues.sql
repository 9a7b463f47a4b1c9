-- Queues with their options; seconds, retry_delay milliseconds. DELETE removes a queue with everything in it; queen.configure_queue_v1 makes
-- one or sets its options.
CREATE OR REPLACE VIEW queen.queues AS
SELECT queend.queue_uuid(q.id) AS id, q.name, q.namespace, q.task, q.priority, q.lease_time, q.retry_limit, q.retry_delay, q.ttl, q.dead_letter_queue, q.dlq_after_max_retries,
       q.delayed_processing, q.window_buffer, q.retention_seconds, q.completed_retention_seconds, q.retention_enabled, q.encryption_enabled, q.max_wait_time_seconds,
       q.max_size AS max_queue_size, q.created_at
  FROM queend.queues q;
CREATE OR REPLACE FUNCTION queen.queues_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN queend.queue_delete(OLD.name) THEN OLD END;
END $$;
CREATE OR REPLACE TRIGGER deleted INSTEAD OF DELETE ON queen.queues FOR EACH ROW EXECUTE FUNCTION queen.queues_deleted();
