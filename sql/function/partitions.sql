-- The end of partitions: idle ones are removed, others deleted, and the rows of both swept. Owns queend.graves. Locks:
-- lanes ascending, without waiting, then queues, then partitions, the catalogue last.

-- Removes idle partitions: created before p_before (µs), without a message, dead letters or the state of a stream, and
-- with nothing consumed, claimed or removed by retention since. Reads p_limit partitions after p_after (by id). Returns
-- in removed the number of partitions removed, and in next_part the id to continue after, NULL at the end. A partition
-- named Default stays, because a configuration of its queue returns its id.
--
-- A push that looked the partition up before is refused for its catalogue version. The lane is held from before the
-- last look to the commit, and a push reads the version under the lane. Daemons learn from queues.cleaned and
-- cleaned_last which of the partitions they know are gone; both are raised together with the version. Takes lanes
-- ascending, then queues, then partitions, and waits for none of them: a deletion of a queue locks the queue before its
-- partitions. Then takes the catalogue. queend.sweep removes the remaining rows of a partition.
CREATE OR REPLACE FUNCTION queend.partitions_clean(p_after int, p_limit int, p_before bigint, OUT removed int,
    OUT next_part int)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_idle  int[];
    v_lanes int[] := '{}';
    v_lane  int;
    v_queue int[];
    v_gone  int[];
    q       record;
BEGIN
    removed := 0;
    SELECT CASE WHEN count(*) = p_limit THEN max(p.id) END,
           array_agg(p.id) FILTER (WHERE p.name <> 'Default' AND p.created_at < queend.moment(p_before))
      INTO next_part, v_idle
      FROM (SELECT x.id, x.name, x.created_at FROM queend.partitions x WHERE x.id > p_after
             ORDER BY x.id LIMIT p_limit) AS p;
    SELECT array_agg(u.id) INTO v_idle FROM unnest(v_idle) AS u (id) WHERE queend.partition_idle(u.id, p_before);
    FOR v_lane IN SELECT DISTINCT u.id & 63 AS lane FROM unnest(v_idle) AS u (id) ORDER BY lane LOOP
        IF pg_try_advisory_xact_lock(1903519076, v_lane) THEN
            v_lanes := v_lanes || v_lane;
        END IF;
    END LOOP;
    IF v_lanes = '{}' THEN
        RETURN;
    END IF;
    SELECT array_agg(h.id) INTO v_queue
      FROM (SELECT DISTINCT p.queue_id FROM unnest(v_idle) AS u (id)
              CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p) AS w
     CROSS JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.id = w.queue_id FOR NO KEY UPDATE SKIP LOCKED) AS h;
    SELECT array_agg(k.id) INTO v_gone
      FROM unnest(v_idle) AS u (id)
     CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x
                          WHERE x.id = u.id AND x.queue_id = ANY (v_queue) FOR UPDATE SKIP LOCKED) AS k
     WHERE u.id & 63 = ANY (v_lanes);
    SELECT array_agg(u.id) INTO v_gone FROM unnest(v_gone) AS u (id) WHERE queend.partition_idle(u.id, p_before);
    IF v_gone IS NULL THEN
        RETURN;
    END IF;
    removed := cardinality(v_gone);
    FOR q IN SELECT p.queue_id AS id, count(*) AS n, string_agg(int4send(p.id), '' ORDER BY p.id) AS ids
               FROM unnest(v_gone) AS u (id)
               CROSS JOIN LATERAL (SELECT x.id, x.queue_id FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
              GROUP BY p.queue_id ORDER BY p.queue_id LOOP
        UPDATE queend.queues x SET cleaned = x.cleaned + q.n,
               cleaned_last = substr(x.cleaned_last || q.ids, GREATEST(octet_length(x.cleaned_last || q.ids) - 3999, 1))
         WHERE x.id = q.id;
    END LOOP;
    INSERT INTO queend.graves (partition_id) SELECT u.id FROM unnest(v_gone) AS u (id);
    DELETE FROM queend.partitions p WHERE p.id = ANY (v_gone);
    PERFORM queend.catalog_raise();
END $$;

-- Deletes a partition with everything in it: leases, cursors, figures, dead letters, stream state. Returns false if the
-- partition is unknown. The partition is unreachable at once; queend.sweep removes its rows. A later push to that name
-- creates a new one, which begins at offset 0. Locks the queue FOR UPDATE, as its deletion does, then the partition,
-- its dead letters (advisory), the catalogue last. Waits for a dead letter that is being made there, and removes it;
-- one that begins later finds no partition.
CREATE OR REPLACE FUNCTION queend.partition_delete(p_queue text, p_name text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_queue int;
    v_part  int;
BEGIN
    SELECT q.id INTO v_queue FROM queend.queues q WHERE q.name = p_queue FOR UPDATE;
    SELECT p.id INTO v_part FROM queend.partitions p WHERE p.queue_id = v_queue AND p.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE queend.queues q SET cleaned = q.cleaned + 1,
           cleaned_last = substr(q.cleaned_last || int4send(v_part), GREATEST(octet_length(q.cleaned_last) - 3995, 1))
     WHERE q.id = v_queue;
    INSERT INTO queend.graves (partition_id) VALUES (v_part);
    DELETE FROM queend.partitions p WHERE p.id = v_part;
    PERFORM pg_advisory_xact_lock(1903519079, v_part);
    DELETE FROM queend.dead_letters d WHERE d.partition_id = v_part;
    PERFORM queend.stats_mark(ARRAY[v_part]);
    PERFORM queend.catalog_raise();
    RETURN true;
END $$;

-- Returns whether a partition is idle since p_before (µs): its removal would lose no message, claim, dead letter or
-- stream state. A message that was pushed since and removed by retention counts, because a new partition of this name
-- gives its offset again.
CREATE OR REPLACE FUNCTION queend.partition_idle(p_part int, p_before bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM queend.log l WHERE l.partition_id = p_part
                          AND l.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part),
                                                 0))
       AND NOT EXISTS (SELECT FROM queend.cursors k
                        WHERE k.partition_id = p_part AND (k.consumed_at >= p_before OR k.lease_until >= p_before))
       AND NOT EXISTS (SELECT FROM queend.floors f WHERE f.partition_id = p_part AND f.raised_at >= p_before)
       AND NOT EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = p_part)
       AND NOT EXISTS (SELECT FROM queend.stream_queries q CROSS JOIN LATERAL (
            SELECT FROM queend.stream_state s WHERE s.query_id = q.id AND s.partition_id = p_part LIMIT 1) AS s);
