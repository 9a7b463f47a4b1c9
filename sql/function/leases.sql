-- Leases: extending them, giving them back, finding the cursors that hold them. Owns queend.leases, the cursors of
-- leases whose id does not name its partition. Locks: cursors ascending, then pauses.

-- Extends leases: each live (partition, group) of a lease lives until at least now + seconds; a lease is never
-- shortened. Parameters h_part and h_group: cursors where the leases may be, besides those that their ids name and
-- those remembered (leases_find). Returns one row per lease (0-based ord): status 0 extended, 1 no cursor holds it, 2
-- already expired. Column expires_at is the earliest expiry; renewed is the number of cursors. Locks the cursors in
-- ascending order.
CREATE OR REPLACE FUNCTION queend.renew(p_lease uuid[], p_seconds int[], h_req int[], h_part int[], h_group int[])
RETURNS TABLE (ord int, status smallint, expires_at bigint, renewed int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now  bigint;
    v_part int[];
    v_grp  int[];
BEGIN
    SELECT array_agg(l.partition_id), array_agg(l.group_id) INTO v_part, v_grp
      FROM queend.leases_find(p_lease, h_part, h_group) AS l;
    PERFORM queend.cursors_lock(v_part, v_grp);
    v_now := queend.now_us();

    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT k.* FROM unnest(v_part, v_grp) AS h (part, grp)
         CROSS JOIN LATERAL (SELECT c.* FROM queend.cursors c
                              WHERE c.partition_id = h.part AND c.group_id = h.grp OFFSET 0) AS k),
    u AS (
        -- On conflict the primary key finds the cursor, see pop.
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, lease_until)
        SELECT h.partition_id, h.group_id, h.committed, v_now + l.seconds * 1000000::bigint
          FROM held h
          JOIN (SELECT r.lease, max(r.seconds) AS seconds FROM unnest(p_lease, p_seconds) AS r (lease, seconds)
                 GROUP BY r.lease) AS l
               ON h.lease_id = l.lease
         WHERE h.lease_until > v_now
        ON CONFLICT (partition_id, group_id) DO UPDATE SET lease_until = GREATEST(k.lease_until, excluded.lease_until)
        RETURNING k.lease_id, k.lease_until)
    SELECT l.ord::int - 1,
           CASE WHEN n.renewed > 0 THEN 0
                WHEN EXISTS (SELECT 1 FROM held h WHERE h.lease_id = l.lease) THEN 2
                ELSE 1 END::smallint,
           COALESCE(n.expires_at, 0), n.renewed::int
      FROM unnest(p_lease) WITH ORDINALITY AS l (lease, ord)
      CROSS JOIN LATERAL (SELECT min(u.lease_until) AS expires_at, count(*) AS renewed FROM u
                           WHERE u.lease_id = l.lease) AS n;
END $$;

-- Gives back leases whose records never reached a client. The records can be claimed at once, and the delivery does not
-- count. Returns one row per element (0-based ord) that says whether the lease was still there.
CREATE OR REPLACE FUNCTION queend.release(p_part int[], p_group int[], p_lease uuid[])
RETURNS TABLE (ord int, released boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM queend.cursors_lock(p_part, p_group);
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT r.ord::int - 1 AS ord, k.partition_id, k.group_id, k.committed
          FROM unnest(p_part, p_group, p_lease) WITH ORDINALITY AS r (part, grp, lease, ord)
          LEFT JOIN LATERAL (SELECT c.* FROM queend.cursors c WHERE c.partition_id = r.part AND c.group_id = r.grp
                                AND c.lease_id = r.lease AND c.lease_until > 0 OFFSET 0) AS k ON true),
    freed AS (
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed)      -- by the primary key, see pop
        SELECT DISTINCT h.partition_id, h.group_id, h.committed FROM held h WHERE h.partition_id IS NOT NULL
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000', attempt = GREATEST(k.attempt - 1, 0)
        RETURNING k.partition_id),
    marked AS (INSERT INTO queend.stat_marks (partition_id) SELECT f.partition_id FROM freed f)
    SELECT h.ord, h.partition_id IS NOT NULL FROM held h;
END $$;

