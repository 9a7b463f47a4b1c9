-- Appends rows whose records were stored elsewhere before, with their own moments: what an import writes. One partition; the rows follow
-- each other and the first begins at the head, else nothing is done and false returned. p_high, p_odd: as in the log. p_late, p_late_at:
-- the ids that the log cannot prove, and their offsets.
CREATE OR REPLACE FUNCTION queend.import_rows(p_part int, p_base bigint[], p_created bigint[], p_n int[], p_high uuid[], p_odd boolean[],
    p_ids bytea[], p_body bytea[], p_meta bytea[], p_late_at bigint[], p_late bytea[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, p_part & 63);
    IF queend.head(p_part) <> p_base[1] THEN
        RETURN false;
    END IF;
    INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
    SELECT u.base, u.created, p_part, u.n, u.high, u.odd, u.ids, u.body, u.meta
      FROM unnest(p_base, p_created, p_n, p_high, p_odd, p_ids, p_body, p_meta) AS u (base, created, n, high, odd, ids, body, meta);
    INSERT INTO queend.late_ids (position, partition_id, id) SELECT u.at, p_part, u.id FROM unnest(p_late_at, p_late) AS u (at, id) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
