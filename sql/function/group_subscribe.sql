-- Sets the moment (µs) from which a group with a recorded subscription reads, in every queue that has one. Cursors that have
-- consumed something stay; those that have not start at the new moment. Returns the queues.
CREATE OR REPLACE FUNCTION queend.group_subscribe(p_group text, p_at bigint) RETURNS SETOF text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v record;
BEGIN
    FOR v IN SELECT g.id, g.queue_id, g.start_at, q.name FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
              WHERE g.name = p_group AND g.start_at IS NOT NULL ORDER BY q.id FOR UPDATE OF g LOOP
        UPDATE queend.consumer_groups g SET start_at = p_at, mode = 'timestamp' WHERE g.id = v.id;
        -- A cursor that stands where the old subscription let it begin has consumed nothing: a new one is made when it is asked for.
        DELETE FROM queend.cursors k USING queend.partitions p
         WHERE p.queue_id = v.queue_id AND k.partition_id = p.id AND k.group_id = v.id AND k.lease_until <= queend.now_us()
           AND k.committed + 1 <= queend.offset_since(p.id, v.start_at);
        PERFORM queend.groups_moved(v.queue_id);
        RETURN NEXT v.name;
    END LOOP;
END $$;
