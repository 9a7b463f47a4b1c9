-- Lease expiries: deliveries become narrow and end in the dead letters. Owns queend.standing, one row per cursor whose
-- leases expired. Locks: the caller holds the cursor's row.

-- Limits the next delivery of a partition after a lease expired, in this or an earlier delivery (cursors.standing).
-- Parameters p_lease_until … p_beyond are columns of the cursor; p_first is the first record to deliver. Returns in
-- first the first record to deliver now, and in most the largest number of records (NULL: no bound). Returns in
-- standing the new value for the cursor, and in buried the number of records that became dead letters (NULL: 0).
-- Requires the cursor's row.
--
-- A lease counts if it expired and left its first record, and both daemon and database were present since it was taken.
-- From the second expiry in a row on, a delivery has half the records of the one before, down to a single one. So a
-- record that crashes its consumers is delivered alone in the end. A single record that was left more often than the
-- queue's deliveryLimit (0: no limit) goes to the dead letters. Deliveries stay narrow up to the last record of the
-- first of these leases. A caller that delivers moves the cursor to `first`. For a caller that delivers nothing, the
-- next call returns the same.
CREATE OR REPLACE FUNCTION queend.lapse(p_part int, p_group int, p_lease_until bigint, p_lease_end bigint,
    p_taken bigint, p_beyond int8multirange, p_first bigint, OUT first bigint, OUT most int, OUT standing boolean,
    OUT buried int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_limit int;
    v_left  bigint := LEAST(p_lease_end - p_first + 1, 1000000);      -- records that the lease left
    s       queend.standing;
BEGIN
    lapse.first := p_first;
    SELECT x.* INTO s FROM queend.standing x WHERE x.partition_id = p_part AND x.group_id = p_group;
    -- This expiry was counted by an earlier call; its delivery had no room in the answer.
    IF p_lease_until > 0 AND s.taken = p_taken THEN
        lapse.first := GREATEST(p_first, s.first);
        lapse.most := s.width;
        lapse.standing := true;
        RETURN;
    END IF;
    IF p_lease_until > 0 AND v_left > 0 AND NOT queend.away_since(p_taken) THEN
        IF s.first IS DISTINCT FROM p_first THEN
            s.lapses := 0;
            s.since := COALESCE(CASE WHEN p_first <= s.upto THEN s.since END, p_taken);
        END IF;
        s.lapses := s.lapses + 1;
        s.taken := p_taken;
        s.upto := GREATEST(s.upto, p_lease_end);
        IF s.lapses > 1 OR s.width IS NOT NULL THEN
            s.width := GREATEST(v_left / 2, 1);
        END IF;
        IF v_left = 1 AND s.lapses > 1 THEN
            v_limit := (SELECT q.delivery_limit FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id
                         WHERE p.id = p_part);
            IF v_limit > 0 AND s.lapses > v_limit THEN
                IF NOT EXISTS (SELECT FROM queend.dead_letters d
                                WHERE d.partition_id = p_part AND d.group_id = p_group
                                  AND d.record_offset = p_first) THEN
                    PERFORM queend.dead_letter(p_part, p_group, ARRAY[p_first],
                        ARRAY[format('Left by %s consumers whose leases ran out (deliveryLimit %s)', s.lapses,
                                     v_limit)], s.lapses);
                    lapse.buried := 1;
                END IF;
                lapse.first := queend.due_from(p_part, p_group,
                                               COALESCE(p_beyond, '{}')
                                               + int8multirange(int8range(p_first, p_first, '[]')), p_first);
                s.lapses := 0;
            END IF;
        END IF;
    ELSIF s.first IS DISTINCT FROM p_first THEN
        s.lapses := 0;
    END IF;
    IF s.upto IS NULL OR lapse.first > s.upto THEN
        DELETE FROM queend.standing x WHERE x.partition_id = p_part AND x.group_id = p_group;
        RETURN;
    END IF;
    INSERT INTO queend.standing AS x (since, taken, first, upto, partition_id, group_id, lapses, width)
    VALUES (s.since, s.taken, lapse.first, s.upto, p_part, p_group, s.lapses, s.width)
    ON CONFLICT (partition_id, group_id) DO UPDATE
       SET since = excluded.since, taken = excluded.taken, first = excluded.first,
           upto = excluded.upto, lapses = excluded.lapses, width = excluded.width;
    lapse.standing := true;
    lapse.most := s.width;
END $$;

-- Tells whether a daemon or the database was away since p_at (µs). A lease that ended in that time does not count
-- against its consumer. Each daemon records the time when it starts and when its database answers again
-- (services/maintenance).
CREATE OR REPLACE FUNCTION queend.away_since(p_at bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM queend.system_state s WHERE s.key = 'away' AND s.changed_at >= p_at)
        OR pg_postmaster_start_time() >= queend.moment(p_at);
END $$;

-- Lists partitions without progress: the leases of a group expired at least twice in a row and left the message at
-- `first`. Column since: when the first of these leases was taken. p_group NULL: all groups.
CREATE OR REPLACE FUNCTION queend.standing_list(p_group text)
RETURNS TABLE (queue text, name text, partition text, partition_id int, since bigint, lapses int, first bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = on SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.name, g.name, p.name, s.partition_id, s.since, s.lapses, s.first
      FROM queend.standing s
      CROSS JOIN LATERAL (SELECT x.committed FROM queend.cursors x
                           WHERE x.partition_id = s.partition_id AND x.group_id = s.group_id OFFSET 0) AS k
      CROSS JOIN LATERAL (SELECT x.name, x.queue_id FROM queend.consumer_groups x WHERE x.id = s.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x WHERE x.id = s.partition_id OFFSET 0) AS p
     WHERE s.lapses > 1 AND k.committed < s.first AND (p_group IS NULL OR g.name = p_group)
     ORDER BY q.name, g.name, p.id;
END $$;
