-- Vacuum where rows come and go for ever.
-- vacuum_truncate: giving empty pages at the end of a table back to the file system takes an ACCESS EXCLUSIVE lock, and every
-- push waits for it; the next rows need those pages anyway.
-- log: retention deletes from the left of every partition. Dead rows are a fifth of what is live at most before somebody looks.
-- floors and late_ids: as cursors and log, which they follow.
ALTER TABLE queend.log SET (vacuum_truncate = off, toast.vacuum_truncate = off, toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 1);
ALTER TABLE queend.cursors SET (vacuum_truncate = off);
ALTER TABLE queend.late_ids SET (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE queend.floors SET (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
