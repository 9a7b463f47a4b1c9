-- Transactions: pushes and acknowledgments, all or nothing. In: arrays of push and of ack. Out: their results, or why
-- nothing was changed. Locks: lanes ascending, then cursors ascending, until the end of the transaction.

-- Applies pushes and acknowledgments together or not at all. The push arrays are those of push, the a_ and f_ arrays
-- those of ack. Statuses 0 and 4 complete; 1 (failed) and 2 (dlq) both go to the dead letters at once. Parameters:
--   p_required                 Leases that must be live for anything to happen.
--   p_req_part, p_req_group    Cursors where these leases may be, besides where leases_find looks.
--   p_known, p_known_at, p_look_row, p_look_from, p_look_to   The ids that the caller remembers, as in push.
--   p_dry                      Only report whether the transaction would be refused, and change nothing.
-- Checks everything under its locks before the first change: lanes ascending, then cursors ascending. Returns rows:
--   kind 0  One per push row: status 0 stored (base, created_at), 1 a record is already there (dup_index: its place;
--           created_at -1 if it was deleted).
--   kind 1  One per ack row: codes, released, committed, head as in ack.
--   kind 2  One per required lease that is not live.
-- A kind 0 row of status 1, a code with 8, 16 or 64, or a kind 2 row says that nothing was changed. A row with ord -1
-- and status 9 says the same: the catalogue version is stale (current version in base). Rows of kind 0 with status 3:
-- nothing was checked yet. The caller has to learn ids, or late_ids has to list more ids. The caller takes over `seen`
-- (as in push) and sends the transaction again.
CREATE OR REPLACE FUNCTION queend.transaction(p_version bigint, p_lanes int[], p_part int[], p_skip int[], p_n int[],
    p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    a_part int[], a_group int[], a_lease uuid[], a_n int[], a_ids bytea[], a_status bytea[], f_row int[], f_idx int[],
    f_error text[], p_required uuid[], p_req_part int[], p_req_group int[],
    p_known bigint[] DEFAULT NULL, p_known_at bigint[] DEFAULT NULL,
    p_look_row int[] DEFAULT '{}', p_look_from bigint[] DEFAULT '{}',
    p_look_to bigint[] DEFAULT '{}', p_dry boolean DEFAULT false)
