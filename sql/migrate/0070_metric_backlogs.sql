-- The backlog of a queue, recorded once a minute if it differs from the last one recorded. The row of queue 0 has the
-- sums of all queues. It is recorded in every minute in which the service looked, so it also says which minutes were
-- recorded.
CREATE TABLE queend.metric_backlogs (
    bucket     bigint NOT NULL,      -- where the minute begins, µs
    pending    bigint NOT NULL,
    processing bigint NOT NULL,
    queue_id   int NOT NULL,
    PRIMARY KEY (bucket, queue_id)
);
CREATE INDEX metric_backlogs_by_queue ON queend.metric_backlogs (queue_id, bucket);
