-- pending and processing are each the largest over the groups, so a message may be in both: in the processing of one
-- group and in the pending of another. overlap: how many are. pending + processing - overlap is what the group that is
-- furthest behind has to consume. Rows get 0, which is what they counted until now, and a walk visits every partition.
ALTER TABLE queend.stat_partitions ADD COLUMN overlap bigint NOT NULL DEFAULT 0;
ALTER TABLE queend.stat_queues ADD COLUMN overlap bigint NOT NULL DEFAULT 0;
UPDATE queend.stat_queues
   SET visit_after = COALESCE(visit_after, 0), visit_stop = NULL, visit_rest = NULLIF(visit_after, 0);
