-- Pop: claims records for waiting requests and reads them from the log. In: requests and their candidate partitions.
-- Out: rows of the log with the offsets to deliver. Owns the claim in queend.cursors. Locks: cursors ascending, with
-- SKIP LOCKED.

-- Claims and fetches records for many waiting requests at once. Parameters:
--   p_req, p_part, p_group, p_fresh   one per candidate, those of a request together and in order of preference;
--                                     p_fresh: the group may have no cursor there yet
--   r_budget, r_parts, …              one per request: most records, most partitions, acknowledge at once, lease id,
--                                     lease length, delayedProcessing and windowBuffer, all in µs
--   r_ttl_us                          older records are passed over as if they were gone (0, or NULL for all:
--                                     unlimited)
--   r_rate_us, r_burst                a partition delivers to the group one record per r_rate_us µs, and at most
--                                     r_burst at once (0, or NULL for all: unlimited).
-- Returns one row per candidate, or one per log row of a claimed candidate in offset order (ord: 0-based candidate). In
-- status:
--   1  claimed: deliver `take` records from offset `first`; base, n, ids, body, meta are the row as stored
--   0  nothing to deliver
--   2  leased (until) or locked (until = 0)
--   3  deliverable from `until` on
--   4  untouched, because earlier candidates sufficed; or changed during the call: look again
--   9  with ord -1: stale catalogue version (in base), nothing was done.
-- Column buried: number of the candidate's records that became dead letters before the delivery (NULL: 0).
--
-- 1. Offsets are gapless, so heads and cursors alone say how many records each candidate has. Running sums over them
--    pick the candidates that a request needs. Only those are locked, with SKIP LOCKED: a pop never waits for a lock on
--    a cursor. The cursor is read again under its lock, because it may have moved on, or back by a seek.
-- 2. A delivery has no gaps. It begins behind records that are deleted (queend.holes), addressed to another group or
--    done beyond a gap (cursors.beyond). Addressed records (queend.addressed) are searched if the floor of the
--    partition says that it has had some. A delivery ends before the next such record, and before the first record
--    whose delivery moment is in the future (queend.schedule). If that record is the next one, nothing is delivered.
--    After repeated lease expiries deliveries become narrow (lapse).
-- 3. Records are then read once, narrow and wide columns together. A request stops after 8 MB of payload (unpacked),
--    but gets at least its first row. The ends of requests (cut) are computed only for a call with more than 8 MB in
--    all. Running sums over all rows would sort and copy each row.
--
-- Cursors are written by INSERT … ON CONFLICT, which always goes by the primary key. While the table is small, an
-- UPDATE joined to its rows may be planned as a scan of all cursors.
--
-- A cursor is searched from the right end of its key, and the search ends at the first hit. While a snapshot is held
-- elsewhere, old versions of the cursor cannot be removed. Then the index has entries for hundreds of versions, and the
-- newest is the last. If the search used `=`, the planner would ignore the order.
--
-- Starting the statement costs as much as one request in it: each column of each step is paid for once more. So a step
-- lists only the columns it needs, and functions compute values that few queues have (a rate). A record passes four
-- steps. So columns of its candidate are taken from `locked` again, and columns that may be NULL stand last.
--
-- The column row_base is a hint: if no row begins there any more (an earlier release merged rows), the row is searched.
--
-- A rate is kept in the column of the pause. Column retry_until is the time from which one record may be delivered;
-- each r_rate_us later one more may be, up to r_burst. Each delivered record moves retry_until ahead by one step. So
-- the rate holds for all daemons without another column or row, and a partition that has to wait looks like a paused
-- one.
CREATE OR REPLACE FUNCTION queend.pop(p_version bigint, p_req int[], p_part int[], p_group int[], p_fresh boolean[],
    r_budget int[], r_parts int[], r_auto boolean[], r_lease uuid[], r_lease_us bigint[], r_delay_us bigint[],
    r_window_us bigint[], r_ttl_us bigint[] DEFAULT NULL, r_rate_us bigint[] DEFAULT NULL, r_burst int[] DEFAULT NULL)