RETURNS TABLE (ord int, kind smallint, status smallint, base bigint, created_at bigint, codes bytea, released boolean,
               committed bigint, head bigint, dup_index int, seen bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_now     bigint;
    v_dup     int[];
    v_dead    uuid[];
    v_codes   bytea[];
    v_before  bigint[];
    v_seen    bytea[];
    v_ready   boolean := true;
    v_head    bigint[];
    v_at      bigint[];
    stored    record;
    i         int;
BEGIN
    PERFORM pg_advisory_xact_lock(1903519076, lane) FROM unnest(p_lanes) AS lane;
    IF p_version <> 0 THEN
        SELECT c.version INTO v_version FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN QUERY SELECT -1, 0::smallint, 9::smallint, v_version, 0::bigint, NULL::bytea, false, 0::bigint,
                                0::bigint, -1, NULL::bytea;
            RETURN;
        END IF;
    END IF;
    IF cardinality(p_known) > 0 THEN
        SELECT array_agg(g.before ORDER BY g.ord), array_agg(g.seen ORDER BY g.ord), bool_and(g.ready)
          INTO v_before, v_seen, v_ready
          FROM (SELECT u.ord, max(a.before) OVER (PARTITION BY u.part) AS before, a.seen, a.ready
                  FROM unnest(p_part, p_skip, p_kind, p_known, p_known_at) WITH ORDINALITY AS u (part, skip, kind,
                          known, known_at, ord)
                 CROSS JOIN LATERAL queend.ids_prepare(u.part, CASE WHEN u.skip = 0 AND u.kind > 1 THEN u.known END,
                                                       u.known_at) AS a) AS g;
    END IF;
    IF NOT v_ready THEN       -- before a cursor is locked: the caller sends the transaction again
        RETURN QUERY
        SELECT g.ord::int - 1, 0::smallint, 3::smallint, -1::bigint, 0::bigint, NULL::bytea, false, 0::bigint,
               0::bigint, -1, g.seen
          FROM unnest(v_seen) WITH ORDINALITY AS g (seen, ord);
        RETURN;
    END IF;
    PERFORM queend.cursors_lock(a_part || p_req_part, a_group || p_req_group);
    v_now := queend.now_us();

    SELECT array_agg(queend.push_duplicate(g.part, g.kind, g.lo, g.hi, g.ids, g.known > 0, COALESCE(g.before, 0),
                                           ARRAY(SELECT l.a FROM unnest(p_look_row, p_look_from) AS l (r, a)
                                                  WHERE l.r = g.ord),
                                           ARRAY(SELECT l.b FROM unnest(p_look_row, p_look_to) AS l (r, b)
                                                  WHERE l.r = g.ord)) ORDER BY g.ord) INTO v_dup
      FROM unnest(p_part, p_kind, p_lo, p_hi, p_ids, p_known, v_before) WITH ORDINALITY AS g (part, kind, lo, hi, ids,
              known, before, ord);
    v_dead := ARRAY(SELECT r.lease FROM unnest(p_required) AS r (lease)
                     WHERE NOT EXISTS (SELECT 1
                                         FROM queend.leases_find(ARRAY[r.lease], a_part || p_req_part,
                                                                 a_group || p_req_group) AS l
                                        WHERE l.lease_until > v_now));
    SELECT array_agg(queend.transaction_judge(g.part, g.grp, g.lease, g.ids, g.status, v_now) ORDER BY g.ord)
      INTO v_codes
      FROM unnest(a_part, a_group, a_lease, a_ids, a_status) WITH ORDINALITY AS g (part, grp, lease, ids, status, ord);

    IF p_dry OR v_dead <> '{}' OR EXISTS (SELECT 1 FROM unnest(v_dup) AS d WHERE d IS NOT NULL)
       OR EXISTS (SELECT 1 FROM unnest(v_codes) AS c WHERE rtrim(c, E'\\x01') <> '') THEN
        RETURN QUERY
        SELECT g.ord::int - 1, 0::smallint, CASE WHEN g.dup IS NULL THEN 0 ELSE 1 END::smallint, -1::bigint,
               CASE WHEN queend.id_deleted(g.part, substring(g.ids, 16 * g.dup + 1, 16)) THEN -1 ELSE 0 END::bigint,
               NULL::bytea, false, 0::bigint, 0::bigint, COALESCE(g.dup, -1), g.seen
          FROM unnest(p_part, p_ids, v_dup, v_seen) WITH ORDINALITY AS g (part, ids, dup, seen, ord)
        UNION ALL
        SELECT g.ord::int - 1, 1::smallint, 0::smallint, -1::bigint, 0::bigint, g.codes, false, 0::bigint, 0::bigint,
               -1, NULL::bytea
          FROM unnest(v_codes) WITH ORDINALITY AS g (codes, ord)
        UNION ALL
        SELECT r.ord::int - 1, 2::smallint, 1::smallint, -1::bigint, 0::bigint, NULL::bytea, false, 0::bigint,
               0::bigint, -1, NULL::bytea
          FROM unnest(p_required) WITH ORDINALITY AS r (lease, ord) WHERE r.lease = ANY (v_dead);
        RETURN;
    END IF;

    IF cardinality(p_part) > 0 THEN
        -- Every id is new (push_duplicate found nothing). If a daemon remembers ids (queend.unlisted), push must not
        -- search the log once more.
        SELECT array_agg(t.next ORDER BY g.ord), array_agg(t.created_at ORDER BY g.ord) INTO v_head, v_at
          FROM unnest(p_part) WITH ORDINALITY AS g (part, ord)
          LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.created_at FROM queend.log l
                              WHERE l.partition_id = g.part
                                AND EXISTS (SELECT 1 FROM queend.unlisted u WHERE u.partition_id = g.part)
                              ORDER BY l.base DESC LIMIT 1) AS t ON true;
        FOR stored IN
            SELECT s.*
              FROM queend.push(0, '{}', p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta,
                               p_known => v_head, p_known_at => v_at) AS s
        LOOP
            IF stored.status = 3 THEN
                RAISE EXCEPTION 'push refuses what the transaction has checked';
            END IF;
            RETURN QUERY SELECT stored.ord, 0::smallint, 0::smallint, stored.base, stored.created_at, NULL::bytea,
                                false, 0::bigint, 0::bigint, -1, v_seen[stored.ord + 1];
        END LOOP;
    END IF;
    FOR i IN SELECT g.ord FROM unnest(a_part, a_group) WITH ORDINALITY AS g (part, grp, ord)
              ORDER BY g.part, g.grp, g.ord LOOP
        RETURN QUERY
        SELECT i - 1, 1::smallint, 0::smallint, -1::bigint, 0::bigint, t.codes, t.released, t.committed, t.head, -1,
               NULL::bytea
          FROM queend.transaction_ack(a_part[i], a_group[i], a_ids[i], a_status[i],
                                      ARRAY(SELECT f.idx FROM unnest(f_row, f_idx) WITH ORDINALITY AS f (r, idx, o)
                                             WHERE f.r = i - 1 ORDER BY f.o),
                                      ARRAY(SELECT f.error
                                              FROM unnest(f_row, f_error) WITH ORDINALITY AS f (r, error, o)
                                             WHERE f.r = i - 1 ORDER BY f.o)) AS t;
    END LOOP;
