-- Ids of (queue, partition) names, making what is missing (resolve_within); ord is the 0-based place in the arrays.
-- Error QD409: there are as many as this session may make (names_bound).
CREATE OR REPLACE FUNCTION queend.resolve(p_queue text[], p_partition text[]) RETURNS TABLE (ord int, queue_id int, partition_id int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queues     CONSTANT int := queend.names_bound('queue');
    v_partitions CONSTANT int := queend.names_bound('partition');
    r record;
BEGIN
    FOR r IN SELECT * FROM queend.resolve_within(p_queue, p_partition, v_queues, v_partitions) LOOP
        IF r.refused = 1 THEN
            PERFORM queend.names_full('queue', NULL, v_queues);
        ELSIF r.refused = 2 THEN
            PERFORM queend.names_full('partition', p_queue[r.ord + 1], v_partitions);
        END IF;
        ord := r.ord;
        queue_id := r.queue_id;
        partition_id := r.partition_id;
        RETURN NEXT;
    END LOOP;
END $$;
