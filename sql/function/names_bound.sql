-- How many queues, partitions of a queue or groups of a queue (p_kind: queue, partition, group) this session may make there be; NULL:
-- as many as it likes. A daemon sets it for what its clients ask of the control plane; the data plane gives its bounds with each call.
-- For programs: ALTER ROLE … SET queend.max_queues = 1000.
CREATE OR REPLACE FUNCTION queend.names_bound(p_kind text) RETURNS int
LANGUAGE sql STABLE AS $$
    SELECT NULLIF(NULLIF(current_setting('queend.max_' || p_kind || 's', true), '')::int, 0)
$$;
