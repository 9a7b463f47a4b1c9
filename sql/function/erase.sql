-- Erasing: overwrites the payloads and extras of deleted records where they are stored. Owns queend.erasures: records
-- whose payload a daemon has yet to overwrite, because SQL cannot unpack a compressed row. Locks: the queue's row and
-- the partition's row (both FOR NO KEY UPDATE), its cursors ascending, its dead letters (advisory), then rows.

-- Holds a partition until the transaction ends. Returns false if the partition does not exist. Retention skips a held
-- partition, acknowledgments wait, and pops find its cursors locked. So no record is copied or delivered from an older
-- read of the partition. Takes the queue, the partition and its cursors, as group_seek does, then the advisory lock of
-- its dead letters.
CREATE OR REPLACE FUNCTION queend.partition_hold(p_part int) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    PERFORM FROM queend.queues q WHERE q.id = (SELECT p.queue_id FROM queend.partitions p WHERE p.id = p_part)
       FOR NO KEY UPDATE;
    PERFORM FROM queend.partitions p WHERE p.id = p_part FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM queend.cursors_lock(array_agg(k.partition_id), array_agg(k.group_id))
       FROM queend.cursors k WHERE k.partition_id = p_part;
    PERFORM pg_advisory_xact_lock(1903519079, p_part);
    RETURN true;
END $$;

-- Deletes records of a partition, by their offsets, and erases them. Returns messages (records of the log that were not
-- erased before), dead and traces (how many were deleted). Deliveries pass over the records, their dead letters and
-- traces are deleted, their payloads and extras are overwritten. Cursors and the ids of the records stay. A compressed
-- row, and a kept copy of one, waits in queend.erasures for erase_rows. Takes partition_hold first, the catalogue last.
CREATE OR REPLACE FUNCTION queend.messages_erase(p_part int, p_offset bigint[], OUT messages int, OUT dead int,
    OUT traces int)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
DECLARE
    v_ids  bytea[] := '{}';
    v_dead bigint[];
    v_new  int[];
    r      record;
    l      record;
BEGIN
    messages := 0;
    dead := 0;
    traces := 0;
    IF NOT queend.partition_hold(p_part) THEN
        RETURN;
    END IF;
    FOR r IN
        SELECT x.base, array_agg((u.at - x.base)::int ORDER BY u.at) AS places
          FROM (SELECT DISTINCT o.at FROM unnest(p_offset) AS o (at)) AS u
         CROSS JOIN LATERAL (SELECT y.base, y.n FROM queend.log y
                              WHERE y.partition_id = p_part AND y.base <= u.at ORDER BY y.base DESC LIMIT 1) AS x
         WHERE u.at < x.base + x.n GROUP BY x.base ORDER BY x.base
    LOOP
        SELECT x.n, x.ids, x.body, x.meta INTO l FROM queend.log x WHERE x.partition_id = p_part AND x.base = r.base;
        INSERT INTO queend.holes (partition_id, record_offset)
        SELECT p_part, r.base + i FROM unnest(r.places) AS i ON CONFLICT DO NOTHING;
        v_ids := v_ids || ARRAY(SELECT substr(l.ids, 16 * i + 1, 16) FROM unnest(r.places) AS i);
        v_new := ARRAY(SELECT i FROM unnest(r.places) AS i WHERE i <> ALL (queend.meta_gone(l.meta)));
        CONTINUE WHEN v_new = '{}';
        messages := messages + cardinality(v_new);
        UPDATE queend.log x
           SET meta = queend.meta_erased(l.meta, v_new),
               body = CASE WHEN get_byte(l.body, 0) = 16 THEN queend.body_erased(l.body, l.n, v_new) ELSE x.body END
         WHERE x.partition_id = p_part AND x.base = r.base;
        IF get_byte(l.body, 0) <> 16 THEN
            INSERT INTO queend.erasures (partition_id, record_offset)
            SELECT p_part, r.base + i FROM unnest(v_new) AS i ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    IF (SELECT c.scheduled FROM queend.catalog c) THEN
        PERFORM queend.schedule_cut(p_part, o.at) FROM unnest(p_offset) AS o (at);
    END IF;
    SELECT array_agg(d.id), v_ids || array_agg(d.record_id) INTO v_dead, v_ids FROM queend.dead_letters d
     WHERE d.partition_id = p_part AND d.record_offset = ANY (p_offset);
    IF v_dead IS NOT NULL THEN
        dead := queend.dead_delete(v_dead);
    END IF;
    INSERT INTO queend.erasures (partition_id, record_offset)
    SELECT DISTINCT p_part, o.at FROM unnest(p_offset) AS o (at)
     CROSS JOIN LATERAL (SELECT b.base, b.n FROM queend.dead_bodies b WHERE b.partition_id = p_part AND b.base <= o.at
                          ORDER BY b.base DESC LIMIT 1) AS b
     WHERE o.at < b.base + b.n ON CONFLICT DO NOTHING;
    traces := queend.traces_drop(p_part, v_ids);
    PERFORM queend.stats_mark(ARRAY[p_part]);
    UPDATE queend.catalog c SET holes = true WHERE NOT c.holes;      -- before leases_moot, which reads this flag
    PERFORM queend.leases_moot(ARRAY[p_part]);
