-- Ids of queues and partitions by name; missing ones are created. Locks: names ascending; queues FOR KEY SHARE until
-- the partitions are stored.

-- Returns ids of (queue, partition) names and creates missing ones (resolve_within); ord is the 0-based place in the
-- arrays. Raises QD409 if there are as many names as this session may create (names_bound).
CREATE OR REPLACE FUNCTION queend.resolve(p_queue text[], p_partition text[])
RETURNS TABLE (ord int, queue_id int, partition_id int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queues     CONSTANT int := queend.names_bound('queue');
    v_partitions CONSTANT int := queend.names_bound('partition');
    r record;
BEGIN
    FOR r IN SELECT * FROM queend.resolve_within(p_queue, p_partition, v_queues, v_partitions) LOOP
        IF r.refused = 1 THEN
            PERFORM queend.names_full('queue', NULL, v_queues);
        ELSIF r.refused = 2 THEN
            PERFORM queend.names_full('partition', p_queue[r.ord + 1], v_partitions);
        END IF;
        ord := r.ord;
        queue_id := r.queue_id;
        partition_id := r.partition_id;
        RETURN NEXT;
    END LOOP;
END $$;

-- Returns ids of (queue, partition) names and creates missing ones, up to p_queues queues, and p_partitions partitions
-- in each queue (NULL: no bound). Column ord is the 0-based place in the arrays. Column refused: why a name was not
-- created, 1: too many queues, 2: too many partitions. A queue deleted at the same time gets no row. A queue made here
-- takes the defaults and derives namespace and task from its name: billing.invoice.v2 → billing, invoice. If there is
-- room for only some names, the first ones get it. Missing names are inserted in ascending order, so concurrent callers
-- never wait for each other in a circle. Queues are held against deletion until the partitions are stored.
--
-- Each name is one probe of a key (OFFSET 0 keeps it so; for partitions see partition_find). A join of the names with
-- the rows found would compare every name with every other, if planned while the tables were empty.
CREATE OR REPLACE FUNCTION queend.resolve_within(p_queue text[], p_partition text[], p_queues int, p_partitions int)
RETURNS TABLE (ord int, queue_id int, partition_id int, refused int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue int[];
    v_part  int[];
    v_new   text[];
    v_number int[];
    v_full  boolean := false;
    v_round int;
BEGIN
    FOR v_round IN 1 .. 2 LOOP
        SELECT array_agg(q.id ORDER BY u.ord) INTO v_queue
          FROM unnest(p_queue) WITH ORDINALITY AS u (queue, ord)
          LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true;
        SELECT array_agg(p.id ORDER BY u.ord) INTO v_part
          FROM unnest(v_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
          LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x
                              WHERE x.queue_id = u.queue AND x.name >= u.partition AND x.name <= u.partition
                              ORDER BY x.name LIMIT 1) AS p ON true;
        EXIT WHEN v_round = 2 OR array_position(v_part, NULL) IS NULL;

        IF array_position(v_queue, NULL) IS NOT NULL THEN
            v_new := (SELECT array_agg(n.name ORDER BY n.first)
                        FROM (SELECT u.name, min(u.ord) AS first
                                FROM unnest(p_queue, v_queue) WITH ORDINALITY AS u (name, id, ord)
                               WHERE u.id IS NULL GROUP BY u.name) AS n);
            v_new := v_new[1 : queend.names_room(0, 'queue', p_queues, cardinality(v_new))];
            INSERT INTO queend.queues (id, name, namespace, task)
            SELECT u.id, u.name, split_part(u.name, '.', 1), split_part(u.name, '.', 2)
              FROM unnest(v_new, queend.queue_numbers(cardinality(v_new))) AS u (name, id)
             ORDER BY u.name
            ON CONFLICT DO NOTHING;
        END IF;
        v_number := queend.partition_numbers((
            SELECT count(*) FROM (SELECT DISTINCT u.queue, u.partition
                                    FROM unnest(p_queue, p_partition, v_part) AS u (queue, partition, id)
                                   WHERE u.id IS NULL) AS d)::int);
        INSERT INTO queend.partitions (id, queue_id, name)
        SELECT v_number[row_number() OVER (ORDER BY w.queue, w.partition)], w.id, w.partition
          FROM (SELECT r.id, r.queue, r.partition, r.nth,
                       max(CASE WHEN r.nth = 1
                                     THEN queend.names_room(r.id, 'partition', p_partitions,
                                                            r.n::int) END) OVER (PARTITION BY r.id) AS room
                  FROM (SELECT q.id, u.queue, u.partition,
                               row_number() OVER (PARTITION BY q.id ORDER BY u.first) AS nth,
                               count(*) OVER (PARTITION BY q.id) AS n
                          FROM (SELECT x.queue, x.partition, min(x.ord) AS first
                                  FROM unnest(p_queue, p_partition, v_part) WITH ORDINALITY AS x (queue, partition, id,
                                          ord)
                                 WHERE x.id IS NULL GROUP BY x.queue, x.partition ORDER BY x.queue, x.partition) AS u
                          CROSS JOIN LATERAL (SELECT x.id FROM queend.queues x
                                               WHERE x.name = u.queue FOR KEY SHARE) AS q) AS r) AS w
         WHERE w.nth <= w.room ORDER BY w.queue, w.partition
        ON CONFLICT DO NOTHING;
    END LOOP;
    IF array_position(v_queue, NULL) IS NOT NULL AND p_queues IS NOT NULL THEN
        v_full := queend.names_total(0, 'queue') >= p_queues;
    END IF;
    RETURN QUERY
    SELECT a.* FROM (
        SELECT r.ord::int - 1, r.queue_id, r.partition_id,
               CASE WHEN r.partition_id IS NOT NULL THEN NULL
                    WHEN r.queue_id IS NULL THEN CASE WHEN v_full THEN 1 END
                    WHEN p_partitions IS NOT NULL
                         THEN CASE WHEN queend.names_total(r.queue_id, 'partition') >= p_partitions THEN 2 END END
          FROM unnest(v_queue, v_part) WITH ORDINALITY AS r (queue_id, partition_id, ord)) AS a (ord, queue_id,
                  partition_id, refused)
     WHERE a.partition_id IS NOT NULL OR a.refused IS NOT NULL;
END $$;
