-- Makes a queue, or changes options of one: what is not named stays, null returns to the default. options: as of POST /api/v1/configure, and
-- namespace, task, mode.
CREATE OR REPLACE FUNCTION queen.configure_queue_v1(queue text, options jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queend.item_check(queue, 'Default', NULL);
    RETURN queend.configure(queue, options->>'namespace', options->>'task', options - ARRAY['namespace', 'task']);
END $$;
