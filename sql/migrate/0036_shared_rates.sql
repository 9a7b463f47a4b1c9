-- Rates over all partitions of a queue: of each group, and of all groups together. The period is rate_period.
ALTER TABLE queend.queues ADD COLUMN group_rate_limit int NOT NULL DEFAULT 0,
                          ADD COLUMN group_rate_burst int NOT NULL DEFAULT 0,
                          ADD COLUMN queue_rate_limit int NOT NULL DEFAULT 0,
                          ADD COLUMN queue_rate_burst int NOT NULL DEFAULT 0;

-- Their buckets (sql/function/rates.sql): one row each, which daemons change some times a second while they deliver.
CREATE TABLE queend.rates (
    queue_id int NOT NULL,
    group_id int NOT NULL,      -- 0: of all groups together
    ready    numeric NOT NULL,  -- µs since 1970: one message may go from then on, one more each step later
    PRIMARY KEY (queue_id, group_id)
) WITH (fillfactor = 50);
