-- Bodies that are compressed cannot be unpacked here. The dead letters of such a row have no payload of their own: the
-- row's body is kept once for all of them, and queend unpacks it (record = record_offset - base).
ALTER TABLE queend.dead_letters ALTER COLUMN payload DROP NOT NULL;
CREATE TABLE queend.dead_bodies (
    partition_id int NOT NULL,
    base         bigint NOT NULL,
    n            int NOT NULL,
    body         bytea NOT NULL,
    PRIMARY KEY (partition_id, base)
);
