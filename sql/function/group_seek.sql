-- Moves the cursors that a group has in a queue, for at most p_limit partitions after p_after (by id), or for partition p_only
-- alone: to the first record stored after p_at (µs), or to offset p_offset, or to the end where both are NULL. Never below a
-- floor or above a head; a cursor that comes to the oldest record by time stands where the group's subscription lets it begin.
-- Leases, pauses, retries and what was done beyond a gap are void; what the group has consumed counts as before (cursors.origin). Partitions without a cursor or, at the end, without a message are left.
-- updated: cursors moved; moved_to: moment of the last record before the last of them; next: go on after this partition, NULL:
-- through (and the daemons are told).
CREATE OR REPLACE FUNCTION queend.group_seek(p_queue int, p_group int, p_only int, p_after int, p_limit int, p_at bigint, p_offset bigint,
    OUT updated int, OUT moved_to bigint, OUT next int)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_start bigint := (SELECT g.start_at FROM queend.consumer_groups g WHERE g.id = p_group);
    v_part  int[];
BEGIN
    PERFORM FROM queend.queues q WHERE q.id = p_queue FOR NO KEY UPDATE;      -- before the cursors: a deletion of the queue begins there
    IF p_only IS NOT NULL THEN
        v_part := ARRAY[p_only];
    ELSE
        v_part := ARRAY(SELECT p.id FROM queend.partitions p WHERE p.queue_id = p_queue AND p.id > p_after ORDER BY p.id LIMIT p_limit);
        next := CASE WHEN cardinality(v_part) = p_limit THEN v_part[p_limit] END;
    END IF;
    PERFORM queend.cursors_lock(v_part, array_fill(p_group, ARRAY[cardinality(v_part)]));
    WITH target AS MATERIALIZED (
        SELECT u.part, f.floor, h.head,
               CASE WHEN p_at IS NOT NULL THEN queend.offset_since(u.part, p_at + 1) WHEN p_offset IS NOT NULL THEN p_offset ELSE h.head END AS at
          FROM unnest(v_part) AS u (part)
          CROSS JOIN LATERAL (SELECT FROM queend.cursors k WHERE k.partition_id = u.part AND k.group_id = p_group OFFSET 0) AS k
          CROSS JOIN LATERAL (SELECT COALESCE((SELECT x.floor FROM queend.floors x WHERE x.partition_id = u.part), 0) AS floor) AS f
          CROSS JOIN LATERAL (SELECT queend.head(u.part) AS head) AS h
         WHERE p_at IS NOT NULL OR p_offset IS NOT NULL OR h.head > f.floor),
    place AS MATERIALIZED (
        SELECT t.part, LEAST(t.head, GREATEST(t.floor, CASE WHEN p_at IS NOT NULL AND t.at <= t.floor AND v_start IS NOT NULL
                                                            THEN queend.offset_since(t.part, v_start) ELSE t.at END)) AS at
          FROM target t),
    moved AS (
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_end)      -- by the primary key, see pop
        SELECT p.part, p_group, p.at - 1,
               COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p.part AND l.base <= p.at ORDER BY l.base DESC LIMIT 1), 0), p.at - 1
          FROM place p
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET committed = excluded.committed, row_base = excluded.row_base, lease_end = excluded.lease_end, lease_until = 0,
               lease_id = '00000000-0000-0000-0000-000000000000', retry_until = 0, retries = 0, attempt = 0, beyond = NULL, standing = NULL,
               origin = NULLIF(COALESCE(k.origin, 0) + excluded.committed - k.committed - queend.done_count(k.beyond, k.committed + 1), 0)
        RETURNING k.partition_id, k.committed)
    SELECT count(*), queend.record_stored((array_agg(m.partition_id ORDER BY m.partition_id DESC))[1], (array_agg(m.committed ORDER BY m.partition_id DESC))[1])
      INTO updated, moved_to FROM moved m;
    DELETE FROM queend.standing s WHERE s.partition_id = ANY (v_part) AND s.group_id = p_group;
    IF next IS NULL THEN
        PERFORM queend.groups_moved(p_queue);
    END IF;
END $$;