END $$;

-- Returns the 0-based place of the first record of a batch row that the partition already holds; NULL if all are new.
-- Decides like push: records above every timely id need no search, nor do records whose id the daemon made or that the
-- caller vouches for. Parameter p_vouch: the ids that are not version 7 are new to the log below p_before. Parameters
-- p_before, p_from, p_to: as p_known, p_from, p_to of ids_find. Requires the lane.
CREATE OR REPLACE FUNCTION queend.push_duplicate(p_part int, p_kind smallint, p_lo uuid, p_hi uuid, p_ids bytea,
    p_vouch boolean DEFAULT false, p_before bigint DEFAULT 0, p_from bigint[] DEFAULT '{}', p_to bigint[] DEFAULT '{}')
RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now bigint := queend.now_us();
    head  record;
BEGIN
    SELECT l.base + l.n AS next, l.high, l.odd, l.created_at INTO head FROM queend.log l WHERE l.partition_id = p_part
     ORDER BY l.base DESC LIMIT 1;
    IF NOT FOUND OR (p_kind < 2 OR p_vouch AND p_before = head.next)
                    AND (p_kind = 2 OR head.created_at <= v_now AND p_lo >= queend.id_bound(v_now - 60000000)
                         AND p_hi < queend.id_bound(v_now + 60000000)
                                       AND (p_kind = 0 OR NOT head.odd AND p_lo > head.high)) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT min(f.ord) FROM queend.ids_find(p_part, p_ids, p_before, p_from, p_to) AS f);
END $$;

-- Tells whether the record that a partition holds under an id was deleted and is not a dead letter. NULL for NULL.
CREATE OR REPLACE FUNCTION queend.id_deleted(p_part int, p_id bytea) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part)
           AND EXISTS (SELECT FROM queend.ids_find(p_part, p_id) AS f
                         JOIN queend.holes h ON h.partition_id = p_part AND h.record_offset = f.found
                        WHERE NOT EXISTS (SELECT FROM queend.dead_letters d
                                           WHERE d.partition_id = p_part AND d.record_offset = f.found));
END $$;

-- Judges an acknowledgment inside a transaction. Returns a byte per record: 1 can be applied, 8 unknown message, 16 the
-- group holds no live lease on it. 64 says that it is already done, so it cannot become a dead letter. A record that is
-- gone (ack_found) can be applied, without effect. A record that the group has done needs a lease only if the caller
-- names one (p_lease) or p_status is cumulative. Requires the cursor's lock.
CREATE OR REPLACE FUNCTION queend.transaction_judge(p_part int, p_group int, p_lease uuid, p_ids bytea, p_status bytea,
    p_now bigint)
