-- Sets the moment (µs) from which a group with a recorded subscription reads, in every queue that has one. Cursors that have
-- consumed something stay; those that have not start at the new moment. Returns the queues.
-- Locks: queues, groups, then the cursors of all queues ascending, as acknowledgments take them; the catalogue last.
CREATE OR REPLACE FUNCTION queend.group_subscribe(p_group text, p_at bigint) RETURNS SETOF text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_queue int[];
    v_group int[];
    v_start bigint[];
    v_name  text[];
    v_part  int[];
    v_of    int[];
    v_from  bigint[];
BEGIN
    PERFORM FROM queend.queues q WHERE q.id IN (SELECT g.queue_id FROM queend.consumer_groups g WHERE g.name = p_group) ORDER BY q.id FOR NO KEY UPDATE;
    SELECT array_agg(s.queue_id), array_agg(s.id), array_agg(s.start_at), array_agg(s.name) INTO v_queue, v_group, v_start, v_name
      FROM (SELECT g.id, g.queue_id, g.start_at, q.name FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
             WHERE g.name = p_group AND g.start_at IS NOT NULL ORDER BY q.id FOR UPDATE OF g) AS s;
    UPDATE queend.consumer_groups g SET start_at = p_at, mode = 'timestamp' WHERE g.id = ANY (v_group);
    -- A cursor that stands where the old subscription let it begin has consumed nothing: a new one is made when it is asked for.
    SELECT array_agg(k.partition_id), array_agg(k.group_id), array_agg(k.at) INTO v_part, v_of, v_from
      FROM (SELECT c.partition_id, c.group_id, queend.offset_since(p.id, u.start) AS at
              FROM unnest(v_queue, v_group, v_start) AS u (queue, grp, start)
             CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = u.queue OFFSET 0) AS p
             CROSS JOIN LATERAL (SELECT x.partition_id, x.group_id, x.committed, x.beyond FROM queend.cursors x WHERE x.partition_id = p.id AND x.group_id = u.grp OFFSET 0) AS c
             WHERE c.beyond IS NULL AND c.committed + 1 <= queend.offset_since(p.id, u.start)) AS k;
    PERFORM queend.cursors_lock(v_part, v_of);
    DELETE FROM queend.cursors k
     WHERE k.ctid = ANY (ARRAY(
        SELECT c.ctid FROM unnest(v_part, v_of, v_from) AS u (part, grp, at)
         CROSS JOIN LATERAL (SELECT x.ctid, x.committed, x.lease_until, x.beyond FROM queend.cursors x WHERE x.partition_id = u.part AND x.group_id = u.grp OFFSET 0) AS c
         WHERE c.lease_until <= queend.now_us() AND c.committed + 1 <= u.at AND c.beyond IS NULL));
    DELETE FROM queend.standing s WHERE (s.partition_id, s.group_id) IN (SELECT u.part, u.grp FROM unnest(v_part, v_of) AS u (part, grp))
       AND NOT EXISTS (SELECT FROM queend.cursors c WHERE c.partition_id = s.partition_id AND c.group_id = s.group_id);
    PERFORM queend.groups_moved(u.queue) FROM unnest(v_queue) WITH ORDINALITY AS u (queue, ord) ORDER BY u.ord;
    RETURN QUERY SELECT * FROM unnest(v_name);
END $$;
