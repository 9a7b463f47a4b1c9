-- As daemons of edition 0 ask for it: without rows that tell where the next look is to begin.
CREATE OR REPLACE FUNCTION queend.recent(p_since bigint) RETURNS TABLE (partition_id int, queue_id int, head bigint)
LANGUAGE sql VOLATILE AS $$
    SELECT r.partition_id, r.queue_id, r.head FROM queend.recent(p_since, NULL) r WHERE r.partition_id > 0
$$;