END $$;

-- Reads the stored rows of records that wait in queend.erasures: of the first p_most of a partition. Returns in places
-- the 0-based places of these records in their row. Records that became dead letters meanwhile are left out. Column
-- copy is true for a row of dead_bodies, false for a row of the log. The last result row has n = 0, and in base the
-- last offset read. The caller passes that offset to erase_end, after erase_put of the other rows. Returns an empty
-- result if the partition has no such record, or another transaction holds it. Holds the partition's row and the
-- advisory lock of its dead letters.
CREATE OR REPLACE FUNCTION queend.erase_rows(p_part int, p_most int)
RETURNS TABLE (copy boolean, base bigint, n int, body bytea, places int[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_all bigint[];
    v_at  bigint[];
BEGIN
    PERFORM FROM queend.partitions p WHERE p.id = p_part FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        DELETE FROM queend.erasures e      -- the partition was deleted
         WHERE e.partition_id = p_part AND NOT EXISTS (SELECT FROM queend.partitions p WHERE p.id = p_part);
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1903519079, p_part);
    v_all := ARRAY(SELECT e.record_offset FROM queend.erasures e WHERE e.partition_id = p_part
                    ORDER BY e.record_offset LIMIT p_most);
    IF v_all = '{}' THEN
        RETURN;
    END IF;
    v_at := ARRAY(SELECT u.at FROM unnest(v_all) AS u (at)
                   WHERE NOT EXISTS (SELECT FROM queend.dead_letters d
                                      WHERE d.partition_id = p_part AND d.record_offset = u.at));
    RETURN QUERY
    SELECT false, g.base, x.n, x.body, g.places
      FROM (SELECT l.base, array_agg((u.at - l.base)::int) AS places FROM unnest(v_at) AS u (at)
             CROSS JOIN LATERAL (SELECT y.base, y.n FROM queend.log y WHERE y.partition_id = p_part AND y.base <= u.at
                                  ORDER BY y.base DESC LIMIT 1) AS l
             WHERE u.at < l.base + l.n GROUP BY l.base) AS g
     CROSS JOIN LATERAL (SELECT y.n, y.body FROM queend.log y
                          WHERE y.partition_id = p_part AND y.base = g.base OFFSET 0) AS x;
    RETURN QUERY
    SELECT true, g.base, x.n, x.body, g.places
      FROM (SELECT b.base, array_agg((u.at - b.base)::int) AS places FROM unnest(v_at) AS u (at)
             CROSS JOIN LATERAL (SELECT y.base, y.n FROM queend.dead_bodies y
                                  WHERE y.partition_id = p_part AND y.base <= u.at ORDER BY y.base DESC LIMIT 1) AS b
             WHERE u.at < b.base + b.n GROUP BY b.base) AS g
     CROSS JOIN LATERAL (SELECT y.n, y.body FROM queend.dead_bodies y
                          WHERE y.partition_id = p_part AND y.base = g.base OFFSET 0) AS x;
    RETURN QUERY SELECT false, v_all[cardinality(v_all)], 0, ''::bytea, '{}'::int[];
END $$;

-- Writes the body of a row without the payloads of the records at the given places. Requires the locks of erase_rows.
CREATE OR REPLACE FUNCTION queend.erase_put(p_part int, p_copy boolean, p_base bigint, p_body bytea, p_places int[])
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_copy THEN
        UPDATE queend.dead_bodies b SET body = p_body WHERE b.partition_id = p_part AND b.base = p_base;
    ELSE
        UPDATE queend.log l SET body = p_body, meta = queend.meta_erased(l.meta, p_places)
         WHERE l.partition_id = p_part AND l.base = p_base;
    END IF;
END $$;

-- Removes the records of a partition up to an offset from queend.erasures. Requires the locks of erase_rows.
CREATE OR REPLACE FUNCTION queend.erase_end(p_part int, p_last bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM queend.erasures e WHERE e.partition_id = p_part AND e.record_offset <= p_last;
END $$;

-- Returns partitions with records that wait in queend.erasures, at most p_most, behind p_after.
CREATE OR REPLACE FUNCTION queend.erase_waits(p_after int, p_most int) RETURNS SETOF int
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_part int := p_after;
BEGIN
    FOR i IN 1 .. p_most LOOP
        SELECT e.partition_id INTO v_part FROM queend.erasures e WHERE e.partition_id > v_part
         ORDER BY e.partition_id LIMIT 1;
        EXIT WHEN NOT FOUND;
        RETURN NEXT v_part;
    END LOOP;
END $$;