RETURNS bytea
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_live boolean;
    k      queend.cursors;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group;
    v_live := k.lease_until > p_now AND (p_lease IS NULL OR k.lease_id = p_lease);
    RETURN (
    SELECT string_agg(CASE WHEN f.at = -3 AND (p_lease IS NULL OR v_live OR k.lease_id = p_lease AND k.lease_until = 0)
                               THEN E'\\x01'::bytea
                           WHEN f.at = -1 THEN E'\\x08'
                           WHEN p_lease IS NOT NULL AND v_live IS NOT TRUE THEN E'\\x10'
                           WHEN f.at <= k.committed OR k.beyond @> f.at AND f.status <> 4
                               THEN CASE WHEN f.status IN (1, 2) THEN E'\\x40'::bytea ELSE E'\\x01' END
                           WHEN v_live AND f.at <= k.lease_end THEN E'\\x01'
                           ELSE E'\\x10' END, '' ORDER BY f.ord)
      FROM (SELECT u.at, u.ord, get_byte(p_status, u.ord::int - 1) AS status
              FROM unnest(queend.ack_found(k, p_part, p_lease, p_ids, p_now)) WITH ORDINALITY AS u (at, ord)) AS f);
END $$;

-- Applies a checked acknowledgment inside a transaction: failed and dlq are dead-lettered, and every named record is
-- done, as in ack_group. A dead letter or the end of the window releases the lease. Locks the cursor.
CREATE OR REPLACE FUNCTION queend.transaction_ack(p_part int, p_group int, p_ids bytea, p_status bytea, f_idx int[],
    f_error text[], OUT codes bytea, OUT released boolean, OUT committed bigint, OUT head bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_found bigint[];
    v_done  int8multirange;
    v_upto  bigint;
    v_dead  int[];
    v_last  bigint;
    v_new   record;
    k       queend.cursors;
BEGIN
    SELECT c.* INTO k FROM queend.cursors c WHERE c.partition_id = p_part AND c.group_id = p_group FOR NO KEY UPDATE;
    v_found := queend.ack_found(k, p_part, k.lease_id, p_ids, queend.now_us());
    SELECT range_agg(int8range(f.at, f.at, '[]')), max(f.at) FILTER (WHERE k.conflates OR f.status = 4),
           array_agg(f.i ORDER BY f.at) FILTER (WHERE f.status IN (1, 2))
      INTO v_done, v_upto, v_dead
      FROM (SELECT u.at, u.ord::int - 1 AS i, get_byte(p_status, u.ord::int - 1) AS status
              FROM unnest(v_found) WITH ORDINALITY AS u (at, ord)) AS f
     WHERE f.at > k.committed AND (f.status = 4 OR (k.beyond @> f.at) IS NOT TRUE);
    IF v_upto IS NOT NULL THEN
        v_done := v_done + int8multirange(int8range(k.committed + 1, v_upto, '[]'));
    END IF;
    IF -3 = ANY (v_found) THEN
        -- Records that are gone may complete the window. For a group that conflates they were all of it.
        v_done := COALESCE(v_done, '{}')
                  + CASE WHEN k.conflates AND k.lease_until > queend.now_us()
                         THEN int8multirange(int8range(k.committed + 1, GREATEST(k.lease_end, k.committed) + 1))
                         ELSE '{}' END;
    END IF;
    SELECT w.* INTO v_new FROM queend.done_with(p_part, p_group, k.committed, k.beyond, v_done) AS w;
    IF v_new.too_many THEN
        RAISE program_limit_exceeded USING MESSAGE = 'too many messages are acknowledged out of order';
    END IF;
    IF v_dead IS NOT NULL THEN
        PERFORM queend.dead_letter(p_part, p_group, array_agg(v_found[d.i + 1] ORDER BY d.ord),
                                   array_agg(COALESCE(e.error, 'Unknown error') ORDER BY d.ord), 0)
           FROM unnest(v_dead) WITH ORDINALITY AS d (i, ord)
           LEFT JOIN unnest(f_idx, f_error) AS e (i, error) ON e.i = d.i;
    END IF;
    committed := COALESCE(v_new.committed, -1);
    released := COALESCE(k.lease_until > 0
                         AND (v_dead IS NOT NULL OR committed >= k.lease_end AND committed > k.committed), false);
    UPDATE queend.cursors c
       SET committed   = transaction_ack.committed,
           beyond      = v_new.beyond,
           row_base    = COALESCE((SELECT l.base FROM queend.log l
                                    WHERE l.partition_id = p_part AND l.base <= transaction_ack.committed + 1
                                    ORDER BY l.base DESC LIMIT 1), 0),
           -- Forgets a lease that ended because all its records are gone (leases_moot), so that it counts once: the
           -- same transaction may be sent again.
           lease_id    = CASE WHEN released OR k.lease_until = 0 THEN '00000000-0000-0000-0000-000000000000'
                              ELSE k.lease_id END,
           lease_until = CASE WHEN released THEN 0 ELSE k.lease_until END,
           retries     = CASE WHEN released THEN 0 ELSE k.retries END,
           consumed_at = queend.now_us()
     WHERE c.partition_id = p_part AND c.group_id = p_group AND v_done IS NOT NULL;
    head := queend.head(p_part);
    v_last := (SELECT max(f) FROM unnest(v_found) AS f WHERE f > k.committed AND f <= committed);
    SELECT string_agg(CASE WHEN f.ord - 1 = ANY (v_dead) THEN E'\\x03'::bytea
                           WHEN released AND f.at = v_last THEN E'\\x05'
                           ELSE E'\\x01' END, '' ORDER BY f.ord)
      INTO codes FROM unnest(v_found) WITH ORDINALITY AS f (at, ord);
END $$;

-- Runs a transaction in which some pushed record has a delivery moment, and adds each stored row with extras to
-- queend.schedule (schedule_add). Takes the parameters and returns the rows of transaction.
CREATE OR REPLACE FUNCTION queend.transaction_due(p_version bigint, p_lanes int[], p_part int[], p_skip int[],
    p_n int[], p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[], p_body bytea[], p_meta bytea[],
    a_part int[], a_group int[], a_lease uuid[], a_n int[], a_ids bytea[], a_status bytea[], f_row int[], f_idx int[],
    f_error text[], p_required uuid[], p_req_part int[], p_req_group int[],
    p_known bigint[] DEFAULT NULL, p_known_at bigint[] DEFAULT NULL,
    p_look_row int[] DEFAULT '{}', p_look_from bigint[] DEFAULT '{}',
    p_look_to bigint[] DEFAULT '{}', p_dry boolean DEFAULT false)
RETURNS TABLE (ord int, kind smallint, status smallint, base bigint, created_at bigint, codes bytea, released boolean,
               committed bigint, head bigint, dup_index int, seen bytea)
LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT *
          FROM queend.transaction(p_version, p_lanes, p_part, p_skip, p_n, p_kind, p_lo, p_hi, p_ids, p_body, p_meta,
                                  a_part, a_group, a_lease, a_n,
                                  a_ids, a_status, f_row, f_idx, f_error, p_required, p_req_part, p_req_group, p_known,
                                  p_known_at, p_look_row, p_look_from, p_look_to, p_dry)
    LOOP
        IF r.kind = 0 AND r.status = 0 AND r.base >= 0 AND p_meta[r.ord + 1] IS NOT NULL THEN
            PERFORM queend.schedule_add(p_part[r.ord + 1], r.base);
        END IF;
        RETURN QUERY SELECT r.ord, r.kind, r.status, r.base, r.created_at, r.codes, r.released, r.committed, r.head,
                            r.dup_index, r.seen;
    END LOOP;
END $$;
