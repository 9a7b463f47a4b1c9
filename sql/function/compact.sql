-- Compaction: rows of a partition that follow each other become one. Locks: one lane, then the partition's row, as
-- retention has it.

-- Where merging rows would pay: runs of at least p_least small rows of a partition that follow each other, all stored
-- before p_before (µs), the partition's newest row not among them. Looks at p_limit rows of the log after (p_part,
-- p_base), by key.
-- One row per run: offsets from_base … to_base - 1 in that many rows; a run has less than 128 records and 16 KB. The
-- last row has rows = 0: go on after (partition_id, from_base); NULL there: that was the end.
--
-- A row is small with less than 64 records and 8 KB: runs are cut by every 64 records and 8 KB before them, so a merged
-- row is at most twice that, and one that has reached it is not looked at again. Larger ones would save hardly more,
-- and who pops message by message unpacks the row each time. Rows in which clients' frames lie are left.
CREATE OR REPLACE FUNCTION queend.compact_find(p_part int, p_base bigint, p_limit int, p_before bigint, p_least int)
RETURNS TABLE (partition_id int, from_base bigint, to_base bigint, rows int)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT l.partition_id AS part, l.base, l.n, l.created_at, octet_length(l.body) AS size,
               CASE WHEN octet_length(l.body) < 8192 THEN get_byte(l.body, 0) END AS codec
          FROM queend.log l WHERE (l.partition_id, l.base) > (p_part, p_base)
         ORDER BY l.partition_id, l.base LIMIT p_limit),
    small AS (
        SELECT p.*, p.n < 64 AND p.codec IN (16, 17) AND p.created_at < p_before
        AND COALESCE(lead(p.part) OVER w = p.part, false) AS fits,
               COALESCE(lag(p.part) OVER w = p.part, false) AS follows
          FROM page p WINDOW w AS (ORDER BY p.part, p.base)),
    islands AS (
        SELECT s.*, count(*) FILTER (WHERE NOT s.fits OR NOT s.follows) OVER (ORDER BY s.part, s.base) AS island
          FROM small s),
    cut AS (
        SELECT i.*, (sum(i.n) OVER w - i.n) / 64 AS by_n, (sum(i.size) OVER w - i.size) / 8192 AS by_size
          FROM islands i WHERE i.fits WINDOW w AS (PARTITION BY i.island ORDER BY i.base))
    SELECT c.part, min(c.base), max(c.base + c.n), count(*)::int
      FROM cut c GROUP BY c.part, c.island, c.by_n, c.by_size HAVING count(*) >= p_least
     ORDER BY 1, 2;
    RETURN QUERY
    SELECT x.part, x.base, NULL::bigint, 0
      FROM (SELECT 1) AS one
      LEFT JOIN (SELECT l.partition_id AS part, l.base FROM queend.log l
                  WHERE (l.partition_id, l.base) > (p_part, p_base)
                  ORDER BY l.partition_id, l.base OFFSET p_limit - 1 LIMIT 1) AS x ON true;
END $$;

-- The rows of runs that compact_find found, in order: ord is the run's 0-based place.
CREATE OR REPLACE FUNCTION queend.compact_rows(p_part int[], p_from bigint[], p_to bigint[])
RETURNS TABLE (ord int, n int, created_at bigint, ids bytea, body bytea, meta bytea)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.ord::int - 1, l.n, l.created_at, l.ids, l.body, l.meta
      FROM unnest(p_part, p_from, p_to) WITH ORDINALITY AS r (part, from_, to_, ord)
      CROSS JOIN LATERAL (SELECT x.* FROM queend.log x
                           WHERE x.partition_id = r.part AND x.base >= r.from_ AND x.base < r.to_ ORDER BY x.base) AS l;
END $$;

-- Puts one row in the place of each run of rows. All partitions are of one lane, in ascending order; p_rows: how many
-- rows the run had when it was read; p_created, p_ids, p_body, p_meta: of the merged row. Returns how many rows are
-- gone.
--
-- What a reader can see does not change: offsets, ids, times and payloads are those of the rows before. The lane keeps
-- away pushes (they search ids), the partition's row whoever removes rows (retain). Rows are never changed, so the same
-- number of rows and records between the same offsets is the same run; a run that is not is left, and so is one
--   - with a delivery open (rows from committed to lease_end stay where the ack will look for them),
--   - with the partition's newest row, which pushes and pops find by a row_base at or below it.
-- A pop that had begun before does no harm: it reads the rows as they were, and the row_base it leaves is only a hint.
CREATE OR REPLACE FUNCTION queend.compact(p_lane int, p_part int[], p_from bigint[], p_to bigint[], p_rows int[],
    p_created bigint[], p_ids bytea[], p_body bytea[], p_meta bytea[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_gone int := 0;
    run    record;
    was    record;
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, p_lane);
    FOR run IN
        SELECT u.* FROM unnest(p_part, p_from, p_to, p_rows, p_created, p_ids, p_body, p_meta) WITH ORDINALITY
                     AS u (part, from_, to_, rows, created_at, ids, body, meta, ord) ORDER BY u.ord
    LOOP
        PERFORM 1 FROM queend.partitions x WHERE x.id = run.part FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        CONTINUE WHEN EXISTS (SELECT FROM queend.cursors c WHERE c.partition_id = run.part AND c.lease_end > c.committed
                                 AND c.committed + 1 < run.to_ AND c.lease_end >= run.from_);
        CONTINUE WHEN NOT EXISTS (SELECT FROM queend.log l WHERE l.partition_id = run.part AND l.base >= run.to_);
        SELECT count(*) AS rows, sum(l.n) AS n INTO was FROM queend.log l
         WHERE l.partition_id = run.part AND l.base >= run.from_ AND l.base < run.to_;
        CONTINUE WHEN was.rows <> run.rows OR was.n <> run.to_ - run.from_;

        WITH gone AS (
            DELETE FROM queend.log l WHERE l.partition_id = run.part AND l.base >= run.from_ AND l.base < run.to_
            RETURNING l.base, l.high, l.odd)
        INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
        SELECT run.from_, run.created_at, run.part, run.to_ - run.from_, g.high, g.odd, run.ids, run.body, run.meta
          FROM gone g ORDER BY g.base DESC LIMIT 1;
        v_gone := v_gone + run.rows - 1;
    END LOOP;
    RETURN v_gone;
END $$;
