-- Messages deleted out of a row. Deliveries pass over them; the row itself goes with retention, and the hole with it.
CREATE TABLE queend.holes (
    record_offset bigint NOT NULL,
    partition_id  int NOT NULL,
    PRIMARY KEY (partition_id, record_offset)
);
-- Whether there ever was one: deliveries of a database without holes do not look for any.
ALTER TABLE queend.catalog ADD COLUMN holes boolean NOT NULL DEFAULT false;
CREATE INDEX dead_letters_by_record ON queend.dead_letters (partition_id, record_offset);
CREATE INDEX dead_letters_by_time ON queend.dead_letters (failed_at, id);
