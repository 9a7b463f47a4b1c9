-- Vacuum of the log has to be faster than its rows die, above all when a long snapshot has ended and what died meanwhile
-- goes at once. A delay of 1 ms every 2000 units of cost (every 200 on a server with the default limit) is a delay of several
-- where others want the processor. What vacuum takes without it is what it takes: a tenth of the deletion before it.
ALTER TABLE queend.log SET (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE queend.late_ids SET (autovacuum_vacuum_cost_delay = 0);
