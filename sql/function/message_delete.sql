-- Deletes one message by its partition and record id: nobody is given it any more, its dead letters and traces go. Cursors stay
-- where they are; the row it stands in, and with it its id, stays until retention removes it. false: there is no such message.
CREATE OR REPLACE FUNCTION queend.message_delete(p_part int, p_id bytea) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_at   bigint := queend.message_find(p_part, p_id);
    v_dead bigint[];
BEGIN
    IF v_at IS NOT NULL THEN
        PERFORM queend.hole_make(p_part, v_at);
    END IF;
    v_dead := ARRAY(SELECT d.id FROM queend.dead_letters d WHERE d.partition_id = p_part AND d.record_id = p_id);
    PERFORM queend.dead_delete(v_dead);
    PERFORM queend.traces_delete(p_part, p_id);
    RETURN v_at IS NOT NULL OR v_dead <> '{}';
END $$;