END $$;

-- Removes rows of deleted partitions, at most about p_limit log rows per call. Returns in removed the number of rows
-- and empty partitions removed (0: every remaining partition has a busy lane). Returns in partitions the number of
-- those left. The last rows of a partition are removed under its lane. A push that had passed the catalogue check
-- before the deletion has then either committed, and is swept, or will find the version raised.
CREATE OR REPLACE FUNCTION queend.sweep(p_limit int) RETURNS TABLE (removed bigint, partitions bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_part int;
    v_rows int;
    v_left int := p_limit;
BEGIN
    WHILE v_left > 0 LOOP
        SELECT g.partition_id INTO v_part FROM queend.graves g ORDER BY g.partition_id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        IF NOT pg_try_advisory_xact_lock(1903519076, v_part & 63) THEN
            EXIT;      -- the lane is busy, and waiting here for one lane after another could close a circle
        END IF;
        DELETE FROM queend.log l WHERE l.partition_id = v_part
           AND l.base <= (SELECT max(r.base)
                            FROM (SELECT x.base FROM queend.log x WHERE x.partition_id = v_part
                                   ORDER BY x.base LIMIT v_left) AS r);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_left := v_left - GREATEST(v_rows, 1);
        IF NOT EXISTS (SELECT 1 FROM queend.log l WHERE l.partition_id = v_part) THEN
            DELETE FROM queend.late_ids t WHERE t.partition_id = v_part;
            DELETE FROM queend.unlisted u WHERE u.partition_id = v_part;
            DELETE FROM queend.cursors k WHERE k.partition_id = v_part;
            DELETE FROM queend.holes h WHERE h.partition_id = v_part;
            DELETE FROM queend.erasures e WHERE e.partition_id = v_part;
            DELETE FROM queend.addressed a WHERE a.partition_id = v_part;
            DELETE FROM queend.schedule s WHERE s.partition_id = v_part;
            DELETE FROM queend.pauses u WHERE u.partition_id = v_part;
            DELETE FROM queend.standing s WHERE s.partition_id = v_part;
            WITH gone AS (DELETE FROM queend.traces t WHERE t.partition_id = v_part RETURNING t.id)
            DELETE FROM queend.trace_names n WHERE n.trace_id IN (SELECT g.id FROM gone g);
            DELETE FROM queend.stream_state s USING queend.stream_queries q
             WHERE s.query_id = q.id AND s.partition_id = v_part;
            DELETE FROM queend.stream_reads r USING queend.stream_queries q
             WHERE r.query_id = q.id AND r.partition_id = v_part;
            DELETE FROM queend.stream_flushes f USING queend.stream_queries q
             WHERE f.query_id = q.id AND f.partition_id = v_part;
            DELETE FROM queend.floors f WHERE f.partition_id = v_part;
            DELETE FROM queend.dead_letters d WHERE d.partition_id = v_part;
            DELETE FROM queend.dead_bodies d WHERE d.partition_id = v_part;
            DELETE FROM queend.graves g WHERE g.partition_id = v_part;
        END IF;
    END LOOP;
    DELETE FROM queend.pauses u      -- every daemon has seen their end
     WHERE u.ctid = ANY (ARRAY(SELECT x.ctid FROM queend.pauses x
                                WHERE x.ends_at < queend.now_us() - 600000000 LIMIT p_limit FOR UPDATE SKIP LOCKED));
    RETURN QUERY SELECT (p_limit - v_left)::bigint, count(*) FROM queend.graves;
END $$;
