-- How fast a partition is delivered to a group: so many messages in a period, and how many at once (0: as many as in a
-- period).
ALTER TABLE queend.queues ADD COLUMN rate_limit int NOT NULL DEFAULT 0,
                          ADD COLUMN rate_period int NOT NULL DEFAULT 1,
                          ADD COLUMN rate_burst int NOT NULL DEFAULT 0;
