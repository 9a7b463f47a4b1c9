-- The rows of runs that compact_find found, in order: ord is the run's 0-based place.
CREATE OR REPLACE FUNCTION queend.compact_rows(p_part int[], p_from bigint[], p_to bigint[])
RETURNS TABLE (ord int, n int, created_at bigint, ids bytea, body bytea, meta bytea)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.ord::int - 1, l.n, l.created_at, l.ids, l.body, l.meta
      FROM unnest(p_part, p_from, p_to) WITH ORDINALITY AS r (part, from_, to_, ord)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.log x WHERE x.partition_id = r.part AND x.base >= r.from_ AND x.base < r.to_ ORDER BY x.base) AS l;
END $$;
