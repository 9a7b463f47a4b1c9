-- Whether records were stored that a statement pushed whose answer was lost: one element of the arrays per batch row, as in push. All of
-- them, next to each other in their order and at one moment, or no row: then nothing of that statement took effect. base, created_at: of
-- each row's first record.
-- The lanes are taken as the statement took them: while it is still under way, this waits for its end.
CREATE OR REPLACE FUNCTION queend.pushed(p_lanes int[], p_part int[], p_n int[], p_ids bytea[])
RETURNS TABLE (ord int, base bigint, created_at bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, lane) FROM unnest(p_lanes) AS lane;
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT u.ord::int - 1 AS ord, u.n, f.n AS stored, f.first, f.last, f.at, f.until
          FROM unnest(p_part, p_n, p_ids) WITH ORDINALITY AS u (part, n, ids, ord)
         CROSS JOIN LATERAL (SELECT count(*) AS n, min(i.found - i.ord) AS first, max(i.found - i.ord) AS last, min(i.stored_at) AS at, max(i.stored_at) AS until
                               FROM queend.ids_find(u.part, u.ids) AS i) AS f)
    SELECT f.ord, f.first, f.at FROM found f
     WHERE (SELECT bool_and(x.stored = x.n AND x.first = x.last) AND min(x.at) = max(x.until) FROM found x) ORDER BY f.ord;
END $$;
