-- Ids of existing partitions by (queue id, name); ord is the 0-based place, a missing one has no row.
-- Asked for in order, so that a plan made while the table is small cannot take the index without the name; and between
-- two bounds, so that the probe ends at the name instead of reading the rest of its leaf page.
CREATE OR REPLACE FUNCTION queend.partition_find(p_queue int[], p_name text[]) RETURNS TABLE (ord int, partition_id int)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, p.id FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x WHERE x.queue_id = u.queue AND x.name >= u.name AND x.name <= u.name ORDER BY x.name LIMIT 1) AS p
     WHERE p.name = u.name
$$;
