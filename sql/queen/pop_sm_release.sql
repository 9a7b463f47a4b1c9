-- Pop, step by step: gives the lease back if it is still worker_id's.
CREATE OR REPLACE FUNCTION queen.pop_sm_release(partition_id uuid, consumer_group text, worker_id text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_part  int := queend.partition_id(pop_sm_release.partition_id);
    v_group int := (SELECT g.id FROM queend.partitions p JOIN queend.consumer_groups g ON g.queue_id = p.queue_id AND g.name = pop_sm_release.consumer_group WHERE p.id = v_part);
    v_done  boolean := COALESCE(queend.pop_sm_release(v_part, v_group, queend.lease_uuid(pop_sm_release.worker_id)), false);
BEGIN
    IF v_done THEN
        PERFORM queend.lease_freed(ARRAY[v_part], ARRAY[v_group]);
    END IF;
    RETURN v_done;
END $$;
