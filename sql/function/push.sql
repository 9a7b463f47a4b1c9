-- Push: appends batches of records to the log. In: batch rows, and claims for waiting pops. Out: offsets, or the older
-- records that are duplicated. Owns the inserts into queend.log, and into queend.late_ids the ids that the log cannot
-- prove. Locks: the lanes of its partitions, ascending, until the end of the transaction; then the claimed cursors,
-- with SKIP LOCKED.

-- Appends record batches. The arrays have one element per batch row: at most 1000 consecutive records of one partition.
-- A partition may have several rows in a call. Parameters:
--   p_version  the caller's catalogue version, 0: not checked. A stale caller gets one row (ord -1, status 9, the
--              current version in base), and nothing is stored.
--   p_lanes    The lanes (partition id & 63) of all partitions, ascending.
--   p_skip     Number of records of the same partition in earlier rows of this call.
--   p_kind     Of the whole partition: 0 ids made by the caller, 1 only version-7 ids, 2 no version-7 id, 3 mixed.
--   p_lo, p_hi Smallest and largest version-7 id of the whole partition.
--   p_hint     An offset at which a row of the partition begins or began, the newest one the caller knows, 0: unknown.
--              The newest row is searched from there on, instead of among all rows that share its leaf page. Other
--              values:
--              -2 - offset: the same hint; and `seen` of a row stored by step 1 returns its `high`, NULL if the row is
--              odd.
--              -1: heads are named (step 0). Then p_hint is -1 for all rows of the call. push_due does not allow -1.
--   p_claim_*  Deliveries to waiting pops in the same transaction. Each has the row of p_part (from 1) where a
--              partition begins, the consumer group, the number of records, whether these are all records of the
--              partition in this call, the lease id, and the lease length in µs (0: acknowledged at once).
--              A claim is made only if step 0 or 1 stored every row of the call. The cursor must stand right before
--              that row, unlocked, without a lease and without a pause; or group and partition are new to each other. A
--              pop after the commit would find the same. Each claim made adds a result row: status 2, ord = partition,
--              base = group, seen = ctid of the cursor, for ack_leased.
--   p_known, p_known_at  What the caller remembers of the partition's ids that are not version 7:
--              > 0: all of them up to this offset, the end of a row stored at p_known_at; no id of this call is among
--              them.
--              -2 - offset: as > 0, but ids of this call may be among them. Such ids are at p_look_from <= offset <
--              p_look_to, given for the row p_look_row of p_part (from 1). The value -2 begins to remember.
--              0: nothing yet. The caller will remember if some daemon does already (then late_ids lacks ids).
--              -1: nothing, for want of room. So late_ids must hold all ids.
--              NULL: nothing, now and later.
--   p_compares The caller can compare ids with rows of the log itself (status 4).
-- Returns one row per batch row, by status:
--   0          Stored as a whole: record i has the offset base + i.
--   1          Some records may be duplicates. In dup_offset[i]: the offset of the older record, or -1. In dup_at[i]:
--              the time of the older record, negative if that record was deleted. The other records got base, base + 1,
--              … in order (base -1: all are duplicates).
--   3          Nothing of the partition was stored. Either a compressed row, which cannot be cut here, holds or may
--              hold a duplicate beside a new record. Or the caller must first learn ids (`seen`), or late_ids must
--              first list them. The caller takes over `seen` and sends the records of the partition again,
--              uncompressed. `seen`: ids that a remembering caller did not know yet (ids_seen).
--   4          Only with p_compares: nothing of the partition was stored. The result row describes a row of the log
--              that may hold its records. In ord: the partition's first batch row. In base and created_at: those of the
--              row of the log. In `seen`: its ids. In dup_at: the times of its records (NULL: all are created_at). If
--              the rows of status 4 hold all ids of the partition, its records are duplicates. Otherwise the caller
--              sends the records again without p_compares.
--
-- The lanes are held until the end of the transaction. So offsets are given in commit order, and no other transaction
-- can write the checked ids meanwhile.
--   0. Heads are named: no row is searched. The caller names in p_known the head of each partition: the end of a row
--      that was stored at p_known_at and is not odd. The id p_hi is at least `high` of that row. If p_kind is not 0,
--      every id is above `high` or remembered. If all is stored, one row says so: ord -2, status 0, the time in
--      created_at. Otherwise nothing is stored. Error 23505: a row begins at such a head, because another daemon wrote
--      it. Error QD409: every other reason.
--      A head that is too low is safe. A row written since begins there, and the primary key refuses a second row. If
--      retention took that row, it raised the floor with it, and the look at the floor after the insert sees that. The
--      insert waits for a retention that is removing the row, and its own snapshot is older. A head that is too high
--      would leave a gap. So the caller names only a head that it stored itself in this incarnation of the server.
--   1. The newest row of the partition proves every id new. Either the ids are timely and above every timely id of the
--      partition, or the caller made them. The batch is inserted at once. Each row is looked up and inserted before the
--      next, while the leaf page that both steps need is in the processor's cache. A hint above every row proves
--      nothing. The newest row also suffices if the caller remembers the other ids and the partition's head is the one
--      it knows.
--   2. Every other batch row. If none of the ids can be in the log, late_ids decides by one insert for all partitions.
--      That is so if none is version 7, or all are of the far future. Ids are looked up before: under the lane no other
--      transaction inserts, and ON CONFLICT costs more. All other rows, and partitions with an id found there, go to
--      ids_held. It runs once for all records of a partition, so the cost of a look-up does not depend on the number of
--      rows. Then push_rest appends the new records.
--      If p_compares is true, ids sent again go to the caller instead: version-7 ids (ids_near), and others that the
--      caller can place. The caller can place ids if it remembers the whole partition and knows a place for each
--      (ids_placed). The caller gets at most eight ids of the log for each of its own, and 200 000 more for all
--      partitions together.
CREATE OR REPLACE FUNCTION queend.push(p_version bigint, p_lanes int[], p_part int[], p_skip int[], p_n int[],
    p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    p_hint bigint[] DEFAULT NULL, p_claim_row int[] DEFAULT NULL, p_claim_group int[] DEFAULT NULL,
    p_claim_take int[] DEFAULT NULL, p_claim_whole boolean[] DEFAULT NULL,
    p_claim_lease uuid[] DEFAULT NULL, p_claim_us bigint[] DEFAULT NULL,
    p_known bigint[] DEFAULT NULL, p_known_at bigint[] DEFAULT NULL,
    p_look_row int[] DEFAULT '{}', p_look_from bigint[] DEFAULT '{}',
    p_look_to bigint[] DEFAULT '{}', p_compares boolean DEFAULT false)
