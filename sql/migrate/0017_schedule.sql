-- Records with a delivery moment (flag 8 of their extras), as runs: those from first_offset to last_offset have the same moment
-- and stand in one row of the log. Deliveries of a partition stop before the first run that is not due. A run goes with the
-- records it is about: retention counts from the moment.
CREATE TABLE queend.schedule (
    due          bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset  bigint NOT NULL,
    partition_id int NOT NULL,
    PRIMARY KEY (partition_id, first_offset)
);
CREATE INDEX schedule_by_due ON queend.schedule (due, partition_id);
-- Whether there ever was one: deliveries of a database without a schedule do not look at it.
ALTER TABLE queend.catalog ADD COLUMN scheduled boolean NOT NULL DEFAULT false;
