-- How far `queend import-queen` has come: a row per partition of the other database, and one per queue, which is done when its dead letters
-- are there.
CREATE TABLE queend.imports (
    source_id    uuid PRIMARY KEY,     -- the partition there, or the queue
    partition_id int NOT NULL,         -- the partition here; of a queue its Default
    stored       bigint NOT NULL DEFAULT 0,
    last_at      timestamptz,          -- the last message that was taken over
    last_id      uuid,
    high         uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',    -- of the last row, as in the log
    odd          boolean NOT NULL DEFAULT false,
    done         boolean NOT NULL DEFAULT false
);
CREATE INDEX imports_by_partition ON queend.imports (partition_id);
