-- Ids of (queue, partition) names, making what is missing; ord is the 0-based place in the arrays.
-- A queue made here takes the defaults and derives namespace and task from its name: billing.invoice.v2 → billing,
-- invoice. Missing names are inserted in ascending order, so concurrent callers never wait for each other in a circle;
-- queues are held against deletion until the partitions are in.
CREATE OR REPLACE FUNCTION queend.resolve(p_queue text[], p_partition text[]) RETURNS TABLE (ord int, queue_id int, partition_id int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue int[];
BEGIN
    INSERT INTO queend.queues (name, namespace, task)
    SELECT u.name, split_part(u.name, '.', 1), split_part(u.name, '.', 2)
      FROM (SELECT DISTINCT name FROM unnest(p_queue) AS name) AS u
     WHERE NOT EXISTS (SELECT 1 FROM queend.queues q WHERE q.name = u.name)
     ORDER BY u.name
    ON CONFLICT DO NOTHING;

    PERFORM 1 FROM queend.queues q WHERE q.name = ANY (p_queue) ORDER BY q.id FOR KEY SHARE;

    INSERT INTO queend.partitions (queue_id, name)
    SELECT DISTINCT q.id, u.partition
      FROM unnest(p_queue, p_partition) AS u (queue, partition) JOIN queend.queues q ON q.name = u.queue
     WHERE NOT EXISTS (SELECT 1 FROM queend.partitions p WHERE p.queue_id = q.id AND p.name = u.partition)
     ORDER BY 1, 2
    ON CONFLICT DO NOTHING;

    RETURN QUERY
    SELECT u.ord::int - 1, q.id, p.id
      FROM unnest(p_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
      JOIN queend.queues q ON q.name = u.queue
      JOIN queend.partitions p ON p.queue_id = q.id AND p.name = u.partition;
END $$;
