-- The id of a queue's consumer group, making it at the first contact (group_within). No row: the queue does not exist.
-- Error QD409: the queue has as many as this session may make (names_bound).
CREATE OR REPLACE FUNCTION queend.group_resolve(p_queue int, p_name text, p_mode text, p_from bigint)
RETURNS TABLE (group_id int, start_at bigint, fresh boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_most CONSTANT int := queend.names_bound('group');
    r record;
BEGIN
    SELECT * INTO r FROM queend.group_within(p_queue, p_name, p_mode, p_from, v_most);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.group_id IS NULL THEN
        PERFORM queend.names_full('group', (SELECT q.name FROM queend.queues q WHERE q.id = p_queue), v_most);
    END IF;
    group_id := r.group_id;
    start_at := r.start_at;
    fresh := r.fresh;
    RETURN NEXT;
END $$;
