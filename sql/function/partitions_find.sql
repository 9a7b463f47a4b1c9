-- Queue and name of existing partitions by id; a missing one has no row.
CREATE OR REPLACE FUNCTION queend.partitions_find(p_id int[]) RETURNS TABLE (id int, queue_id int, name text)
LANGUAGE sql STABLE AS $$
    SELECT p.id, p.queue_id, p.name FROM unnest(p_id) AS u (id)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
$$;
