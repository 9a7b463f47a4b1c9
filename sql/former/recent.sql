-- Finds new records, as daemons of edition 0 call it: without the rows that say where the next look begins.
CREATE OR REPLACE FUNCTION queend.recent(p_since bigint) RETURNS TABLE (partition_id int, queue_id int, head bigint)
LANGUAGE sql VOLATILE AS $$
    SELECT r.partition_id, r.queue_id, r.head FROM queend.recent(p_since, NULL) r WHERE r.partition_id > 0
$$;