RETURNS TABLE (ord int, status smallint, base bigint, created_at bigint, dup_offset bigint[], dup_at bigint[],
               seen bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_now     bigint;
    v_min     uuid;
    v_max     uuid;
    v_done    int[];
    v_base    bigint[];
    v_named   boolean := -1 = ANY (p_hint);
    v_tells   boolean := -2 >= ANY (p_hint);
    v_claimed boolean;
BEGIN
    IF cardinality(p_lanes) > 1 THEN
        PERFORM pg_advisory_xact_lock(1903519076, lane) FROM unnest(p_lanes) AS lane;
    ELSIF pg_advisory_xact_lock(1903519076, p_lanes[1]) IS NULL THEN      -- an expression needs no executor
    END IF;
    IF p_version <> 0 THEN
        SELECT c.version INTO v_version FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN QUERY SELECT -1, 9::smallint, v_version, 0::bigint, NULL::bigint[], NULL::bigint[], NULL::bytea;
            RETURN;
        END IF;
    END IF;
    v_now := queend.now_us();
    v_min := queend.id_bound(v_now - 60000000);
    v_max := queend.id_bound(v_now + 60000000);

    IF v_named THEN
        -- The comparison with p_lo is NULL if a partition has no version-7 id.
        v_named := (v_min <= ALL (p_lo)) IS NOT FALSE AND v_max > ALL (p_hi) AND v_now >= ALL (p_known_at);
        IF v_named THEN
            INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
            SELECT u.known + u.skip, v_now, u.part, u.n, u.hi, false, u.ids, u.body, COALESCE(u.meta, '')
              FROM (SELECT unnest(p_part) AS part, unnest(p_skip) AS skip, unnest(p_n) AS n, unnest(p_hi) AS hi,
                           unnest(p_ids) AS ids, unnest(p_body) AS body, unnest(p_meta) AS meta,
                           unnest(p_known) AS known) AS u;
            PERFORM FROM (SELECT unnest(p_part) AS part, unnest(p_known) AS known) AS u
              CROSS JOIN LATERAL (SELECT FROM queend.floors f
                                   WHERE f.partition_id = u.part AND f.floor > u.known OFFSET 0) AS f;
            v_named := NOT FOUND;
        END IF;
        IF v_named IS NOT TRUE THEN
            RAISE EXCEPTION USING ERRCODE = 'QD409', MESSAGE = 'a head that was named is another, or does not suffice';
        END IF;
        v_done := p_part;
        IF p_claim_row IS NOT NULL THEN
            v_base := CASE WHEN 0 = ALL (p_skip) THEN p_known
                           ELSE ARRAY(SELECT u.known + u.skip FROM unnest(p_known, p_skip) WITH ORDINALITY
                                                                   AS u (known, skip, ord) ORDER BY u.ord) END;
        END IF;
    ELSIF 0 = ANY (p_kind) OR 1 = ANY (p_kind) OR 0 < ANY (p_known) THEN
        WITH stored AS (
            INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
            SELECT COALESCE(t.next, (SELECT f.floor FROM queend.floors f WHERE f.partition_id = u.part), 0) + u.skip,
                   v_now, u.part, u.n, GREATEST(u.hi, t.high), COALESCE(t.odd, false), u.ids, u.body,
                   COALESCE(u.meta, '')
              FROM (SELECT unnest(p_part) AS part, unnest(p_skip) AS skip, unnest(p_n) AS n, unnest(p_kind) AS kind,
                           unnest(p_lo) AS lo, unnest(p_hi) AS hi, unnest(p_ids) AS ids, unnest(p_body) AS body,
                           unnest(p_meta) AS meta, unnest(p_hint) AS hint, unnest(p_known) AS known,
                           unnest(p_known_at) AS known_at) AS u
              LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.high, l.odd, l.created_at FROM queend.log l
                                  WHERE l.partition_id = u.part AND l.base >= COALESCE(GREATEST(u.hint, -2 - u.hint), 0)
                                  ORDER BY l.base DESC LIMIT 1) AS t ON true
             WHERE (u.kind = 2 OR u.lo >= v_min AND u.hi < v_max)
               AND (u.kind < 2 OR t.next = u.known AND t.created_at = u.known_at)
               AND (t.next IS NULL AND COALESCE(u.hint IN (0, -2), true)
                    OR t.created_at <= v_now AND (u.kind = 0 OR u.kind = 2 OR NOT t.odd AND u.lo > t.high))
            RETURNING partition_id, base)
        SELECT array_agg(partition_id), array_agg(base) INTO v_done, v_base FROM stored;
    END IF;
    IF cardinality(v_done) = cardinality(p_part) THEN      -- RETURNING keeps the order of the batch rows
        IF v_named THEN
            ord := -2;
            status := 0;
            base := 0;
            created_at := v_now;
            RETURN NEXT;
        ELSIF v_tells THEN      -- only on request: costs another probe per row
            RETURN QUERY
            SELECT r.ord::int - 1, 0::smallint, r.base, v_now, NULL::bigint[], NULL::bigint[],
                   CASE WHEN p_hint[r.ord] < -1
                        THEN (SELECT uuid_send(l.high) FROM queend.log l
                               WHERE l.partition_id = p_part[r.ord] AND l.base = r.base AND NOT l.odd) END
              FROM unnest(v_base) WITH ORDINALITY AS r (base, ord);
        ELSIF cardinality(v_done) = 1 THEN
            ord := 0;
            status := 0;
            base := v_base[1];
            created_at := v_now;
            RETURN NEXT;
        ELSE
            RETURN QUERY
            SELECT r.ord::int - 1, 0::smallint, r.base, v_now, NULL::bigint[], NULL::bigint[], NULL::bytea
              FROM unnest(v_base) WITH ORDINALITY AS r (base, ord);
        END IF;
        IF p_claim_row IS NULL THEN
            RETURN;
        END IF;
        -- Updates by ctid under the lock just taken: one probe of the key, where ON CONFLICT would need two.
        RETURN QUERY
        UPDATE queend.cursors AS k
           SET committed = f.base - 1 + CASE WHEN f.us = 0 THEN f.take ELSE 0 END,
               row_base = f.base + CASE WHEN f.us = 0 AND f.whole THEN f.take ELSE 0 END,
               lease_id = CASE WHEN f.us = 0 THEN '00000000-0000-0000-0000-000000000000' ELSE f.lease END,
               lease_until = CASE WHEN f.us = 0 THEN 0 ELSE v_now + f.us END,
               lease_end = f.base - 1 + f.take, attempt = 1, consumed_at = v_now,
               retries = CASE WHEN f.us = 0 THEN 0 ELSE k.retries END
          FROM (SELECT c.*, v_base[c.row] AS base, x.at
                  FROM (SELECT unnest(p_claim_row) AS row, unnest(p_claim_group) AS grp, unnest(p_claim_take) AS take,
                               unnest(p_claim_whole) AS whole, unnest(p_claim_lease) AS lease,
                               unnest(p_claim_us) AS us) AS c
                 CROSS JOIN LATERAL (SELECT x.ctid AS at FROM queend.cursors x
                                      WHERE x.partition_id = p_part[c.row] AND x.group_id = c.grp
                                        AND queend.cursor_free(x, v_base[c.row], v_now)
                                        FOR NO KEY UPDATE SKIP LOCKED) AS x) AS f
         WHERE k.ctid = f.at
        RETURNING k.partition_id, 2::smallint, k.group_id::bigint, v_now, NULL::bigint[], NULL::bigint[],
                  tidsend(k.ctid);
        v_claimed := FOUND;
        IF 0 = ANY (v_base) THEN       -- new partitions, whose cursors may be new too
            RETURN QUERY
            INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_id, lease_until,
                                             lease_end, attempt, consumed_at)
            SELECT p_part[c.row], c.grp, v_base[c.row] - 1 + CASE WHEN c.us = 0 THEN c.take ELSE 0 END,
                   v_base[c.row] + CASE WHEN c.us = 0 AND c.whole THEN c.take ELSE 0 END,
                   CASE WHEN c.us = 0 THEN '00000000-0000-0000-0000-000000000000' ELSE c.lease END,
                   CASE WHEN c.us = 0 THEN 0 ELSE v_now + c.us END, v_base[c.row] - 1 + c.take, 1, v_now
              FROM unnest(p_claim_row, p_claim_group, p_claim_take, p_claim_whole, p_claim_lease, p_claim_us) AS c (row,
                      grp, take, whole, lease, us)
             WHERE v_base[c.row] = 0
               AND NOT EXISTS (SELECT FROM queend.cursors x WHERE x.partition_id = p_part[c.row] AND x.group_id = c.grp)
               AND (SELECT COALESCE(g.start_at, 0) <= v_now FROM queend.consumer_groups g WHERE g.id = c.grp)
            ON CONFLICT (partition_id, group_id) DO UPDATE
               SET committed = excluded.committed, row_base = excluded.row_base, lease_id = excluded.lease_id,
                   lease_until = excluded.lease_until, lease_end = excluded.lease_end, attempt = excluded.attempt,
                   consumed_at = excluded.consumed_at,
                   retries = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.retries END
             WHERE queend.cursor_free(k, 0, v_now)      -- a pop may have made and claimed the cursor meanwhile
            RETURNING k.partition_id, 2::smallint, k.group_id::bigint, v_now, NULL::bigint[], NULL::bigint[],
                      tidsend(k.ctid);
        END IF;
        -- If a lease id does not name its partition, its cursors are remembered.
        IF (v_claimed OR FOUND) AND '80000000-0000-0000-0000-000000000000' > ANY (p_claim_lease) THEN
            PERFORM queend.leases_note(p_claim_lease,
                                       -- usual case: one claim per row, all of one group
                                       CASE WHEN cardinality(p_claim_row) = cardinality(p_part)
                                                 AND p_claim_group[1] = ALL (p_claim_group) THEN p_part
                                            ELSE ARRAY(SELECT p_part[c.row] FROM unnest(p_claim_row) AS c (row)) END,
                                       p_claim_group);
        END IF;
        RETURN;
    END IF;

    IF v_done IS NOT NULL THEN
        RETURN QUERY
        SELECT a.ord::int - 1, 0::smallint, d.base, v_now, NULL::bigint[], NULL::bigint[], NULL::bytea
          FROM (SELECT u.*, row_number() OVER (PARTITION BY u.part ORDER BY u.skip) AS chunk
                  FROM unnest(p_part, p_skip) WITH ORDINALITY AS u (part, skip, ord)) AS a
          JOIN (SELECT u.*, row_number() OVER (PARTITION BY u.part ORDER BY u.base) AS chunk
                  FROM unnest(v_done, v_base) AS u (part, base)) AS d
            ON d.part = a.part AND d.chunk = a.chunk;
    END IF;
    RETURN QUERY
    WITH g AS MATERIALIZED (
        SELECT u.ord, u.part, u.skip, u.n, u.kind, u.lo, u.hi, u.ids, u.body, u.meta,
               COALESCE(t.high, '00000000-0000-0000-0000-000000000000') AS high,
               COALESCE(t.next, (SELECT f.floor FROM queend.floors f WHERE f.partition_id = u.part), 0)
                  + u.skip AS base,
               u.kind < 2 OR COALESCE(t.odd, false) AS odd, t.next IS NULL AND u.hint = 0 AS alone,
               u.known, u.known_at, COALESCE(t.created_at <= v_now, u.hint = 0)
               AND (u.kind < 2 AND u.lo >= v_max OR u.kind = 2 AND COALESCE(u.known, 0) BETWEEN -1 AND 0
                    AND (SELECT x.since FROM queend.unlisted x WHERE x.partition_id = u.part) IS NULL) AS late
          FROM (SELECT x.*, COALESCE(GREATEST(x.told, -2 - x.told), 0) AS hint
                  FROM unnest(p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta, p_hint, p_known,
                              p_known_at) WITH ORDINALITY
                       AS x (part, skip, n, kind, lo, hi, ids, body, meta, told, known, known_at, ord)) AS u
          LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.high, l.odd, l.created_at FROM queend.log l
                              WHERE l.partition_id = u.part AND l.base >= u.hint
                              ORDER BY l.base DESC LIMIT 1) AS t ON true
         WHERE v_done IS NULL OR u.part NOT IN (SELECT unnest(v_done))),
    late AS (
        INSERT INTO queend.late_ids (position, partition_id, id)
        SELECT g.base + k, g.part, substr(g.ids, 16 * k + 1, 16) FROM g, generate_series(0, g.n - 1) AS k
         WHERE g.late
           AND (SELECT e.position FROM queend.late_ids e
                 WHERE e.partition_id = g.part AND e.id = substr(g.ids, 16 * k + 1, 16)) IS NULL
        RETURNING partition_id),
    taken AS MATERIALIZED (
        SELECT c.part
          FROM (SELECT g.part, g.n AS missing FROM g WHERE g.late UNION ALL SELECT late.partition_id, -1 FROM late) AS c
         GROUP BY c.part HAVING sum(c.missing) > 0),
    stored AS (
        INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
        SELECT g.base, v_now, g.part, g.n, g.high, g.odd, g.ids, g.body, COALESCE(g.meta, '')
          FROM g WHERE g.late AND g.part NOT IN (SELECT t.part FROM taken t)),
    slow AS MATERIALIZED (
        SELECT g.*, a.before, a.seen, COALESCE(a.ready, true) AS ready
          FROM g
          LEFT JOIN LATERAL (SELECT * FROM queend.ids_prepare(g.part, g.known, g.known_at)
                              WHERE g.skip = 0 AND g.known IS NOT NULL) AS a
            ON true
         WHERE NOT g.late OR g.part IN (SELECT t.part FROM taken t)),
    part AS MATERIALIZED (
        SELECT k.part, min(k.ord) AS ord, bool_and(k.ready) AS ready, bool_and(k.alone) AS alone,
               bool_or(k.late) AS late, COALESCE(max(k.before), 0) AS before, min(k.kind) AS kind,
               (array_agg(k.lo))[1] AS lo, (array_agg(k.hi))[1] AS hi, string_agg(k.ids, '' ORDER BY k.skip) AS ids,
               array_agg(k.skip) FILTER (WHERE get_byte(k.body, 0) <> 16) AS skips,
               array_agg(k.n) FILTER (WHERE get_byte(k.body, 0) <> 16) AS ns,
               bool_or(octet_length(k.seen) > 16) AS learns
          FROM slow k GROUP BY k.part),
    look AS MATERIALIZED (
        SELECT p_part[l.r] AS part, array_agg(l.a) AS a, array_agg(l.b) AS b, min(l.a) AS first, max(l.b) AS stop,
               sum(l.b - l.a) AS places
          FROM unnest(p_look_row, p_look_from, p_look_to) AS l (r, a, b) GROUP BY 1),
    near AS MATERIALIZED (
        SELECT p.part, p.ord, r.base, r.created_at, r.times, r.ids
          FROM (SELECT x.*, w.first, w.stop,
                       octet_length(x.ids) / 2 + 200000 / count(*) OVER () AS most
                  FROM part x LEFT JOIN look w ON w.part = x.part
                 WHERE NOT x.late AND (x.kind < 2 OR x.kind = 2 AND x.ready AND NOT x.learns
                                                     AND w.places >= octet_length(x.ids) / 16)) AS p
         CROSS JOIN LATERAL (SELECT * FROM queend.ids_near(p.part, p.lo, p.hi, p.most) WHERE p.kind < 2
                             UNION ALL
                             SELECT * FROM queend.ids_placed(p.part, p.first, p.stop, p.most) WHERE p.kind = 2) AS r
         WHERE p_compares)
    SELECT g.ord::int - 1, 0::smallint, g.base, v_now, NULL::bigint[], NULL::bigint[], NULL::bytea
      FROM g WHERE g.late AND g.part NOT IN (SELECT t.part FROM taken t)
    UNION ALL
    SELECT n.ord::int - 1, 4::smallint, n.base, n.created_at, NULL::bigint[], n.times, n.ids FROM near n
    UNION ALL
    SELECT r.ord::int - 1, s.status, s.base, s.created_at, s.dup_offset, s.dup_at, r.seen
      FROM (SELECT k.ord, k.part, k.skip, k.n, k.ids, k.body, k.meta, k.known, k.late, k.seen, p.refused,
                   p.dup_offset[k.skip + 1 : k.skip + k.n] AS dup_offset, p.dup_at[k.skip + 1 : k.skip + k.n] AS dup_at
              FROM slow k
              JOIN (SELECT c.part, h.dup_offset, h.dup_at,
                           c.refused OR (SELECT bool_or(x.some AND NOT x.every)
                                           FROM unnest(c.skips, c.ns) AS f (skip, n)
                                          CROSS JOIN LATERAL (SELECT bool_or(d.at >= 0) AS some,
                                                                     bool_and(d.at >= 0) AS every
                                                                FROM unnest(h.dup_offset[f.skip + 1 : f.skip + f.n])
                                                                     AS d (at)) AS x) IS TRUE AS refused
                      FROM (SELECT g.*, NOT g.ready OR g.skips IS NOT NULL AND NOT g.alone AND g.before = 0
                                        AND EXISTS (SELECT FROM queend.unlisted x WHERE x.partition_id = g.part)
                                        AS refused
                              FROM part g WHERE g.part NOT IN (SELECT n.part FROM near n)) AS c
                      LEFT JOIN look w ON w.part = c.part
                      LEFT JOIN LATERAL queend.ids_held(c.part, c.kind, c.lo, c.hi, c.ids, c.before,
                                                        COALESCE(w.a, '{}'), COALESCE(w.b, '{}')) AS h ON NOT c.refused
                    OFFSET 0) AS p ON p.part = k.part
             ORDER BY k.part, k.skip) AS r
      CROSS JOIN LATERAL queend.push_rest(r.part, r.n, r.ids, r.body, r.meta, r.late, r.refused, r.known, r.dup_offset,
                                          r.dup_at) AS s;
