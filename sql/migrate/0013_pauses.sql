-- What a failed batch waits for before it comes again. retryDelay counts where it was configured; a queue that was never told keeps
-- the default for show and delivers at once. retryBackoff: {"steps": [ms, …]} or {"initial": ms, "multiplier": x, "max": ms, "jitter": 0..1}.
ALTER TABLE queend.queues ADD COLUMN retry_delay_set boolean NOT NULL DEFAULT false, ADD COLUMN retry_backoff jsonb;
-- Cursors that pause, by the end of the pause: how daemons learn of pauses that others made. Written when a batch fails, never by what succeeds.
CREATE TABLE queend.pauses (
    ends_at      bigint NOT NULL,
    partition_id int NOT NULL,
    group_id     int NOT NULL,
    PRIMARY KEY (partition_id, group_id)
) WITH (fillfactor = 50);
CREATE INDEX pauses_by_end ON queend.pauses (ends_at, partition_id);
