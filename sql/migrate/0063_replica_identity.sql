-- Beside a publication FOR ALL TABLES the server refuses to delete or change rows of a table that has neither a primary
-- key nor a replica identity. The whole row is the identity of these; it costs WAL only where wal_level is logical.
ALTER TABLE queend.leases REPLICA IDENTITY FULL;
ALTER TABLE queend.stream_flushes REPLICA IDENTITY FULL;
