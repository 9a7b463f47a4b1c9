-- Moves one message into the dead letters of a consumer group: it is kept there and nobody is given it any more. NULL: there is
-- no such message; false: it is among them already.
CREATE OR REPLACE FUNCTION queend.message_bury(p_part int, p_id bytea, p_group text, p_error text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_at    bigint := queend.message_find(p_part, p_id);
    v_queue int := (SELECT p.queue_id FROM queend.partitions p WHERE p.id = p_part);
BEGIN
    IF v_at IS NULL THEN
        RETURN CASE WHEN EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = p_part AND d.record_id = p_id) THEN false END;
    END IF;
    PERFORM queend.dead_letter(p_part, (SELECT g.group_id FROM queend.group_resolve(v_queue, p_group, 'all', NULL) AS g), ARRAY[v_at], ARRAY[p_error], 0);
    UPDATE queend.dead_letters d SET from_all = true      -- the one just made
     WHERE d.id = (SELECT x.id FROM queend.dead_letters x WHERE x.partition_id = p_part AND x.record_offset = v_at ORDER BY x.id DESC LIMIT 1);
    PERFORM queend.hole_make(p_part, v_at);
    RETURN true;
END $$;
