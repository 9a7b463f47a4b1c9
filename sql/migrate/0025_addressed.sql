-- Records that are for one consumer group only: dead letters that came back. Runs of offsets of one partition that do not
-- overlap; the deliveries of other groups pass over them. The group's name, not its number: a group that was deleted and is
-- used again is still meant. A run goes with the records it is about.
CREATE TABLE queend.addressed (
    first_offset bigint NOT NULL,
    last_offset  bigint NOT NULL,
    partition_id int NOT NULL,
    group_name   text COLLATE "C" NOT NULL,
    PRIMARY KEY (partition_id, last_offset)
);
-- Whether the partition ever had such a record. A delivery reads the floor anyway, so that others do not look.
ALTER TABLE queend.floors ADD COLUMN addressed boolean NOT NULL DEFAULT false;
-- Whether the message was taken from all groups when it was moved here by hand: it comes back to all of them.
ALTER TABLE queend.dead_letters ADD COLUMN from_all boolean NOT NULL DEFAULT false;
UPDATE queend.dead_letters d SET from_all = true FROM queend.holes h WHERE h.partition_id = d.partition_id AND h.record_offset = d.record_offset;
