-- Deletes a queue with everything in it: {deleted, queue, existed}.
CREATE OR REPLACE FUNCTION queen.delete_queue_v1(queue text) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('deleted', true, 'queue', queue, 'existed', queend.queue_delete(queue))
$$;
