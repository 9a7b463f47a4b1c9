-- Ids of existing partitions by (queue id, name); ord is the 0-based place, a missing one has no row.
CREATE OR REPLACE FUNCTION queend.partition_find(p_queue int[], p_name text[]) RETURNS TABLE (ord int, partition_id int)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, p.id FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      JOIN queend.partitions p ON p.queue_id = u.queue AND p.name = u.name
$$;
