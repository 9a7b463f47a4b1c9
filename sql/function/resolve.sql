-- Ids of (queue, partition) names, making what is missing; ord is the 0-based place in the arrays.
-- A queue made here takes the defaults and derives namespace and task from its name: billing.invoice.v2 → billing,
-- invoice. Missing names are inserted in ascending order, so concurrent callers never wait for each other in a circle;
-- queues are held against deletion until the partitions are in. Each name is one probe of a key (OFFSET 0 keeps it one;
-- for partitions see partition_find), never a join of the names with what was found: planned while the tables were empty,
-- that compares every name with every other.
CREATE OR REPLACE FUNCTION queend.resolve(p_queue text[], p_partition text[]) RETURNS TABLE (ord int, queue_id int, partition_id int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue int[];
    v_part  int[];
    v_round int;
BEGIN
    FOR v_round IN 1 .. 2 LOOP
        SELECT array_agg(q.id ORDER BY u.ord) INTO v_queue
          FROM unnest(p_queue) WITH ORDINALITY AS u (queue, ord)
          LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true;
        SELECT array_agg(p.id ORDER BY u.ord) INTO v_part
          FROM unnest(v_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
          LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = u.queue AND x.name >= u.partition AND x.name <= u.partition
                              ORDER BY x.name LIMIT 1) AS p ON true;
        EXIT WHEN v_round = 2 OR array_position(v_part, NULL) IS NULL;

        INSERT INTO queend.queues (name, namespace, task)
        SELECT DISTINCT u.name, split_part(u.name, '.', 1), split_part(u.name, '.', 2)
          FROM unnest(p_queue, v_queue) AS u (name, id) WHERE u.id IS NULL ORDER BY u.name
        ON CONFLICT DO NOTHING;
        INSERT INTO queend.partitions (queue_id, name)
        SELECT q.id, u.partition
          FROM (SELECT DISTINCT x.queue, x.partition FROM unnest(p_queue, p_partition, v_part) AS x (queue, partition, id)
                 WHERE x.id IS NULL ORDER BY x.queue, x.partition) AS u
          CROSS JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue FOR KEY SHARE) AS q
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN QUERY
    SELECT r.ord::int - 1, r.queue_id, r.partition_id
      FROM unnest(v_queue, v_part) WITH ORDINALITY AS r (queue_id, partition_id, ord) WHERE r.partition_id IS NOT NULL;
END $$;
