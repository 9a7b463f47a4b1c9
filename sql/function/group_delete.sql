-- Deletes a consumer group of one queue, or of all (p_queue NULL): it starts afresh where somebody uses it again. Its
-- subscription goes too, unless p_metadata is false: then the group lives on under another id, without cursors.
-- One row per queue that had it: queue and the number of its cursors, which queend.tidy removes in the background; its dead
-- letters stay, under its name.
-- Queues are locked first, as whoever deletes one does: then groups, dead letters, the catalogue.
CREATE OR REPLACE FUNCTION queend.group_delete(p_group text, p_queue text, p_metadata boolean) RETURNS TABLE (queue text, partitions bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v record;
BEGIN
    PERFORM FROM queend.queues q WHERE q.id IN (SELECT g.queue_id FROM queend.consumer_groups g WHERE g.name = p_group) AND (p_queue IS NULL OR q.name = p_queue)
      ORDER BY q.id FOR NO KEY UPDATE;
    FOR v IN SELECT g.id, g.queue_id, q.name FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
              WHERE g.name = p_group AND (p_queue IS NULL OR q.name = p_queue) ORDER BY q.id FOR UPDATE OF g LOOP
        queue := v.name;
        SELECT count(k.there) INTO partitions FROM queend.partitions p
          LEFT JOIN LATERAL (SELECT true AS there FROM queend.cursors x WHERE x.partition_id = p.id AND x.group_id = v.id OFFSET 0) AS k ON true
         WHERE p.queue_id = v.queue_id;
        UPDATE queend.dead_letters d SET group_name = p_group WHERE d.queue_id = v.queue_id AND d.group_id = v.id;
        IF p_metadata THEN
            DELETE FROM queend.consumer_groups g WHERE g.id = v.id;
        ELSE
            UPDATE queend.consumer_groups g SET id = DEFAULT WHERE g.id = v.id;
        END IF;
        PERFORM queend.groups_moved(v.queue_id);
        RETURN NEXT;
    END LOOP;
END $$;
