-- Kept figures that hold for every shape: of groups in partitions where they have no cursor, of queues without groups,
-- and since when messages wait. Everything in these tables can be made again, so they are emptied: no row is rewritten
-- under a lock.
TRUNCATE queend.stats, queend.stat_partitions, queend.stat_cursors, queend.stat_queues, queend.stat_groups;

-- total: messages stored, without those that were deleted. unread: since when the first message of the partition waits,
-- where its queue has no group; 0: the queue has one, or the partition is empty.
ALTER TABLE queend.stat_partitions ADD COLUMN total bigint NOT NULL, ADD COLUMN unread bigint NOT NULL;
CREATE INDEX stat_partitions_by_unread ON queend.stat_partitions (queue_id, unread) WHERE unread > 0;

-- One row per (group, partition) where the group has a cursor, or messages to consume. oldest: the moment from which
-- the first of these messages could be delivered, 0: none. Later than now: the message is not due.
DROP INDEX queend.stat_cursors_by_oldest, queend.stat_cursors_by_newest;
ALTER TABLE queend.stat_cursors DROP COLUMN newest, ADD COLUMN has_cursor boolean NOT NULL;
CREATE INDEX stat_cursors_by_oldest ON queend.stat_cursors (group_id, oldest) WHERE oldest > 0;

-- waiting: partitions in which some group has messages to consume. stored: partitions with messages. delayed:
-- delayedProcessing when the last walk began. visit_stop: the partition at which a walk ends (NULL: the last one).
-- visit_rest: the partition up to which another walk follows (NULL: none follows).
ALTER TABLE queend.stat_queues
    ADD COLUMN waiting bigint NOT NULL DEFAULT 0, ADD COLUMN stored bigint NOT NULL DEFAULT 0,
    ADD COLUMN delayed int NOT NULL DEFAULT 0, ADD COLUMN visit_stop int, ADD COLUMN visit_rest int;

-- listed: a walk through the queue began after the group was made. consumed_at: its last claim or acknowledgment, 0:
-- none.
ALTER TABLE queend.stat_groups
    ADD COLUMN listed boolean NOT NULL DEFAULT false, ADD COLUMN consumed_at bigint NOT NULL DEFAULT 0;

-- Partitions whose figures changed without a new record, claim or acknowledgment: the next look visits them. A row for
-- each change, so that no transaction waits for another one.
CREATE UNLOGGED TABLE queend.stat_marks (
    partition_id int NOT NULL
);
CREATE INDEX stat_marks_by_partition ON queend.stat_marks (partition_id);
