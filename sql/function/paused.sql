-- Paused queues and groups: their pops find nothing, everything else goes on. Owns queend.paused. Daemons learn of it
-- with the catalogue. Locks: the queue's row, the pause, the catalogue last.

-- Pauses a queue (p_group NULL) or one group of it, or ends that pause. Returns changed, same (no change was needed),
-- no_queue or no_group.
CREATE OR REPLACE FUNCTION queend.pause(p_queue text, p_group text, p_paused boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_queue int;
    v_group int := 0;
BEGIN
    SELECT q.id INTO v_queue FROM queend.queues q WHERE q.name = p_queue FOR NO KEY UPDATE;
    IF v_queue IS NULL THEN
        RETURN 'no_queue';
    END IF;
    IF p_group IS NOT NULL THEN
        SELECT g.id INTO v_group FROM queend.consumer_groups g WHERE g.queue_id = v_queue AND g.name = p_group;
        IF v_group IS NULL THEN
            RETURN 'no_group';
        END IF;
    END IF;
    IF p_paused THEN
        INSERT INTO queend.paused (queue_id, group_id, since) VALUES (v_queue, v_group, queend.now_us())
            ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM queend.paused p WHERE p.queue_id = v_queue AND p.group_id = v_group;
    END IF;
    IF NOT FOUND THEN
        RETURN 'same';
    END IF;
    PERFORM queend.catalog_raise();
    RETURN 'changed';
END $$;

-- Returns whether a group is paused, by itself or with its queue.
CREATE OR REPLACE FUNCTION queend.is_paused(p_queue int, p_group int) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM queend.paused p WHERE p.queue_id = p_queue AND p.group_id IN (0, p_group))
$$;
