-- What stream clients have read of the state of a partition, so that a cycle without an acknowledgement can be bound to
-- it (sql/function/stream_reads.sql). One row for each set of keys that a read has found.
CREATE TABLE queend.stream_reads (
    found_at     bigint[] NOT NULL,  -- moments of the reads that no cycle has answered, ascending, at most 32
    seen         bigint[] NOT NULL,  -- for each of them the newest updated_at of the rows it found, 0 = none
    last_at      bigint NOT NULL,    -- of the newest read, answered or not
    query_id     int NOT NULL,
    partition_id bigint NOT NULL,
    keyset       bigint NOT NULL,    -- hash of the keys, in their order
    ripe         boolean NOT NULL,   -- the read asked for windows that have ended
    keys         bigint[],           -- hash of each key; NULL = more than 256, taken for every key
    PRIMARY KEY (query_id, partition_id, ripe, keyset)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Windows that a cycle without an acknowledgement has closed while a lease was live, until that lease is given back.
CREATE TABLE queend.stream_flushes (
    query_id     int NOT NULL,
    partition_id bigint NOT NULL,
    lease_id     uuid NOT NULL,
    flushed_at   bigint NOT NULL,
    keys         bigint[] NOT NULL   -- hash of each key
);
CREATE INDEX stream_flushes_place ON queend.stream_flushes (query_id, partition_id);
