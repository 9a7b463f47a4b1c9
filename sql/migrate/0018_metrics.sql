-- What daemons and queues did, in buckets of a minute: added to by each daemon for itself, so rows are few and short. Counts are of the
-- bucket. A daemon is a host and the port it serves.
CREATE TABLE queend.metric_queues (
    bucket        bigint NOT NULL,      -- where the minute begins, µs
    queue_id      int NOT NULL,
    port          int NOT NULL,
    worker        int NOT NULL,
    hostname      text NOT NULL,
    push_requests bigint NOT NULL,
    push_messages bigint NOT NULL,
    pop_requests  bigint NOT NULL,
    pop_messages  bigint NOT NULL,
    pop_empty     bigint NOT NULL,
    ack_requests  bigint NOT NULL,
    ack_done      bigint NOT NULL,
    ack_failed    bigint NOT NULL,
    transactions  bigint NOT NULL,
    lag_us        bigint NOT NULL,      -- summed over lag_n pops: age of the first message each delivered
    lag_n         bigint NOT NULL,
    lag_most_us   bigint NOT NULL,
    parked        bigint NOT NULL,      -- pops that waited, summed over `samples` moments
    samples       bigint NOT NULL,
    PRIMARY KEY (bucket, queue_id, hostname, port, worker)
);
CREATE INDEX metric_queues_by_queue ON queend.metric_queues (queue_id, bucket);

-- How many partitions a queue had, where that is another number than before.
CREATE TABLE queend.metric_partitions (
    bucket     bigint NOT NULL,
    queue_id   int NOT NULL,
    partitions bigint NOT NULL,
    PRIMARY KEY (queue_id, bucket)
);

CREATE TABLE queend.metric_workers (
    bucket        bigint NOT NULL,
    port          int NOT NULL,
    worker        int NOT NULL,
    pid           int NOT NULL,
    hostname      text NOT NULL,
    seen_at       bigint NOT NULL,
    counts        bigint[] NOT NULL,    -- service/metrics.py, COUNTS: of the bucket
    levels        jsonb NOT NULL,       -- name → [sum, samples, least, most, last]: what is measured again and again
    PRIMARY KEY (bucket, hostname, port, worker)
);

-- The same counts since the beginning, of all daemons together.
CREATE TABLE queend.metric_totals (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    counts bigint[] NOT NULL
);
INSERT INTO queend.metric_totals (counts) VALUES ('{}');
