-- Kept figures of namespaces and tasks, where there are many queues (function/stats_spaces.sql).
CREATE UNLOGGED TABLE queend.stat_spaces (
    kind       text COLLATE "C" NOT NULL,      -- namespace or task
    name       text COLLATE "C" NOT NULL,
    queues     bigint NOT NULL,
    partitions bigint NOT NULL,
    total      bigint NOT NULL,
    pending    bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
