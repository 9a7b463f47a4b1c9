-- A moment that is indexed made every update of a kept partition a new entry in three indexes: 2 % of the updates were
-- HOT where partitions are claimed and acknowledged. Such a moment stands in stat_marks instead, whose rows are only
-- inserted and deleted. The index goes first: what is in work on these tables ends before rows are read.
DROP INDEX queend.stat_partitions_by_lease;
ALTER TABLE queend.stat_partitions SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

-- due: the moment from which a look visits the partition; 0: the next one. A lease that runs out has its end here.
ALTER TABLE queend.stat_marks ADD COLUMN due bigint NOT NULL DEFAULT 0;
ALTER TABLE queend.stat_marks SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1);
CREATE INDEX stat_marks_by_due ON queend.stat_marks (due);
INSERT INTO queend.stat_marks (partition_id, due)
SELECT s.partition_id, s.until FROM queend.stat_partitions s WHERE s.until > 0;
