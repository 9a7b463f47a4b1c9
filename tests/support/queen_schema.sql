-- The tables of a Queen MQ 0.15 database that hold what is worth moving.
CREATE SCHEMA queen;
CREATE TABLE queen.queues (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name varchar(255) NOT NULL UNIQUE, namespace varchar(255), task varchar(255),
    priority int DEFAULT 0, lease_time int DEFAULT 300, retry_limit int DEFAULT 3, retry_delay int DEFAULT 1000, ttl int DEFAULT 3600,
    dead_letter_queue boolean DEFAULT false, dlq_after_max_retries boolean DEFAULT false, delayed_processing int DEFAULT 0, window_buffer int DEFAULT 0,
    retention_seconds int DEFAULT 0, completed_retention_seconds int DEFAULT 0, retention_enabled boolean DEFAULT false, encryption_enabled boolean DEFAULT false,
    max_wait_time_seconds int DEFAULT 0, max_queue_size int DEFAULT 0, created_at timestamptz DEFAULT now());
CREATE TABLE queen.partitions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), queue_id uuid REFERENCES queen.queues ON DELETE CASCADE, name varchar(255) NOT NULL DEFAULT 'Default',
    created_at timestamptz DEFAULT now(), last_activity timestamptz DEFAULT now(), UNIQUE (queue_id, name));
CREATE TABLE queen.messages (
    id uuid PRIMARY KEY, transaction_id varchar(255) NOT NULL, trace_id uuid DEFAULT gen_random_uuid(), partition_id uuid REFERENCES queen.partitions ON DELETE CASCADE,
    payload jsonb NOT NULL, created_at timestamptz DEFAULT now(), is_encrypted boolean DEFAULT false, producer_sub text);
CREATE UNIQUE INDEX messages_partition_transaction_unique ON queen.messages (partition_id, transaction_id);
CREATE INDEX idx_messages_partition_created ON queen.messages (partition_id, created_at, id);
CREATE TABLE queen.partition_consumers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), partition_id uuid REFERENCES queen.partitions ON DELETE CASCADE,
    consumer_group varchar(255) NOT NULL DEFAULT '__QUEUE_MODE__', last_consumed_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    last_consumed_created_at timestamptz, total_messages_consumed bigint DEFAULT 0, total_batches_consumed bigint DEFAULT 0, last_consumed_at timestamptz,
    lease_expires_at timestamptz, lease_acquired_at timestamptz, worker_id varchar(255), message_batch jsonb, batch_size int DEFAULT 0, acked_count int DEFAULT 0,
    batch_retry_count int DEFAULT 0, pending_estimate bigint, last_stats_update timestamptz, created_at timestamptz DEFAULT now(), UNIQUE (partition_id, consumer_group));
CREATE TABLE queen.consumer_groups_metadata (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), consumer_group text NOT NULL, queue_name text NOT NULL DEFAULT '', partition_name text NOT NULL DEFAULT '',
    namespace text NOT NULL DEFAULT '', task text NOT NULL DEFAULT '', subscription_mode text NOT NULL, subscription_timestamp timestamptz NOT NULL,
    created_at timestamptz DEFAULT now(), UNIQUE (consumer_group, queue_name, partition_name, namespace, task));
CREATE TABLE queen.dead_letter_queue (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), message_id uuid REFERENCES queen.messages ON DELETE CASCADE, partition_id uuid REFERENCES queen.partitions ON DELETE CASCADE,
    consumer_group varchar(255), error_message text, retry_count int DEFAULT 0, original_created_at timestamptz, failed_at timestamptz DEFAULT now());
