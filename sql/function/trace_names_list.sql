-- The names traces were noted under, the latest used first: a page of them, with the number of their traces and of the messages these
-- are about (of the latest p_count traces of each), and when the last was noted. The first row (name NULL) has in traces how many names
-- there are. Looks at p_names names at most, the first in the order of the alphabet; each is one probe, whatever it has of traces.
CREATE OR REPLACE FUNCTION queend.trace_names_list(p_limit int, p_offset int, p_names int, p_count int)
RETURNS TABLE (name text, traces bigint, messages bigint, last bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE names (name, i) AS (
        (SELECT n.name, 1 FROM queend.trace_names n ORDER BY n.name LIMIT 1)
        UNION ALL
        SELECT x.name, s.i + 1 FROM names s CROSS JOIN LATERAL (SELECT n.name FROM queend.trace_names n WHERE n.name > s.name ORDER BY n.name LIMIT 1) AS x
         WHERE s.i < p_names),
    page AS MATERIALIZED (
        SELECT s.name, t.created_at FROM names s
         CROSS JOIN LATERAL (SELECT n.created_at FROM queend.trace_names n WHERE n.name = s.name ORDER BY n.name DESC, n.ord DESC LIMIT 1) AS t
         ORDER BY t.created_at DESC, s.name LIMIT p_limit OFFSET p_offset)
    SELECT NULL::text, (SELECT count(*) FROM names), 0::bigint, 0::bigint
    UNION ALL
    (SELECT g.name, c.traces, c.messages, g.created_at FROM page g
      CROSS JOIN LATERAL (SELECT count(*) AS traces, count(DISTINCT (r.partition_id, r.record_id)) AS messages
                            FROM (SELECT n.partition_id, n.record_id FROM queend.trace_names n WHERE n.name = g.name ORDER BY n.ord DESC LIMIT p_count) AS r) AS c
      ORDER BY g.created_at DESC, g.name);
END $$;
