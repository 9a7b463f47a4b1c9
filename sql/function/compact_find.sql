-- Where merging rows would pay: runs of at least p_least small rows of a partition that follow each other, all stored before
-- p_before (µs), the partition's newest row not among them. Looks at p_limit rows of the log after (p_part, p_base), by key.
-- One row per run: offsets from_base … to_base - 1 in that many rows; a run has less than 128 records and 16 KB.
-- The last row has rows = 0: go on after (partition_id, from_base); NULL there: that was the end.
--
-- A row is small with less than 64 records and 8 KB: runs are cut by every 64 records and 8 KB before them, so a merged row
-- is at most twice that, and one that has reached it is not looked at again. Larger ones would save hardly more, and who pops
-- message by message unpacks the row each time. Rows in which clients' frames lie are left.
CREATE OR REPLACE FUNCTION queend.compact_find(p_part int, p_base bigint, p_limit int, p_before bigint, p_least int)
RETURNS TABLE (partition_id int, from_base bigint, to_base bigint, rows int)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT l.partition_id AS part, l.base, l.n, l.created_at, octet_length(l.body) AS size,
               CASE WHEN octet_length(l.body) < 8192 THEN get_byte(l.body, 0) END AS codec
          FROM queend.log l WHERE (l.partition_id, l.base) > (p_part, p_base) ORDER BY l.partition_id, l.base LIMIT p_limit),
    small AS (
        SELECT p.*, p.n < 64 AND p.codec IN (16, 17) AND p.created_at < p_before AND COALESCE(lead(p.part) OVER w = p.part, false) AS fits,
               COALESCE(lag(p.part) OVER w = p.part, false) AS follows
          FROM page p WINDOW w AS (ORDER BY p.part, p.base)),
    islands AS (
        SELECT s.*, count(*) FILTER (WHERE NOT s.fits OR NOT s.follows) OVER (ORDER BY s.part, s.base) AS island FROM small s),
    cut AS (
        SELECT i.*, (sum(i.n) OVER w - i.n) / 64 AS by_n, (sum(i.size) OVER w - i.size) / 8192 AS by_size
          FROM islands i WHERE i.fits WINDOW w AS (PARTITION BY i.island ORDER BY i.base))
    SELECT c.part, min(c.base), max(c.base + c.n), count(*)::int
      FROM cut c GROUP BY c.part, c.island, c.by_n, c.by_size HAVING count(*) >= p_least
     ORDER BY 1, 2;
    RETURN QUERY
    SELECT x.part, x.base, NULL::bigint, 0
      FROM (SELECT 1) AS one
      LEFT JOIN (SELECT l.partition_id AS part, l.base FROM queend.log l WHERE (l.partition_id, l.base) > (p_part, p_base)
                  ORDER BY l.partition_id, l.base OFFSET p_limit - 1 LIMIT 1) AS x ON true;
END $$;
