-- Numbers of queues, partitions and groups are given again after all others were given (function/numbers.sql).
ALTER SEQUENCE queend.queues_id_seq CYCLE;
ALTER SEQUENCE queend.partitions_id_seq CYCLE;
ALTER SEQUENCE queend.consumer_groups_id_seq CYCLE;
ALTER SEQUENCE queend.stream_queries_id_seq CYCLE;
-- A few rows per queue: rewritten in less than a second for 10^5 queues.
ALTER TABLE queend.name_counts ALTER COLUMN id TYPE bigint;
