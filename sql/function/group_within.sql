-- The id of a queue's consumer group, making it at the first contact where the queue has less than p_most (NULL: no bound); its first
-- subscription stays (first writer wins).
--   p_mode 'new': from now on, unless p_from gives a moment (µs); anything else: from the oldest record.
-- The queue mode's group has no subscription, and is made in any case. No row: the queue does not exist. group_id NULL: too many groups.
CREATE OR REPLACE FUNCTION queend.group_within(p_queue int, p_name text, p_mode text, p_from bigint, p_most int)
RETURNS TABLE (group_id int, start_at bigint, fresh boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT g.id, g.start_at, false FROM queend.consumer_groups g WHERE g.queue_id = p_queue AND g.name = p_name;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM queend.queues q WHERE q.id = p_queue FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_name <> '__QUEUE_MODE__' AND queend.names_room(p_queue, 'group', p_most, 1) < 1 THEN
        RETURN QUERY SELECT NULL::int, NULL::bigint, false;
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO queend.consumer_groups (queue_id, name, mode, start_at)
    SELECT p_queue, p_name, CASE WHEN s.start IS NULL THEN 'all' WHEN p_from IS NULL THEN 'new' ELSE 'timestamp' END, s.start
      FROM (SELECT CASE WHEN p_name = '__QUEUE_MODE__' THEN NULL WHEN p_from IS NOT NULL THEN p_from
                        WHEN p_mode = 'new' THEN queend.now_us() END AS start) AS s
    ON CONFLICT DO NOTHING
    RETURNING id, start_at, true;
    IF NOT FOUND THEN      -- somebody else made it first
        RETURN QUERY SELECT g.id, g.start_at, false FROM queend.consumer_groups g WHERE g.queue_id = p_queue AND g.name = p_name;
    END IF;
END $$;
