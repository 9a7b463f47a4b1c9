-- Groups that get only the newest record of each partition (sql/function/conflation.sql). A group's flag is set when the
-- group is made. Its cursors say so too, from their first claim on: an acknowledgment reads the cursor in any case.
ALTER TABLE queend.consumer_groups ADD COLUMN conflates boolean NOT NULL DEFAULT false;
ALTER TABLE queend.cursors ADD COLUMN conflates boolean;
