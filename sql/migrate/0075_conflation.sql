-- Groups that get only the newest record of each partition (sql/function/conflation.sql). Set when the group is made.
ALTER TABLE queend.consumer_groups ADD COLUMN conflates boolean NOT NULL DEFAULT false;
