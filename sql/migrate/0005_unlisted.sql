-- From this offset on, ids that are not version 7 are not in late_ids: a daemon remembers them instead and vouches for new
-- ones (function/push.sql). Without a row, late_ids holds them all.
CREATE TABLE queend.unlisted (
    partition_id int PRIMARY KEY,
    since        bigint NOT NULL
) WITH (fillfactor = 50);
