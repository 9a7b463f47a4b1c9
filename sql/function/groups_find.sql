-- Ids of existing consumer groups by (queue id, name); ord is the 0-based place, a missing group has no row.
CREATE OR REPLACE FUNCTION queend.groups_find(p_queue int[], p_name text[]) RETURNS TABLE (ord int, group_id int)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, g.id FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, ord)
      CROSS JOIN LATERAL (SELECT x.id FROM queend.consumer_groups x WHERE x.queue_id = u.queue AND x.name = u.name OFFSET 0) AS g
$$;