-- Takes back claims that were acknowledged at once but reached no client: records p_first … p_stop - 1 are delivered
-- again. Requires that the cursor still stands where the claim left it, at p_stop - 1 and free: later claims and seeks
-- win. Returns one row per element (0-based ord) that says whether it was taken back. Notifies every daemon
-- (lease_freed).
CREATE OR REPLACE FUNCTION queend.take_back(p_part int[], p_group int[], p_first bigint[], p_stop bigint[])
RETURNS TABLE (ord int, taken boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r record;
BEGIN
    PERFORM queend.cursors_lock(p_part, p_group);
    FOR r IN SELECT a.i::int - 1 AS i, a.part, a.grp, a.first, a.stop
               FROM unnest(p_part, p_group, p_first, p_stop) WITH ORDINALITY AS a (part, grp, first, stop, i)
              -- The newest claim of a cursor comes first, so that all of them can be taken back.
              ORDER BY a.part, a.grp, a.stop DESC
    LOOP
        UPDATE queend.cursors
           SET committed = r.first - 1, lease_end = r.first - 1, row_base = queend.row_of(r.part, r.first), attempt = 0
         WHERE partition_id = r.part AND group_id = r.grp AND committed = r.stop - 1 AND lease_end = r.stop - 1
           AND lease_until = 0;
        ord := r.i;
        taken := FOUND;
        IF taken THEN
            PERFORM queend.lease_freed(ARRAY[r.part], ARRAY[r.grp]);
            PERFORM queend.stats_mark(ARRAY[r.part]);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Finds the cursors that hold the given leases, live or expired. A lease is searched in the partition that its id
-- names, in the cursors remembered for it (queend.leases), and in the given cursors. Never searches all cursors. (A
-- lease id changes with each claim, so an index on it would cost every claim and acknowledgment.)
CREATE OR REPLACE FUNCTION queend.leases_find(p_lease uuid[], p_part int[], p_group int[])
RETURNS TABLE (partition_id int, group_id int, lease_id uuid, lease_until bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.* FROM (
        SELECT h.part, h.grp FROM unnest(p_part, p_group) AS h (part, grp)
        UNION
        SELECT m.part, l.group_id FROM unnest(p_lease) AS u (lease)
         CROSS JOIN LATERAL (SELECT x.group_id, x.partition_ids FROM queend.leases x
                              WHERE x.lease_id = u.lease OFFSET 0) AS l
         CROSS JOIN LATERAL unnest(l.partition_ids) AS m (part)
        UNION
        SELECT c.partition_id, c.group_id
          FROM (SELECT u.lease, queend.lease_part(u.lease) AS part FROM unnest(p_lease) AS u (lease) OFFSET 0) AS n
         CROSS JOIN LATERAL (SELECT x.partition_id, x.group_id FROM queend.cursors x
                              WHERE x.partition_id = n.part AND x.lease_id = n.lease OFFSET 0) AS c) AS h
     CROSS JOIN LATERAL (SELECT c.partition_id, c.group_id, c.lease_id, c.lease_until FROM queend.cursors c
                          WHERE c.partition_id = h.part AND c.group_id = h.grp AND c.lease_id = ANY (p_lease)
                            AND c.lease_id <> '00000000-0000-0000-0000-000000000000' OFFSET 0) AS k;
END $$;

-- Returns the partition that a lease id names, if its first bit is set (queend/core/base/uuid.pyx). Returns any number
-- for another id. The caller must check that the lease is in that partition.
CREATE OR REPLACE FUNCTION queend.lease_part(p_lease uuid) RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_raw bytea := uuid_send(p_lease);
BEGIN
    RETURN ('x' || encode(substr(v_raw, 13, 4), 'hex'))::bit(32)::int
           # queend.id_mask((SELECT c.seed FROM queend.catalog c), 'l', substr(v_raw, 1, 12));
END $$;

-- Remembers the cursors of leases that this transaction has just claimed. If p_named is false: leases whose id does not
-- have the form that names a partition. If true: leases whose id has that form by chance. Each element is one cursor
-- that may have been claimed.
CREATE OR REPLACE FUNCTION queend.leases_keep(p_lease uuid[], p_part int[], p_group int[], p_named boolean) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    INSERT INTO queend.leases (lease_id, group_id, partition_ids)
    SELECT u.lease, u.grp, array_agg(u.part) FROM unnest(p_lease, p_part, p_group) AS u (lease, part, grp)
     CROSS JOIN LATERAL (SELECT c.lease_id, c.lease_until FROM queend.cursors c
                          WHERE c.partition_id = u.part AND c.group_id >= u.grp AND c.group_id <= u.grp
                          ORDER BY c.group_id DESC LIMIT 1) AS k      -- the newest version first, see pop
     WHERE k.lease_id = u.lease AND k.lease_until > 0 AND (u.lease >= '80000000-0000-0000-0000-000000000000') = p_named
     GROUP BY u.lease, u.grp;
END $$;

-- Remembers the cursors of leases that do not name their partition, for a call that tried to claim all of them and
-- claimed some. The cursors are not read again: a search compares the lease with that of the cursor (leases_find). A
-- lease that no cursor got is forgotten like one that has ended (leases_tidy).
CREATE OR REPLACE FUNCTION queend.leases_note(p_lease uuid[], p_part int[], p_group int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_lease[1] = ALL (p_lease) AND p_group[1] = ALL (p_group) THEN      -- usual case: one pop has taken all
        INSERT INTO queend.leases (lease_id, group_id, partition_ids) VALUES (p_lease[1], p_group[1], p_part);
        RETURN;
    END IF;
    INSERT INTO queend.leases (lease_id, group_id, partition_ids)
    SELECT u.lease, u.grp, array_agg(u.part) FROM unnest(p_lease, p_part, p_group) AS u (lease, part, grp)
     WHERE u.lease < '80000000-0000-0000-0000-000000000000'
     GROUP BY u.lease, u.grp;
END $$;

-- Forgets leases that no cursor holds any more, among the p_limit remembered ones after p_after. Returns in removed the
-- number of rows deleted, and in next the id to continue after, NULL at the end.
CREATE OR REPLACE FUNCTION queend.leases_tidy(p_after uuid, p_limit int, OUT removed int, OUT next uuid)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_seen int;
BEGIN
    WITH page AS MATERIALIZED (
        SELECT l.ctid AS at, l.lease_id, l.group_id, l.partition_ids FROM queend.leases l WHERE l.lease_id > p_after
         ORDER BY l.lease_id FETCH FIRST p_limit ROWS WITH TIES),
    gone AS (
        DELETE FROM queend.leases l
         WHERE l.ctid = ANY (ARRAY(
            SELECT p.at FROM page p
             WHERE NOT EXISTS (SELECT FROM unnest(p.partition_ids) AS m (part)
                                CROSS JOIN LATERAL (SELECT FROM queend.cursors c
                                                     WHERE c.partition_id = m.part AND c.group_id = p.group_id
                                                       AND c.lease_id = p.lease_id OFFSET 0) AS k)))
        RETURNING 1)
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM page),
           (SELECT p.lease_id FROM page p ORDER BY p.lease_id DESC LIMIT 1) INTO removed, v_seen, next;
    IF v_seen < p_limit THEN
        next := NULL;
    END IF;
END $$;

-- Returns the elements (partition, group), by 0-based place, that have neither a live lease nor a pause. So a daemon
-- learns that another daemon ended a lease it knows of.
CREATE OR REPLACE FUNCTION queend.leases_ended(p_part int[], p_group int[]) RETURNS TABLE (ord int)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    RETURN QUERY
    SELECT u.ord::int - 1 FROM unnest(p_part, p_group) WITH ORDINALITY AS u (part, grp, ord)
      LEFT JOIN LATERAL (SELECT x.lease_until, x.retry_until FROM queend.cursors x
                          WHERE x.partition_id = u.part AND x.group_id >= u.grp AND x.group_id <= u.grp
                          ORDER BY x.group_id DESC LIMIT 1) AS k ON true      -- the newest version first, see pop
     WHERE COALESCE(k.lease_until, 0) <= v_now AND COALESCE(k.retry_until, 0) <= v_now;
END $$;

-- Tells every daemon that the given (partition, group) can be claimed again, for callers without a daemon. Writes
-- pauses that end now: daemons look for them once a second while a pop waits (queend.waking).
CREATE OR REPLACE FUNCTION queend.lease_freed(p_part int[], p_group int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.pauses (ends_at, partition_id, group_id)
    SELECT queend.now_us(), f.part, f.grp
      FROM (SELECT DISTINCT u.part, u.grp FROM unnest(p_part, p_group) AS u (part, grp) ORDER BY u.part, u.grp) AS f
    ON CONFLICT (partition_id, group_id) DO UPDATE SET ends_at = GREATEST(excluded.ends_at, pauses.ends_at);
END $$;

-- Ends the live leases of partitions whose leased records are all gone or done: such a lease would keep its partition
-- closed needlessly. Returns how many leases ended. Each keeps its id beside lease_until 0, so that its acknowledgments
-- still count as done (ack_found). Requires no lock. Locks the queues of such partitions ascending, as each change by
-- hand begins, then the cursors ascending, then the catalogue's row.
CREATE OR REPLACE FUNCTION queend.leases_moot(p_part int[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now   bigint := queend.now_us();
    v_part  int[];
    v_group int[];
    v_queue int[];
BEGIN
    SELECT array_agg(k.partition_id), array_agg(k.group_id) INTO v_part, v_group
      FROM (SELECT DISTINCT u.part FROM unnest(p_part) AS u (part)) AS a
     CROSS JOIN LATERAL (SELECT c.* FROM queend.cursors c WHERE c.partition_id = a.part OFFSET 0) AS k
     WHERE k.lease_until > v_now AND queend.lease_moot(k);
    IF v_part IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM queend.queues q
      WHERE q.id = ANY (ARRAY(SELECT p.queue_id FROM unnest(v_part) AS u (part)
                               CROSS JOIN LATERAL (SELECT y.queue_id FROM queend.partitions y
                                                    WHERE y.id = u.part OFFSET 0) AS p))
      ORDER BY q.id FOR NO KEY UPDATE;
    PERFORM queend.cursors_lock(v_part, v_group);
    WITH ended AS (
        UPDATE queend.cursors k
           SET lease_until = 0, lease_end = k.committed, retries = 0
          FROM (SELECT x.at FROM unnest(v_part, v_group) AS u (part, grp)
                 CROSS JOIN LATERAL (SELECT c.ctid AS at FROM queend.cursors c
                                      WHERE c.partition_id = u.part AND c.group_id = u.grp OFFSET 0) AS x
                OFFSET 0) AS a
         WHERE k.ctid = a.at AND k.lease_until > v_now AND queend.lease_moot(k)
        RETURNING k.partition_id, k.group_id)
    SELECT array_agg(e.partition_id), array_agg(e.group_id),
           ARRAY(SELECT DISTINCT p.queue_id FROM ended x
                  CROSS JOIN LATERAL (SELECT y.queue_id FROM queend.partitions y
                                       WHERE y.id = x.partition_id OFFSET 0) AS p ORDER BY 1)
      INTO v_part, v_group, v_queue FROM ended e;
    PERFORM queend.lease_freed(v_part, v_group);
    PERFORM queend.groups_moved(u.queue) FROM unnest(v_queue) WITH ORDINALITY AS u (queue, ord) ORDER BY u.ord;
    RETURN COALESCE(cardinality(v_part), 0);
END $$;

-- Returns whether every record that a cursor's lease covers is gone or done.
CREATE OR REPLACE FUNCTION queend.lease_moot(k queend.cursors) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN k.lease_end > k.committed AND queend.due_from(k.partition_id, k.group_id, k.beyond,
               GREATEST(k.committed + 1, COALESCE((SELECT f.floor FROM queend.floors f
                                                    WHERE f.partition_id = k.partition_id), 0))) > k.lease_end;
END $$;

-- Returns whether a lease was one of this partition and group: its id names the partition, or the lease is remembered.
-- Returns false for a lease of several partitions that retention has forgotten since (leases_tidy).
CREATE OR REPLACE FUNCTION queend.lease_was(p_lease uuid, p_part int, p_group int) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN p_lease >= '80000000-0000-0000-0000-000000000000' AND queend.lease_part(p_lease) = p_part
        OR EXISTS (SELECT FROM queend.leases l WHERE l.lease_id = p_lease AND l.group_id = p_group
                      AND p_part = ANY (l.partition_ids));
END $$;

-- Returns the lease id of a name that a SQL caller gave: the UUID itself, else one computed from the name. NULL for
-- NULL and ''.
CREATE OR REPLACE FUNCTION queend.lease_uuid(p_text text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(queend.record_id(NULLIF(p_text, '')), 'hex')::uuid
$$;
