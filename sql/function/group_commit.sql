-- Progress of a group that reads by offset and keeps its place elsewhere: its cursors move forward, never back, so that its lag is
-- seen. One element of the arrays per partition: queue and partition by name, the offset that comes next; one row each, in order.
-- committed: the offset that comes next for the group now, NULL: no such queue or partition. The group is made where it is new.
-- Never above a head. What was claimed for the group is void where its cursor moves, and the daemons are told if somebody pops for it.
CREATE OR REPLACE FUNCTION queend.group_commit(p_group text, p_queue text[], p_partition text[], p_offset bigint[])
RETURNS TABLE (ord int, committed bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_queue  int[] := ARRAY(SELECT DISTINCT q.id FROM unnest(p_queue) AS u (name) CROSS JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.name OFFSET 0) AS q ORDER BY 1);
    v_group  int[];
    v_part   int[];
    v_of     int[];
    v_popped int[];
    v_one    int;
BEGIN
    PERFORM FROM queend.queues q WHERE q.id = ANY (v_queue) ORDER BY q.id FOR NO KEY UPDATE;      -- before the cursors, see group_seek
    FOREACH v_one IN ARRAY v_queue LOOP
        v_group := v_group || (SELECT g.group_id FROM queend.group_resolve(v_one, p_group, 'all', NULL) AS g);
    END LOOP;
    SELECT array_agg(p.id ORDER BY u.ord), array_agg(v_group[array_position(v_queue, q.id)] ORDER BY u.ord) INTO v_part, v_of
      FROM unnest(p_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
      LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
      LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true;
    PERFORM queend.cursors_lock(v_part, v_of);
    v_popped := ARRAY(SELECT DISTINCT u.grp FROM unnest(v_part, v_of) AS u (part, grp)
                       CROSS JOIN LATERAL (SELECT x.consumed_at FROM queend.cursors x WHERE x.partition_id = u.part AND x.group_id = u.grp OFFSET 0) AS k
                       WHERE k.consumed_at > 0);
    WITH place AS MATERIALIZED (
        SELECT a.part, a.grp, LEAST(h.head, a.at) AS at
          FROM (SELECT u.part, u.grp, max(u.at) AS at FROM unnest(v_part, v_of, p_offset) AS u (part, grp, at) WHERE u.part IS NOT NULL GROUP BY 1, 2) AS a
          CROSS JOIN LATERAL (SELECT queend.head(a.part) AS head) AS h
         ORDER BY 1, 2),
    moved AS (
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_end)      -- by the primary key, see pop
        SELECT p.part, p.grp, p.at - 1, queend.row_of(p.part, p.at), p.at - 1 FROM place p
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET committed = excluded.committed, row_base = excluded.row_base, lease_end = excluded.lease_end, lease_until = 0,
               lease_id = '00000000-0000-0000-0000-000000000000', retry_until = 0, retries = 0, attempt = 0, beyond = NULL, standing = NULL
         WHERE k.committed < excluded.committed
        RETURNING k.partition_id, k.group_id)
    DELETE FROM queend.standing s USING moved m WHERE s.partition_id = m.partition_id AND s.group_id = m.group_id;
    FOREACH v_one IN ARRAY v_queue LOOP
        IF v_group[array_position(v_queue, v_one)] = ANY (v_popped) THEN
            PERFORM queend.groups_moved(v_one);
        END IF;
    END LOOP;
    RETURN QUERY SELECT u.ord::int - 1, k.committed + 1
      FROM unnest(v_part, v_of) WITH ORDINALITY AS u (part, grp, ord)
      LEFT JOIN LATERAL (SELECT x.committed FROM queend.cursors x WHERE x.partition_id = u.part AND x.group_id = u.grp OFFSET 0) AS k ON true
     ORDER BY u.ord;
END $$;