RETURNS TABLE (ord int, status smallint, attempt int, first bigint, take int, base bigint, n int, created_at bigint,
               ids bytea, body bytea, meta bytea, head bigint, until bigint, buried int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version   bigint;
    v_holes     boolean;
    v_scheduled boolean;
    v_now       bigint;
BEGIN
    IF p_version <> 0 THEN
        SELECT c.version, c.holes, c.scheduled INTO v_version, v_holes, v_scheduled FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN QUERY SELECT -1, 9::smallint, 0, 0::bigint, 0, v_version, 0, 0::bigint, NULL::bytea, NULL::bytea,
                                NULL::bytea, 0::bigint, 0::bigint, NULL::int;
            RETURN;
        END IF;
    END IF;
    IF true = ANY (p_fresh) THEN
        PERFORM queend.cursors_open(p_part, p_group, p_fresh);
    END IF;
    v_now := queend.now_us();

    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT c.ord, c.req, c.part, c.grp, c.addressed, c.head, c.floor, c.first, LEAST(c.stop, c.at) AS stop,
               CASE WHEN c.until > 0 THEN c.until WHEN c.at <= c.first THEN queend.schedule_due(c.part, c.first, v_now)
                    ELSE 0 END AS until,
               CASE WHEN c.until > 0 THEN c.status WHEN c.at <= c.first THEN 3 WHEN LEAST(c.stop, c.at) > c.first THEN 1
                    ELSE 0 END AS status
          FROM (SELECT i.ord::int - 1 AS ord, i.req, i.part, i.grp, a.addressed, f.floor,
                       GREATEST(k.committed + 1, f.floor) AS first, h.next,
                       COALESCE(h.next, GREATEST(k.committed + 1, queend.head(i.part))) AS head,
                       CASE WHEN k.lease_until > v_now THEN 2 ELSE 3 END AS status,
                       CASE WHEN k.lease_until > v_now THEN k.lease_until
                            WHEN h.next IS NULL OR h.next <= k.committed + 1 THEN 0
                            WHEN k.retry_until > v_now THEN k.retry_until
                            WHEN h.created_at > v_now - r_window_us[i.req]
                                 AND queend.window_until(i.part, GREATEST(k.committed + 1, f.floor), h.created_at,
                                                         r_window_us[i.req]) > v_now
                            THEN queend.window_until(i.part, GREATEST(k.committed + 1, f.floor), h.created_at,
                                                     r_window_us[i.req])
                            WHEN f.delay > 0 THEN queend.delayed_until(i.part, GREATEST(k.committed + 1, f.floor),
                                                                     v_now - f.delay)
                            ELSE 0 END AS until,
                       CASE WHEN f.delay > 0 AND h.created_at > v_now - f.delay
                            THEN queend.offset_since(i.part, v_now - f.delay + 1)
                            ELSE COALESCE(h.next, 0) END AS stop,
                       CASE WHEN v_scheduled IS NOT FALSE
                            THEN queend.schedule_at(i.part, GREATEST(k.committed + 1, f.floor), r_budget[i.req], v_now)
                            END AS at
                  FROM unnest(p_req, p_part, p_group) WITH ORDINALITY AS i (req, part, grp, ord)
                  LEFT JOIN LATERAL (SELECT x.committed, x.row_base, x.lease_until, x.retry_until FROM queend.cursors x
                                      WHERE x.partition_id = i.part AND x.group_id >= i.grp AND x.group_id <= i.grp
                                      ORDER BY x.group_id DESC LIMIT 1) AS k ON true
                  LEFT JOIN LATERAL (SELECT x.floor, x.addressed FROM queend.floors x
                                      WHERE x.partition_id = i.part OFFSET 0) AS a ON true
                  LEFT JOIN LATERAL (SELECT GREATEST(a.floor,
                                                     CASE WHEN r_ttl_us IS NOT NULL AND r_ttl_us[i.req] > 0
                                                          THEN queend.live_from(i.part, k.row_base, k.committed + 1,
                                                                                v_now - r_ttl_us[i.req]) END) AS floor,
                                            r_delay_us[i.req] AS delay OFFSET 0) AS f ON true
                  LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.created_at FROM queend.log l
                                      WHERE l.partition_id = i.part AND l.base >= k.row_base
                                      ORDER BY l.base DESC LIMIT 1) AS h ON true) AS c),
    picked AS (
        SELECT s.ord, s.req, s.part, s.grp, s.head, s.first, s.stop, s.floor, s.addressed,
               COALESCE(sum(LEAST(s.stop - s.first, r_budget[s.req])::int) OVER w, 0) AS before,
               row_number() OVER w AS place
          FROM seen s WHERE s.status = 1
        WINDOW w AS (PARTITION BY s.req ORDER BY s.ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
    locked AS MATERIALIZED (
        SELECT p.ord, p.req, p.part, p.grp, p.head, s.first, s.first > k.first AS passed,
               COALESCE((SELECT y.base FROM queend.log y
                          WHERE y.partition_id = p.part AND y.base = GREATEST(k.row_base, p.floor)),
                        (SELECT y.base FROM queend.log y WHERE y.partition_id = p.part AND y.base <= k.first
                          ORDER BY y.base DESC LIMIT 1), 0) AS row_base,
               k.retry_until,
               LEAST(p.stop, s.first + r_budget[p.req] - p.before,
                     CASE WHEN r_rate_us IS NOT NULL
                          THEN s.first + queend.rate_room(r_rate_us, r_burst, p.req, k.retry_until, v_now) END,
                     CASE WHEN p.addressed THEN queend.given_until(p.part, p.grp, s.first, r_budget[p.req])
                          WHEN v_holes IS NOT FALSE THEN queend.hole_after(p.part, s.first) END,
                     s.stop,
                     -- The cursor has moved meanwhile, or passes over holes.
                     CASE WHEN v_scheduled IS NOT FALSE AND s.first <> p.first
                          THEN queend.schedule_at(p.part, s.first, r_budget[p.req], v_now) END) AS stop,
               CASE WHEN r_auto[p.req] THEN 1 WHEN k.lease_end > k.committed THEN k.attempt + 1 ELSE 1 END AS attempt,
               s.standing, s.buried
          FROM picked p
          CROSS JOIN LATERAL (SELECT x.committed, x.row_base, x.lease_until, x.lease_end, x.retry_until,
                                     x.consumed_at, x.attempt, x.beyond, x.standing,
                                     GREATEST(x.committed + 1, p.floor) AS first FROM queend.cursors x
                               WHERE x.partition_id = p.part AND x.group_id >= p.grp AND x.group_id <= p.grp
                                 AND x.lease_until <= v_now AND x.retry_until <= v_now
                               ORDER BY x.group_id DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS k
          -- These functions run rarely: for gaps, expired leases, deleted or addressed records.
          CROSS JOIN LATERAL (SELECT e.d[1] AS first, e.d[2] AS stop, e.d[3] AS standing, e.d[4]::int AS buried
                                FROM (SELECT CASE WHEN k.beyond IS NOT NULL OR k.standing OR k.lease_until > 0
                                                       AND k.lease_end > k.committed
                                                  THEN queend.delivery(p.part, p.grp, k.first, k.beyond, k.standing,
                                                                       k.lease_until, k.lease_end, k.committed,
                                                                       k.consumed_at)
                                                  WHEN p.addressed
                                                  THEN ARRAY[queend.due_from(p.part, p.grp, NULL, k.first)]
                                                  WHEN v_holes IS NOT FALSE
                                                  THEN ARRAY[queend.hole_end(p.part, k.first)]
                                                  ELSE ARRAY[k.first] END AS d OFFSET 0) AS e OFFSET 0) AS s
         WHERE p.before < r_budget[p.req] AND p.place <= r_parts[p.req]),
    fetched AS MATERIALIZED (
        SELECT c.ord, l.base, l.n, GREATEST(c.first, l.base) AS first, LEAST(c.stop, l.base + l.n) AS stop, l.size,
               c.req, c.attempt, l.created_at, c.head, l.ids, l.body, l.meta, c.buried
          FROM locked c
          JOIN LATERAL (SELECT x.base, x.n, x.created_at, x.ids, x.body, x.meta,
                               CASE WHEN octet_length(x.body) < 1900 AND get_byte(x.body, 0) = 16
                                         THEN octet_length(x.body)
                                    ELSE queend.body_size(x.body) END + octet_length(x.meta) AS size
                          FROM queend.log x WHERE x.partition_id = c.part AND x.base >= c.row_base
                           AND x.base < c.stop AND x.base + x.n > c.first
                         ORDER BY x.base) AS l ON c.stop > c.first),
    spans AS MATERIALIZED (
        SELECT f.ord, min(f.first) AS first, max(f.stop) AS stop, min(f.base) AS row_base, max(f.base) AS last_base,
               max(f.base + f.n) AS row_end, sum(f.size) AS size
          FROM fetched f GROUP BY f.ord),
    cut AS MATERIALIZED (
        SELECT CASE WHEN (SELECT sum(s.size) FROM spans s) > 8388608      -- rare: 8 MB
                    THEN (SELECT queend.pop_cut(array_agg(f.req), array_agg(f.ord), array_agg(f.base),
                                                array_agg(f.size)) FROM fetched f) END AS at),
    claim AS (
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_id, lease_until, lease_end,
                                         attempt, consumed_at, standing, retry_until)
        SELECT d.part, d.grp, CASE WHEN d.auto THEN d.stop - 1 ELSE d.committed END,
               CASE WHEN NOT d.auto THEN d.row_base WHEN d.row_end = d.stop THEN d.stop ELSE d.last_base END,
               CASE WHEN d.auto THEN '00000000-0000-0000-0000-000000000000' ELSE r_lease[d.req] END,
               CASE WHEN d.auto THEN 0 ELSE v_now + r_lease_us[d.req] END, d.stop - 1, d.attempt, v_now,
               CASE WHEN d.standing = 1 THEN true END,
               CASE WHEN r_rate_us IS NULL THEN d.retry_until
                    ELSE queend.rate_next(r_rate_us, r_burst, d.req, d.retry_until, v_now, d.stop - 1 - d.committed) END
          FROM (SELECT c.req, c.part, c.grp, r_auto[c.req] AS auto, g.stop, g.committed, g.row_base, g.last_base,
                       g.row_end, c.attempt, c.standing, c.retry_until
                  FROM (SELECT s.ord, LEAST(s.stop, ((SELECT x.at FROM cut x))[s.ord + 1]) AS stop,
                               s.first - 1 AS committed, s.row_base, s.last_base,
                               LEAST(s.row_end, ((SELECT x.at FROM cut x))[s.ord + 1]) AS row_end
                          FROM spans s WHERE (((SELECT x.at FROM cut x))[s.ord + 1] > s.first) IS NOT FALSE) AS g
                  JOIN locked c ON c.ord = g.ord
                UNION ALL      -- nothing but deleted records: the cursor passes them
                SELECT c.req, c.part, c.grp, true, c.first, c.first - 1, c.row_base, c.row_base, 0, 0, c.standing,
                       c.retry_until
                  FROM locked c WHERE c.passed AND c.stop <= c.first) AS d
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET committed = excluded.committed, row_base = excluded.row_base, lease_id = excluded.lease_id,
               lease_until = excluded.lease_until, lease_end = excluded.lease_end, attempt = excluded.attempt,
               consumed_at = v_now, standing = excluded.standing, retry_until = excluded.retry_until,
               retries = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.retries END,
               beyond = CASE WHEN k.beyond IS NOT NULL
                                  THEN NULLIF(k.beyond * int8multirange(int8range(excluded.committed + 1, NULL)),
                                              '{}') END)
    SELECT e.ord, 1::smallint, e.attempt, e.first, (e.stop - e.first)::int, e.base, e.n, e.created_at,
           e.ids, e.body, NULLIF(e.meta, ''), e.head, 0::bigint, e.buried
      FROM fetched e
     WHERE (e.base < ((SELECT x.at FROM cut x))[e.ord + 1]) IS NOT FALSE
    UNION ALL
    -- Candidates without a delivery. A candidate that was not chosen, or that the byte limit cut off, is untouched (4).
    -- A chosen candidate that is not locked here is locked by another transaction (2). The records of a locked
    -- candidate were consumed meanwhile: 0 at the head, 4 (look again) before records that have to wait.
    SELECT s.ord,
           CASE WHEN s.status <> 1 THEN s.status WHEN o.ord IS NULL THEN 4 WHEN o.stop IS NULL THEN 2
                WHEN o.stop <= o.first AND o.first >= s.head THEN 0 ELSE 4 END::smallint,
           0, 0::bigint, 0, 0::bigint, 0, 0::bigint, NULL, NULL, NULL, COALESCE(s.head, 0),
           CASE WHEN s.status <> 1 THEN COALESCE(s.until, 0) ELSE 0 END, o.buried
      FROM seen s
      LEFT JOIN (SELECT p.ord, c.first, c.stop, c.buried FROM picked p LEFT JOIN locked c ON c.ord = p.ord
                  WHERE p.before < r_budget[p.req] AND p.place <= r_parts[p.req]) AS o ON o.ord = s.ord
     WHERE s.ord NOT IN (SELECT k.ord FROM spans k
                          WHERE (((SELECT x.at FROM cut x))[k.ord + 1] > k.first) IS NOT FALSE);

    IF '80000000-0000-0000-0000-000000000000' > ANY (r_lease) THEN      -- some lease id does not name its partition
        IF true = ANY (p_fresh) OR true = ANY (r_auto) THEN
            PERFORM queend.leases_keep(ARRAY(SELECT r_lease[i.req] FROM unnest(p_req) WITH ORDINALITY AS i (req, ord)
                                              ORDER BY i.ord), p_part, p_group, false);
        ELSIF pg_current_xact_id_if_assigned() IS NOT NULL THEN      -- otherwise nothing was locked
            PERFORM queend.leases_note(ARRAY(SELECT r_lease[i.req] FROM unnest(p_req) WITH ORDINALITY AS i (req, ord)
                                              ORDER BY i.ord), p_part, p_group);
        END IF;
    END IF;
    -- The first delivery moment was stored, or the first record deleted, during this statement: the caller tries again.
    IF (NOT v_scheduled OR NOT v_holes)
       AND (SELECT c.scheduled <> v_scheduled OR c.holes <> v_holes FROM queend.catalog c) THEN
        RAISE serialization_failure
              USING MESSAGE = 'delivery moments or deleted records came while their absence was relied on';
    END IF;
END $$;

-- Returns when the record at an offset leaves its delay: 0 if it was stored at or before p_ripe. Otherwise the wait is
-- the time between p_ripe and its storage, counted from now.
CREATE OR REPLACE FUNCTION queend.delayed_until(p_part int, p_offset bigint, p_ripe bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
    SELECT CASE WHEN t.at > p_ripe THEN queend.now_us() + t.at - p_ripe ELSE 0 END
      FROM queend.log l
      CROSS JOIN LATERAL queend.record_time(l.created_at, l.meta, GREATEST(p_offset - l.base, 0)) AS t (at)
     WHERE l.partition_id = p_part AND l.base + l.n > p_offset
       AND l.base >= COALESCE((SELECT b.base FROM queend.log b WHERE b.partition_id = p_part AND b.base <= p_offset
                                ORDER BY b.base DESC LIMIT 1), 0)
     ORDER BY l.base LIMIT 1);
END $$;

-- Returns the first offset of a partition at or after p_next whose record was stored, or could first be delivered, at
-- or after p_at. Returns the head if every record is older. Parameter p_base: a row of the log not above that of
-- p_next. If that row is young enough, as while consumers keep up, one probe suffices.
CREATE OR REPLACE FUNCTION queend.live_from(p_part int, p_base bigint, p_next bigint, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row record;
    v_to  bigint;
BEGIN
    SELECT l.base, l.n, l.created_at, l.meta INTO v_row FROM queend.log l
     WHERE l.partition_id = p_part AND l.base >= p_base ORDER BY l.base LIMIT 1;
    IF NOT FOUND OR queend.record_time(v_row.created_at, v_row.meta, GREATEST(p_next - v_row.base, 0)::int) >= p_at THEN
        RETURN p_next;
    END IF;
    v_to := GREATEST(p_next, queend.offset_since(p_part, p_at));
    RETURN COALESCE(queend.schedule_since(p_part, p_next, v_to, p_at), v_to);
END $$;

-- Limits the next delivery of a cursor that has records done beyond a gap or whose lease expired (due_from, lapse).
-- Returns an array: first record; end (offset behind the last record, NULL: no bound); 1 if cursors.standing is to be
-- set. The last element is the number of records that became dead letters. Requires the cursor's row.
CREATE OR REPLACE FUNCTION queend.delivery(p_part int, p_group int, p_first bigint, p_beyond int8multirange,
    p_standing boolean, p_lease_until bigint, p_lease_end bigint, p_committed bigint, p_taken bigint) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_first bigint := queend.due_from(p_part, p_group, p_beyond, p_first);
    z       record;
BEGIN
    IF NOT (p_standing IS TRUE OR p_lease_until > 0 AND p_lease_end > p_committed) THEN
        RETURN ARRAY[v_first, queend.done_after(p_beyond, v_first), NULL];
    END IF;
    SELECT x.* INTO z FROM queend.lapse(p_part, p_group, p_lease_until, p_lease_end, p_taken, p_beyond, v_first) AS x;
    RETURN ARRAY[z.first, LEAST(queend.done_after(p_beyond, z.first), z.first + z.most), z.standing::int, z.buried];
END $$;

-- Returns how many records a rate lets a request take now, NULL without a rate.
CREATE OR REPLACE FUNCTION queend.rate_room(r_rate_us bigint[], r_burst int[], p_req int, p_retry_until bigint,
    p_now bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN r_rate_us[p_req] > 0
                THEN LEAST((p_now - p_retry_until) / r_rate_us[p_req] + 1, r_burst[p_req]) END;
END $$;

-- Returns when the next record may be delivered after a request took p_taken records: the new retry_until of the
-- cursor.
CREATE OR REPLACE FUNCTION queend.rate_next(r_rate_us bigint[], r_burst int[], p_req int, p_retry_until bigint,
    p_now bigint, p_taken bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN r_rate_us[p_req] > 0
                THEN GREATEST(p_retry_until, p_now - r_rate_us[p_req] * (r_burst[p_req] - 1))
                     + r_rate_us[p_req] * p_taken
                ELSE p_retry_until END;
END $$;

-- Returns when a partition with a windowBuffer (p_window, µs) may be delivered from p_first on. That is when it was
-- quiet for that long after its newest record (stored at p_newest). At the latest, that is when the record at p_first
-- is five times as old, so a partition that is always fed is delivered, too.
CREATE OR REPLACE FUNCTION queend.window_until(p_part int, p_first bigint, p_newest bigint, p_window bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN LEAST(p_newest + p_window,
                 (SELECT queend.record_time(l.created_at, l.meta, p_first - l.base) FROM queend.log l
                   WHERE l.partition_id = p_part AND l.base <= p_first ORDER BY l.base DESC LIMIT 1) + 5 * p_window);
END $$;

-- Returns where the candidates of a pop end whose requests have too many bytes. Element 1 is of ord 0: the base of the
-- first row left out, NULL if every row is delivered. The input arrays have one element per row: request, candidate,
-- base and bytes. A request ends with the row that fills its 8 MB, and always has its first row.
CREATE OR REPLACE FUNCTION queend.pop_cut(p_req int[], p_ord int[], p_base bigint[], p_size int[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(c.base ORDER BY g.ord)
      FROM generate_series(0, (SELECT max(m) FROM unnest(p_ord) AS m)) AS g (ord)
      LEFT JOIN (SELECT w.ord, min(w.base) AS base
                   FROM (SELECT u.ord, u.base, sum(u.size) OVER (PARTITION BY u.req ORDER BY u.ord, u.base
                                                                  ROWS BETWEEN UNBOUNDED PRECEDING
                                                                       AND 1 PRECEDING) AS before
                           FROM unnest(p_req, p_ord, p_base, p_size) AS u (req, ord, base, size)) AS w
                  WHERE w.before >= 8388608 GROUP BY w.ord) AS c ON c.ord = g.ord
$$;
