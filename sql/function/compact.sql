-- Puts one row in the place of each run of rows. All partitions are of one lane, in ascending order; p_rows: how many rows
-- the run had when it was read; p_created, p_ids, p_body, p_meta: of the merged row. Returns how many rows are gone.
--
-- What a reader can see does not change: offsets, ids, times and payloads are those of the rows before. The lane keeps away
-- pushes (they search ids), the partition's row whoever removes rows (retain). Rows are never changed, so the same number of
-- rows and records between the same offsets is the same run; a run that is not is left, and so is one
--   - with a delivery open (rows from committed to lease_end stay where the ack will look for them),
--   - with the partition's newest row, which pushes and pops find by a row_base at or below it.
-- A pop that had begun before does no harm: it reads the rows as they were, and the row_base it leaves is only a hint.
CREATE OR REPLACE FUNCTION queend.compact(p_lane int, p_part int[], p_from bigint[], p_to bigint[], p_rows int[], p_created bigint[],
    p_ids bytea[], p_body bytea[], p_meta bytea[]) RETURNS int
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
        SELECT count(*) AS rows, sum(l.n) AS n INTO was FROM queend.log l WHERE l.partition_id = run.part AND l.base >= run.from_ AND l.base < run.to_;
        CONTINUE WHEN was.rows <> run.rows OR was.n <> run.to_ - run.from_;

        WITH gone AS (
            DELETE FROM queend.log l WHERE l.partition_id = run.part AND l.base >= run.from_ AND l.base < run.to_ RETURNING l.base, l.high, l.odd)
        INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
        SELECT run.from_, run.created_at, run.part, run.to_ - run.from_, g.high, g.odd, run.ids, run.body, run.meta
          FROM gone g ORDER BY g.base DESC LIMIT 1;
        v_gone := v_gone + run.rows - 1;
    END LOOP;
    RETURN v_gone;
END $$;
