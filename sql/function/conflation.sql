-- Conflation: pops of groups that get only the newest record of each partition. In: requests and their candidate
-- partitions. Out: one record per claimed partition. Owns the claim of such groups in queend.cursors. Locks: cursors in
-- the order given, with SKIP LOCKED.

-- Claims and reads for requests of groups that conflate. Takes the parameters and returns the columns of queend.pop,
-- with these differences:
--   - A claim takes every record of a partition that may be delivered now, and delivers the last one: `first` is its
--     offset, `take` is 1. Its row of the log is returned.
--   - since: the first offset of the claim. The lease ends at `first`, so an acknowledgment of that record moves the
--     cursor behind all of them. A record that is pushed later is behind the lease, and is delivered later.
--   - A candidate costs one of the request's r_budget and one of its r_parts. After 8 MB of payload the other
--     candidates of a request are untouched (4).
--
-- 1. The cursor is read without a lock, and decides whether there is something to deliver. It is locked only for a
--    claim, and only if it did not change meanwhile. So a pop that finds nothing writes nothing.
-- 2. The claim ends before the first record whose delivery moment is in the future, as every delivery does. Its last
--    records may be deleted or addressed to another group: then an earlier record is the newest one. If no record is
--    left, the cursor passes the claim.
-- 3. Lease expiries are counted for the record that was delivered (lapse). A record that was left more often than the
--    queue's deliveryLimit becomes a dead letter, and the cursor passes it with all records before it.
CREATE OR REPLACE FUNCTION queend.pop_newest(p_version bigint, p_req int[], p_part int[], p_group int[],
    p_fresh boolean[], r_budget int[], r_parts int[], r_auto boolean[], r_lease uuid[], r_lease_us bigint[],
    r_delay_us bigint[], r_window_us bigint[], r_ttl_us bigint[] DEFAULT NULL, r_rate_us bigint[] DEFAULT NULL,
    r_burst int[] DEFAULT NULL)
