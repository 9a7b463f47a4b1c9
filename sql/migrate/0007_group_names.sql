-- A dead letter outlives its consumer group: when the group is deleted, its name stays here.
ALTER TABLE queend.dead_letters ADD COLUMN group_name text;
-- Groups by name alone, over all queues.
CREATE INDEX consumer_groups_by_name ON queend.consumer_groups (name);
