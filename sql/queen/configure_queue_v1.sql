-- Makes a queue, or sets all its options anew: what is not named returns to its default. options: as of POST /api/v1/configure, and namespace, task.
CREATE OR REPLACE FUNCTION queen.configure_queue_v1(queue text, options jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queend.item_check(queue, 'Default', NULL);
    RETURN queend.configure(queue, options->>'namespace', options->>'task', options - ARRAY['namespace', 'task']);
END $$;