RETURNS TABLE (ord int, status smallint, attempt int, first bigint, take int, base bigint, n int, created_at bigint,
               ids bytea, body bytea, meta bytea, head bigint, until bigint, buried int, since bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version   bigint;
    v_holes     boolean;
    v_scheduled boolean;
    v_now       bigint;
    v_req       int := 0;
    v_taken     int;
    v_bytes     bigint;
    v_any       boolean := false;
    v_last      bigint;      -- the record to deliver, NULL: none
    s           record;
    k           record;
    l           queend.log;
BEGIN
    IF p_version <> 0 THEN
        SELECT c.version, c.holes, c.scheduled INTO v_version, v_holes, v_scheduled FROM queend.catalog c;
        IF v_version <> p_version THEN
            ord := -1;
            status := 9;
            base := v_version;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    IF true = ANY (p_fresh) THEN
        PERFORM queend.cursors_open(p_part, p_group, p_fresh);
    END IF;
    v_now := queend.now_us();

    FOR i IN 1 .. cardinality(p_req) LOOP
        IF v_req <> p_req[i] THEN
            v_req := p_req[i];
            v_taken := 0;
            v_bytes := 0;
        END IF;
        ord := i - 1;
        status := 4;
        attempt := 0;
        first := 0;
        take := 0;
        base := 0;
        n := 0;
        created_at := 0;
        ids := NULL;
        body := NULL;
        meta := NULL;
        head := 0;
        until := 0;
        buried := NULL;
        since := 0;
        IF v_taken >= LEAST(r_budget[v_req], r_parts[v_req]) OR v_bytes > 8388608 THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        SELECT x.* INTO s
          FROM queend.newest_span(p_part[i], p_group[i], v_now, r_delay_us[v_req], r_window_us[v_req],
                                  COALESCE(r_ttl_us[v_req], 0), v_scheduled IS NOT FALSE) AS x;
        head := s.head;
        status := s.status;
        until := s.until;
        IF s.status <> 1 THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        SELECT x.ctid AS at, x.* INTO k FROM queend.cursors x
         WHERE x.partition_id = p_part[i] AND x.group_id = p_group[i] AND x.committed = s.committed
           AND x.lease_until = s.lease_until AND x.retry_until = s.retry_until
           FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN      -- locked by another transaction, or just changed by one
            status := 2;
            RETURN NEXT;
            CONTINUE;
        END IF;

        since := s.first;
        IF k.standing OR k.lease_until > 0 AND k.lease_end > k.committed THEN
            SELECT z.first, z.standing, z.buried INTO since, k.standing, buried
              FROM queend.newest_lapse(p_part[i], p_group[i], k.lease_until, k.lease_end, k.consumed_at, s.first) AS z;
        END IF;
        v_last := NULL;
        IF since < s.stop THEN
            v_last := CASE WHEN s.addressed OR v_holes IS NOT FALSE
                           THEN queend.newest_given(p_part[i], p_group[i], since, s.stop - 1) ELSE s.stop - 1 END;
            since := CASE WHEN v_last IS NULL THEN s.stop ELSE since END;
        END IF;
        IF v_last IS NOT NULL THEN
            SELECT x.* INTO l FROM queend.log x WHERE x.partition_id = p_part[i] AND x.base <= v_last
             ORDER BY x.base DESC LIMIT 1;
        END IF;
        IF v_last IS NULL OR (v_last < l.base + l.n) IS NOT TRUE THEN
            -- Nothing but deleted records and dead letters: the cursor passes them. A row that retention has just
            -- removed is looked for again.
            status := CASE WHEN v_last IS NULL AND since >= s.head THEN 0 ELSE 4 END;
            UPDATE queend.cursors c
               SET committed = since - 1, lease_end = since - 1, lease_until = 0,
                   lease_id = '00000000-0000-0000-0000-000000000000', retries = 0, standing = k.standing,
                   consumed_at = v_now
             WHERE c.ctid = k.at AND v_last IS NULL;
            since := 0;
            RETURN NEXT;
            CONTINUE;
        END IF;

        attempt := CASE WHEN r_auto[v_req] THEN 1 WHEN k.lease_end > k.committed THEN k.attempt + 1 ELSE 1 END;
        UPDATE queend.cursors c
           SET committed = CASE WHEN r_auto[v_req] THEN v_last ELSE since - 1 END,
               row_base = CASE WHEN NOT r_auto[v_req] THEN k.row_base WHEN v_last = l.base + l.n - 1
                               THEN v_last + 1 ELSE l.base END,
               lease_id = CASE WHEN r_auto[v_req] THEN '00000000-0000-0000-0000-000000000000' ELSE r_lease[v_req] END,
               lease_until = CASE WHEN r_auto[v_req] THEN 0 ELSE v_now + r_lease_us[v_req] END, lease_end = v_last,
               attempt = pop_newest.attempt, consumed_at = v_now, standing = k.standing, conflates = true,
               retry_until = CASE WHEN r_rate_us IS NULL THEN k.retry_until
                                  ELSE queend.rate_next(r_rate_us, r_burst, v_req, k.retry_until, v_now, 1) END,
               retries = CASE WHEN r_auto[v_req] THEN 0 ELSE k.retries END
         WHERE c.ctid = k.at;
        first := v_last;
        take := 1;
        base := l.base;
        n := l.n;
        created_at := l.created_at;
        ids := l.ids;
        body := l.body;
        meta := NULLIF(l.meta, '');
        until := 0;
        RETURN NEXT;
        v_taken := v_taken + 1;
        v_bytes := v_bytes + queend.body_size(l.body);
        v_any := true;
    END LOOP;

    IF v_any AND '80000000-0000-0000-0000-000000000000' > ANY (r_lease) THEN      -- see pop
        PERFORM queend.leases_keep(ARRAY(SELECT r_lease[i.req] FROM unnest(p_req) WITH ORDINALITY AS i (req, ord)
                                          ORDER BY i.ord), p_part, p_group, false);
    END IF;
    IF (NOT v_scheduled OR NOT v_holes)
       AND (SELECT c.scheduled <> v_scheduled OR c.holes <> v_holes FROM queend.catalog c) THEN
        RAISE serialization_failure
              USING MESSAGE = 'delivery moments or deleted records came while their absence was relied on';
    END IF;
END $$;

-- Tells what a group that conflates may be delivered of a partition at p_now. Column status as in pop: 1 the records
-- first … stop - 1, of which some may be deleted or addressed to other groups; 0 nothing; 2 leased until `until`; 3
-- deliverable from `until` on. The other columns: the cursor as it was read; the head; whether the partition has had
-- addressed records. Parameters: the queue's delayedProcessing, windowBuffer and maximum age (0: none), in µs; whether
-- there may be delivery moments.
CREATE OR REPLACE FUNCTION queend.newest_span(p_part int, p_group int, p_now bigint, p_delay bigint, p_window bigint,
    p_ttl bigint, p_scheduled boolean, OUT status smallint, OUT first bigint, OUT stop bigint, OUT until bigint,
    OUT head bigint, OUT addressed boolean, OUT committed bigint, OUT lease_until bigint, OUT retry_until bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_base   bigint;
    v_floor  bigint;
    v_newest bigint;
    v_at     bigint;
BEGIN
    status := 0;
    until := 0;
    SELECT x.committed, x.row_base, x.lease_until, x.retry_until INTO committed, v_base, lease_until, retry_until
      FROM queend.cursors x WHERE x.partition_id = p_part AND x.group_id >= p_group AND x.group_id <= p_group
     ORDER BY x.group_id DESC LIMIT 1;      -- the newest version first, see pop
    SELECT x.floor, x.addressed INTO v_floor, addressed FROM queend.floors x WHERE x.partition_id = p_part;
    first := GREATEST(committed + 1, v_floor);
    SELECT x.base + x.n, x.created_at INTO stop, v_newest FROM queend.log x
     WHERE x.partition_id = p_part AND x.base >= v_base ORDER BY x.base DESC LIMIT 1;
    head := COALESCE(stop, GREATEST(committed + 1, queend.head(p_part)));
    IF lease_until > p_now THEN
        status := 2;
        until := lease_until;
        RETURN;
    END IF;
    IF p_ttl > 0 AND stop > first THEN
        first := GREATEST(first, queend.live_from(p_part, v_base, committed + 1, p_now - p_ttl));
    END IF;
    IF (stop > committed + 1) IS NOT TRUE THEN
        RETURN;
    END IF;
    until := CASE WHEN retry_until > p_now THEN retry_until
                  WHEN v_newest > p_now - p_window THEN queend.window_until(p_part, first, v_newest, p_window)
                  ELSE 0 END;
    IF until > p_now THEN
        status := 3;
        RETURN;
    END IF;
    until := 0;
    IF p_delay > 0 AND v_newest > p_now - p_delay THEN
        stop := queend.offset_since(p_part, p_now - p_delay + 1);
    END IF;
    v_at := CASE WHEN p_scheduled
                 THEN queend.schedule_at(p_part, first, GREATEST(LEAST(stop - first, 2147483647), 1)::int, p_now) END;
    IF stop <= first AND first < head AND p_delay > 0 THEN
        until := queend.delayed_until(p_part, first, p_now - p_delay);
        status := CASE WHEN until > 0 THEN 3 ELSE 4 END;
    ELSIF v_at <= first THEN
        until := queend.schedule_due(p_part, first, p_now);
        status := 3;
    ELSE
        stop := LEAST(stop, v_at);
        status := 1;
    END IF;
END $$;

-- Returns the last of the records p_first … p_last that a group is given: neither deleted nor addressed to another
-- group. NULL if there is none. Each run of other records costs a probe or two. Records are addressed by redrives
-- alone, so these runs are few.
CREATE OR REPLACE FUNCTION queend.newest_given(p_part int, p_group int, p_first bigint, p_last bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_name text := (SELECT g.name FROM queend.consumer_groups g WHERE g.id = p_group);
    v_at   bigint := p_last;
    v_was  bigint;
BEGIN
    LOOP
        v_was := v_at;
        IF EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = v_at) THEN
            v_at := (SELECT h.record_offset - 1 FROM queend.holes h
                      WHERE h.partition_id = p_part AND h.record_offset <= v_at
                        AND NOT EXISTS (SELECT FROM queend.holes x
                                         WHERE x.partition_id = p_part AND x.record_offset = h.record_offset - 1)
                      ORDER BY h.record_offset DESC LIMIT 1);
        END IF;
        v_at := COALESCE((SELECT CASE WHEN a.first_offset <= v_at AND a.group_name IS DISTINCT FROM v_name
                                      THEN a.first_offset - 1 END
                            FROM queend.addressed a WHERE a.partition_id = p_part AND a.last_offset >= v_at
                           ORDER BY a.last_offset LIMIT 1), v_at);
        IF v_at < p_first THEN
            RETURN NULL;
        END IF;
        EXIT WHEN v_at = v_was;
    END LOOP;
    RETURN v_at;
END $$;

-- Counts the expiry of a lease against the record that it delivered, its last one (lapse). Parameters p_lease_until …
-- p_taken are columns of the cursor. Returns in first the first record of the next claim: p_first, or the record after
-- the dead letter; in standing the new value for the cursor; in buried the number of dead letters made (NULL: 0). A
-- record that was deleted meanwhile is counted no more. Requires the cursor's row.
CREATE OR REPLACE FUNCTION queend.newest_lapse(p_part int, p_group int, p_lease_until bigint, p_lease_end bigint,
    p_taken bigint, p_first bigint, OUT first bigint, OUT standing boolean, OUT buried int)
LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint := GREATEST(p_first, p_lease_end);
    z      record;
BEGIN
    SELECT x.* INTO z
      FROM queend.lapse(p_part, p_group,
                        CASE WHEN p_first <= p_lease_end
                                  AND queend.newest_given(p_part, p_group, p_lease_end, p_lease_end) IS NOT NULL
                             THEN p_lease_until ELSE 0 END,
                        p_lease_end, p_taken, NULL, v_left) AS x;
    first := CASE WHEN z.first > v_left THEN z.first ELSE p_first END;
    standing := z.standing;
    buried := z.buried;
END $$;

-- Tells whether a group conflates. An unknown group, or NULL, does not.
CREATE OR REPLACE FUNCTION queend.conflates(p_group int) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN COALESCE((SELECT g.conflates FROM queend.consumer_groups g WHERE g.id = p_group), false);
END $$;
