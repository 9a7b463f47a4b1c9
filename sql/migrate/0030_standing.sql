-- Partitions that stand: of a group whose lease ran out and left its first message. The cursor says whether there is a row (NULL: none),
-- so that no delivery of the others looks.
ALTER TABLE queend.queues ADD COLUMN delivery_limit int NOT NULL DEFAULT 20;
ALTER TABLE queend.cursors ADD COLUMN standing boolean;
CREATE TABLE queend.standing (
    since        bigint NOT NULL,     -- when the first of the leases was taken (µs)
    taken        bigint NOT NULL,     -- when the one that was counted last was
    first        bigint NOT NULL,     -- the message that was left each time
    upto         bigint NOT NULL,     -- the last one under such a lease: until then deliveries stay narrow
    partition_id int NOT NULL,
    group_id     int NOT NULL,
    lapses       int NOT NULL,        -- leases in a row that left it
    width        int,                 -- records of the next delivery, at most (NULL: no bound)
    PRIMARY KEY (partition_id, group_id)
);
