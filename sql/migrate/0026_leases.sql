-- Which cursors a lease is of, where its id does not say so: a lease of several partitions, and one that was named by a SQL program
-- or by a daemon of an older version. Written with the claim, removed in the background when no cursor has the lease any more.
-- No key: a name may be used for several claims.
CREATE TABLE queend.leases (
    lease_id      uuid NOT NULL,
    group_id      int NOT NULL,
    partition_ids int[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX leases_by_id ON queend.leases (lease_id);
-- Those that are out now.
INSERT INTO queend.leases (lease_id, group_id, partition_ids)
SELECT k.lease_id, k.group_id, array_agg(k.partition_id) FROM queend.cursors k
 WHERE k.lease_until > 0 AND k.lease_id <> '00000000-0000-0000-0000-000000000000' GROUP BY k.lease_id, k.group_id;
