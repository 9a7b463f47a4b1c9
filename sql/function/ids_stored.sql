-- Where records of these ids are stored already, at or behind an offset `known` of each (function/ids_find.sql): ord is the 0-based place in the arrays.
CREATE OR REPLACE FUNCTION queend.ids_stored(p_part int[], p_id bytea[], p_known bigint[]) RETURNS TABLE (ord int, found bigint, stored_at bigint)
LANGUAGE sql STABLE AS $$
    SELECT u.ord::int - 1, f.found, f.stored_at
      FROM unnest(p_part, p_id, p_known) WITH ORDINALITY AS u (part, id, known, ord)
     CROSS JOIN LATERAL queend.ids_find(u.part, u.id, u.known) AS f
$$;
