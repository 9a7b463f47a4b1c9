-- Deletes a queue with everything in it; false if there is none. Its partitions are unreachable at once, their rows are
-- left to queend.sweep.
CREATE OR REPLACE FUNCTION queend.queue_delete(p_queue text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_queue int;
BEGIN
    SELECT q.id INTO v_queue FROM queend.queues q WHERE q.name = p_queue FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO queend.graves (partition_id) SELECT p.id FROM queend.partitions p WHERE p.queue_id = v_queue;
    DELETE FROM queend.partitions p WHERE p.queue_id = v_queue;
    DELETE FROM queend.consumer_groups g WHERE g.queue_id = v_queue;
    DELETE FROM queend.dead_letters d WHERE d.queue_id = v_queue;
    DELETE FROM queend.queues q WHERE q.id = v_queue;
    PERFORM queend.catalog_raise();
    RETURN true;
END $$;
