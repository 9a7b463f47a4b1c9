-- Kept figures: what a page says of a queue or a group without visiting its partitions. All of it follows from log, floors and
-- cursors, so nothing is logged: after a crash, and on a standby that was promoted, the tables are empty and are filled anew.
-- function/stats_changed.sql finds what changed, function/stats_visit.sql brings it up to date.

-- One row per partition, as it was when it was visited last: what to take away from the sums before adding what is there now.
CREATE UNLOGGED TABLE queend.stat_partitions (
    floor        bigint NOT NULL,
    head         bigint NOT NULL,
    newest       bigint NOT NULL,    -- moment of the newest record, 0: none
    pending      bigint NOT NULL,    -- this and the next two: the largest over the groups; without a group all of it is pending
    processing   bigint NOT NULL,
    completed    bigint NOT NULL,
    consumed     bigint NOT NULL,    -- offsets behind the foremost group
    until        bigint NOT NULL,    -- when the first of its leases runs out, 0: none
    queue_id     int NOT NULL,
    partition_id int NOT NULL,
    PRIMARY KEY (queue_id, partition_id)
);
CREATE INDEX stat_partitions_by_lease ON queend.stat_partitions (until) WHERE until > 0;

CREATE UNLOGGED TABLE queend.stat_cursors (
    next         bigint NOT NULL,    -- first offset not consumed
    lag          bigint NOT NULL,
    leased       bigint NOT NULL,    -- records under delivery
    oldest       bigint NOT NULL,    -- moment of the oldest record not consumed, 0: none
    newest       bigint NOT NULL,    -- moment of the newest record
    group_id     int NOT NULL,
    partition_id int NOT NULL,
    consumed     boolean NOT NULL,   -- it consumed something
    PRIMARY KEY (group_id, partition_id)
);
CREATE INDEX stat_cursors_by_oldest ON queend.stat_cursors (group_id, oldest) WHERE lag > 0;
CREATE INDEX stat_cursors_by_newest ON queend.stat_cursors (group_id, newest) WHERE lag > 0;

CREATE UNLOGGED TABLE queend.stat_queues (
    queue_id    int PRIMARY KEY,
    epoch       int NOT NULL DEFAULT -1,   -- of the queue when all of its partitions were listed for a visit
    visit_after int,                       -- they are being visited, those up to this one were; NULL: through
    partitions  bigint NOT NULL DEFAULT 0,
    pushed      bigint NOT NULL DEFAULT 0, -- records since the beginning
    total       bigint NOT NULL DEFAULT 0, -- records stored
    pending     bigint NOT NULL DEFAULT 0,
    processing  bigint NOT NULL DEFAULT 0,
    completed   bigint NOT NULL DEFAULT 0,
    consumed    bigint NOT NULL DEFAULT 0,
    leased      bigint NOT NULL DEFAULT 0, -- partitions with a lease
    newest      bigint NOT NULL DEFAULT 0,
    dead        bigint NOT NULL DEFAULT 0  -- dead letters
);

CREATE UNLOGGED TABLE queend.stat_groups (
    group_id int PRIMARY KEY,
    queue_id int NOT NULL,
    members  bigint NOT NULL DEFAULT 0,    -- cursors
    lagging  bigint NOT NULL DEFAULT 0,    -- those with a lag
    lag      bigint NOT NULL DEFAULT 0,
    leases   bigint NOT NULL DEFAULT 0,
    leased   bigint NOT NULL DEFAULT 0,
    consumed bigint NOT NULL DEFAULT 0     -- cursors that consumed something
);

CREATE UNLOGGED TABLE queend.stats (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    since     bigint NOT NULL,       -- every change before it is in the figures
    looked_at bigint NOT NULL,
    full_at   bigint NOT NULL        -- when a visit of everything began last
);
