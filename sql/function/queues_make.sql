-- Makes the queues that are missing, with these namespaces and tasks; those that are there stay as they are. No name twice.
-- Error QD409: there are as many as this session may make (names_bound).
CREATE OR REPLACE FUNCTION queend.queues_make(p_name text[], p_namespace text[], p_task text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_most CONSTANT int := queend.names_bound('queue');
    v_new  int;
BEGIN
    v_new := (SELECT count(*) FROM unnest(p_name) AS u (name) WHERE NOT EXISTS (SELECT FROM queend.queues q WHERE q.name = u.name));
    IF v_new > 0 AND queend.names_room(0, 'queue', v_most, v_new) < v_new THEN
        PERFORM queend.names_full('queue', NULL, v_most);
    END IF;
    INSERT INTO queend.queues (name, namespace, task)
    SELECT u.name, u.namespace, u.task FROM unnest(p_name, p_namespace, p_task) AS u (name, namespace, task) WHERE v_new > 0 ORDER BY u.name
    ON CONFLICT DO NOTHING;
END $$;
