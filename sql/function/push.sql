-- Appends record batches. One element of the arrays per batch row: a partition's records of this call, in chunks of at
-- most 1000 records that follow each other.
--   p_version  the caller's catalogue version, 0 = do not check. A stale caller gets one row (ord -1, status 9, the
--              version in base) and nothing is stored.
--   p_lanes    the lanes (partition id & 63) of all partitions, ascending
--   p_skip     records of the same partition in earlier rows of this call
--   p_kind     of the whole partition: 0 ids made by the caller, 1 only version-7 ids, 2 no version-7 id, 3 mixed
--   p_lo, p_hi smallest and largest version-7 id of the whole partition
-- One result row per batch row: status 0 stored as a whole, record i has the offset base + i; status 1 some may have
-- been duplicates: dup_offset[i] is the offset of the older record or -1, dup_at its moment; the others got
-- base, base + 1, … in order (base -1: none).
--
-- The lanes are held to the end of the transaction: offsets are given in the order of commit, and nobody else can write
-- the ids that are checked here. Then, for each partition, from its newest row alone:
--   class 0  every id is timely and above everything timely the partition holds (or ours): nothing to look up
--   class 2  no id can be in the log: late_ids decides, by one insert for all of them
--   class 9  anything else, and a class 2 partition of which an id was already there: push_slow
--   +1       the partition is `odd` (see migrate/0001_schema.sql)
CREATE OR REPLACE FUNCTION queend.push(p_version bigint, p_lanes int[], p_part int[], p_skip int[], p_n int[], p_kind smallint[],
    p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[])
RETURNS TABLE (ord int, status smallint, base bigint, created_at bigint, dup_offset bigint[], dup_at bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_now     bigint;
    v_min     uuid;
    v_max     uuid;
    v_base    bigint[];
    v_high    uuid[];
    v_class   int[];
    v_worst   int;
    v_late    int;
    v_count   int;
    v_taken   int[];
    i         int;
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, lane) FROM unnest(p_lanes) AS lane;
    IF p_version <> 0 THEN
        SELECT c.version INTO v_version FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN QUERY SELECT -1, 9::smallint, v_version, 0::bigint, NULL::bigint[], NULL::bigint[];
            RETURN;
        END IF;
    END IF;
    v_now := queend.now_us();
    v_min := queend.id_bound(v_now - 60000000);
    v_max := queend.id_bound(v_now + 60000000);

    SELECT array_agg(h.next + g.skip),
           array_agg(CASE WHEN g.hi > h.high AND g.hi < v_max THEN g.hi ELSE h.high END),
           array_agg(h.class), max(h.class), sum(CASE WHEN h.class BETWEEN 2 AND 3 THEN g.n ELSE 0 END)
      INTO v_base, v_high, v_class, v_worst, v_late
      FROM (SELECT * FROM unnest(p_part, p_skip, p_n, p_kind, p_lo, p_hi) AS u (part, skip, n, kind, lo, hi)) AS g
      CROSS JOIN LATERAL (
        SELECT COALESCE(t.next, (SELECT f.floor FROM queend.floors f WHERE f.partition_id = g.part), 0) AS next,
               COALESCE(t.high, '00000000-0000-0000-0000-000000000000') AS high,
               CASE WHEN t.created_at > v_now THEN 9
                    WHEN g.kind = 0 AND g.lo >= v_min AND g.hi < v_max THEN CASE WHEN t.odd THEN 1 ELSE 0 END
                    WHEN g.kind = 1 AND g.lo >= v_min AND g.hi < v_max AND (t.odd IS NULL OR NOT t.odd AND g.lo > t.high) THEN 0
                    WHEN g.kind = 2 THEN CASE WHEN t.odd THEN 3 ELSE 2 END
                    WHEN g.kind < 2 AND g.lo >= v_max THEN 3
                    ELSE 9 END AS class
          FROM (SELECT 1) AS always
          LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.high, l.odd, l.created_at FROM queend.log l
                              WHERE l.partition_id = g.part ORDER BY l.base DESC LIMIT 1) AS t ON true) AS h;

    IF v_late > 0 THEN
        INSERT INTO queend.late_ids (position, partition_id, id)
        SELECT g.base + k, g.part, substr(g.ids, 16 * k + 1, 16)
          FROM unnest(p_part, p_n, p_ids, v_base, v_class) AS g (part, n, ids, base, class), generate_series(0, g.n - 1) AS k
         WHERE g.class BETWEEN 2 AND 3
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count < v_late THEN
            -- Offsets of this call are above all that exist, so what stands at another place was there before.
            SELECT array_agg(DISTINCT g.part) INTO v_taken
              FROM unnest(p_part, p_n, p_ids, v_base, v_class) AS g (part, n, ids, base, class)
              CROSS JOIN generate_series(0, g.n - 1) AS k
              JOIN queend.late_ids t ON t.partition_id = g.part AND t.id = substr(g.ids, 16 * k + 1, 16)
             WHERE g.class BETWEEN 2 AND 3 AND t.position <> g.base + k;
            DELETE FROM queend.late_ids t USING unnest(p_part, p_n, p_ids, v_base, v_class) AS g (part, n, ids, base, class),
                   generate_series(0, g.n - 1) AS k
             WHERE g.part = ANY (v_taken) AND g.class BETWEEN 2 AND 3
               AND t.partition_id = g.part AND t.id = substr(g.ids, 16 * k + 1, 16) AND t.position = g.base + k;
            SELECT array_agg(CASE WHEN g.part = ANY (v_taken) THEN 9 ELSE g.class END), 9 INTO v_class, v_worst
              FROM unnest(p_part, v_class) AS g (part, class);
        END IF;
    END IF;

    INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
    SELECT g.base, v_now, g.part, g.n, g.high, g.class & 1 = 1, g.ids, g.body, COALESCE(g.meta, '')
      FROM unnest(p_part, p_n, p_ids, p_body, p_meta, v_base, v_high, v_class) AS g (part, n, ids, body, meta, base, high, class)
     WHERE g.class < 9;

    RETURN QUERY
    SELECT g.ord::int - 1, 0::smallint, g.base, v_now, NULL::bigint[], NULL::bigint[]
      FROM unnest(v_base, v_class) WITH ORDINALITY AS g (base, class, ord) WHERE g.class < 9;

    IF v_worst = 9 THEN
        FOR i IN 1 .. cardinality(p_part) LOOP
            IF v_class[i] = 9 THEN
                RETURN QUERY SELECT i - 1, 1::smallint, s.base, s.created_at, s.dup_offset, s.dup_at
                               FROM queend.push_slow(p_part[i], p_n[i], p_ids[i], p_body[i], p_meta[i]) AS s;
            END IF;
        END LOOP;
    END IF;
END $$;