END $$;

-- Appends one batch row without the records that are already stored. Returns a row as push does, with status 1. If
-- every record is a duplicate, base is -1 and the body is not read. Requires the partition's lane. Parameter p_late:
-- push put ids of the row into late_ids. Parameter p_refuse: store nothing of the row (status 3). Parameter p_known: as
-- in push. Parameters p_dup_offset, p_dup_at: as ids_held returns them, for the records of this row.
CREATE OR REPLACE FUNCTION queend.push_rest(p_part int, p_n int, p_ids bytea, p_body bytea, p_meta bytea,
    p_late boolean, p_refuse boolean, p_known bigint, p_dup_offset bigint[], p_dup_at bigint[],
    OUT status smallint, OUT base bigint, OUT created_at bigint, OUT dup_offset bigint[], OUT dup_at bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    zero    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_now   bigint := queend.now_us();
    v_loose boolean := EXISTS (SELECT FROM queend.unlisted u WHERE u.partition_id = p_part);
    v_high  uuid := zero;
    v_odd   boolean := false;
    v_keep  int[];
    v_ids   bytea;
    v_top   uuid;
    v_late  boolean;
    head    record;
BEGIN
    IF p_late THEN
        -- Removes ids that push put into late_ids before it met a conflict: their positions, at or above the head, have
        -- no row.
        DELETE FROM queend.late_ids t USING queend.id_spread(p_ids) AS i
         WHERE t.partition_id = p_part AND t.id = i.id AND t.position >= (SELECT queend.head(p_part));
    END IF;
    base := -1;
    created_at := v_now;
    status := CASE WHEN p_refuse THEN 3 ELSE 1 END;
    IF p_refuse THEN
        RETURN;
    END IF;
    dup_offset := COALESCE(p_dup_offset, array_fill(-1::bigint, ARRAY[p_n]));
    dup_at := COALESCE(p_dup_at, array_fill(0::bigint, ARRAY[p_n]));
    IF NOT -1 = ANY (dup_offset) THEN
        RETURN;
    END IF;
    SELECT array_agg(d.i::int - 1 ORDER BY d.i) INTO v_keep
      FROM unnest(dup_offset) WITH ORDINALITY AS d (at, i) WHERE d.at < 0;

    SELECT l.high, l.odd, l.created_at INTO head FROM queend.log l WHERE l.partition_id = p_part
     ORDER BY l.base DESC LIMIT 1;
    IF FOUND THEN
        v_high := head.high;
        v_odd := head.odd;
        v_now := GREATEST(v_now, head.created_at);   -- the clock may have stepped back, offsets do not
    END IF;
    created_at := v_now;
    base := queend.head(p_part);

    -- Stores the kept ids at their new places. `late`: ids that the log cannot prove and no daemon remembers.
    WITH k AS MATERIALIZED (
        SELECT u.ord::int - 1 AS ord, substr(p_ids, 16 * u.i + 1, 16) AS id,
               get_byte(p_ids, 16 * u.i + 6) >> 4 = 7 AS seven
          FROM unnest(v_keep) WITH ORDINALITY AS u (i, ord)),
    t AS MATERIALIZED (
        SELECT k.*, k.seven AND k.id >= uuid_send(queend.id_bound(v_now - 60000000))
                            AND k.id < uuid_send(queend.id_bound(v_now + 60000000)) AS timely FROM k),
    late AS (
        -- An entry below the floor is of a removed message: the id is free again, and this record takes the entry over.
        INSERT INTO queend.late_ids AS e (position, partition_id, id)
        SELECT base + t.ord, p_part, t.id FROM t
         WHERE NOT t.timely AND (t.seven OR NOT v_loose OR p_known = -1)
        ON CONFLICT (partition_id, id) DO UPDATE SET position = excluded.position)
    SELECT string_agg(t.id, '' ORDER BY t.ord), (max(encode(t.id, 'hex') COLLATE "C") FILTER (WHERE t.timely))::uuid,
           bool_or(t.seven AND NOT t.timely)
      INTO v_ids, v_top, v_late FROM t;

    INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
    VALUES (base, v_now, p_part, cardinality(v_keep), GREATEST(v_high, v_top), v_odd OR v_late, v_ids,
            CASE WHEN cardinality(v_keep) = p_n THEN p_body ELSE queend.body_pick(p_body, p_n, v_keep) END,
            CASE WHEN cardinality(v_keep) = p_n THEN COALESCE(p_meta, '') ELSE queend.meta_pick(p_meta, v_keep) END);
    IF p_known = -1 AND v_loose THEN
        DELETE FROM queend.unlisted u WHERE u.partition_id = p_part;
    END IF;
END $$;

-- Pushes a call in which some record has a delivery moment, and adds each stored row with extras to queend.schedule
-- (schedule_add). Takes the parameters and returns the rows of push.
CREATE OR REPLACE FUNCTION queend.push_due(p_version bigint, p_lanes int[], p_part int[], p_skip int[], p_n int[],
    p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    p_hint bigint[] DEFAULT NULL, p_claim_row int[] DEFAULT NULL, p_claim_group int[] DEFAULT NULL,
    p_claim_take int[] DEFAULT NULL, p_claim_whole boolean[] DEFAULT NULL,
    p_claim_lease uuid[] DEFAULT NULL, p_claim_us bigint[] DEFAULT NULL,
    p_known bigint[] DEFAULT NULL, p_known_at bigint[] DEFAULT NULL,
    p_look_row int[] DEFAULT '{}', p_look_from bigint[] DEFAULT '{}',
    p_look_to bigint[] DEFAULT '{}', p_compares boolean DEFAULT false)
RETURNS TABLE (ord int, status smallint, base bigint, created_at bigint, dup_offset bigint[], dup_at bigint[],
               seen bytea)
LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT *
          FROM queend.push(p_version, p_lanes, p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta, p_hint,
                           p_claim_row, p_claim_group,
                           p_claim_take, p_claim_whole, p_claim_lease, p_claim_us, p_known, p_known_at, p_look_row,
                           p_look_from, p_look_to, p_compares)
    LOOP
        IF r.status IN (0, 1) AND r.base >= 0 AND p_meta[r.ord + 1] IS NOT NULL THEN
            PERFORM queend.schedule_add(p_part[r.ord + 1], r.base);
        END IF;
        RETURN QUERY SELECT r.ord, r.status, r.base, r.created_at, r.dup_offset, r.dup_at, r.seen;
    END LOOP;
END $$;
