-- Queues and groups whose pops find nothing until somebody resumes them (sql/function/paused.sql). Few, and changed by
-- hand.
CREATE TABLE queend.paused (
    queue_id int NOT NULL,
    group_id int NOT NULL,      -- 0: every group of the queue
    since    bigint NOT NULL,
    PRIMARY KEY (queue_id, group_id)
);
