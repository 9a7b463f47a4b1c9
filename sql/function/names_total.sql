-- How many names of a kind (queue, partition, group) a queue has; 0: the database.
CREATE OR REPLACE FUNCTION queend.names_total(p_queue int, p_kind text) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT COALESCE(sum(c.n), 0) FROM queend.name_counts c WHERE c.queue_id = p_queue AND c.kind = p_kind
$$;
