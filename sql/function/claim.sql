-- Claims of records that a daemon has in memory: the database is asked for the cursor only. In: partition, group,
-- offset and number of records. Out: the claims made. Locks: the cursors, with SKIP LOCKED.

-- Claims records that the caller has in memory. Element i of the arrays is one candidate:
--   p_first, p_take   offset of the first record, and number of records
--   p_base            an offset at which a row of the log begins, not above the record that follows committed after the
--                     claim
--   p_us              length of the lease in µs, 0: acknowledged at once.
-- Returns (partition, group) and the ctid of the cursor, for ack_leased, for each claim made, in the order asked. A
-- stale catalogue version returns (-1, 0) alone, and nothing is claimed.
--
-- A claim requires that every record is still in the log and is for this group or for all groups. It also requires one
-- of two states of the cursor.
--   - The cursor is free at p_first (cursor_free) and unlocked.
--   - The group has no cursor yet, and p_first is the partition's first record.
-- Then queend.pop would claim the same records. Every other case is left to queend.pop, as is a cursor that changed
-- during the search.
CREATE OR REPLACE FUNCTION queend.claim(p_version bigint, p_part int[], p_group int[], p_first bigint[], p_take int[],
    p_base bigint[], p_lease uuid[], p_us bigint[])
RETURNS TABLE (part int, grp int, at tid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_holes   boolean;
    v_now     bigint;
BEGIN
    IF p_part = '{}' THEN
        RETURN;
    END IF;
    IF p_version <> 0 THEN
        SELECT c.version, c.holes INTO v_version, v_holes FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN QUERY SELECT -1, 0, NULL::tid;
            RETURN;
        END IF;
    END IF;
    v_now := queend.now_us();
    -- Each branch is one statement, because the claims come back in the order asked.
    IF 0 <> ALL (p_first) THEN      -- no cursor is new: updates by ctid under the lock just taken, see push
        RETURN QUERY
        UPDATE queend.cursors AS k
           SET committed = f.first - 1 + CASE WHEN f.us = 0 THEN f.take ELSE 0 END, row_base = f.base,
               lease_id = CASE WHEN f.us = 0 THEN '00000000-0000-0000-0000-000000000000' ELSE f.lease END,
               lease_until = CASE WHEN f.us = 0 THEN 0 ELSE v_now + f.us END, lease_end = f.first - 1 + f.take,
               attempt = 1, consumed_at = v_now, retries = CASE WHEN f.us = 0 THEN 0 ELSE k.retries END
          FROM (SELECT c.*, x.at
                  FROM (SELECT unnest(p_part) AS part, unnest(p_group) AS grp, unnest(p_first) AS first,
                               unnest(p_take) AS take, unnest(p_base) AS base, unnest(p_lease) AS lease,
                               unnest(p_us) AS us) AS c
                 CROSS JOIN LATERAL (
                       SELECT x.ctid AS at FROM queend.cursors x
                        WHERE x.partition_id = c.part AND x.group_id >= c.grp AND x.group_id <= c.grp
                          AND queend.cursor_free(x, c.first, v_now)
                        ORDER BY x.group_id DESC LIMIT 1      -- the newest version first, see pop
                          FOR NO KEY UPDATE SKIP LOCKED) AS x
                 WHERE COALESCE((SELECT CASE WHEN f.addressed AND queend.given_until(c.part, c.grp, c.first, c.take)
                                                                  < c.first + c.take
                                             THEN 9223372036854775807 ELSE f.floor END
                                   FROM queend.floors f WHERE f.partition_id = c.part), 0) <= c.first
                   AND (v_holes IS FALSE
                        OR NOT EXISTS (SELECT FROM queend.holes h
                                        WHERE h.partition_id = c.part AND h.record_offset >= c.first
                                          AND h.record_offset < c.first + c.take))) AS f
         WHERE k.ctid = f.at
        RETURNING k.partition_id, k.group_id, k.ctid;
    ELSE
        RETURN QUERY
        INSERT INTO queend.cursors AS k (partition_id, group_id, committed, row_base, lease_id, lease_until, lease_end,
                                         attempt, consumed_at, retry_until)
        SELECT c.part, c.grp, c.first - 1 + CASE WHEN c.us = 0 THEN c.take ELSE 0 END, c.base,
               CASE WHEN c.us = 0 THEN '00000000-0000-0000-0000-000000000000' ELSE c.lease END,
               -- retry_until carries p_first to the update below; a new row has p_first 0.
               CASE WHEN c.us = 0 THEN 0 ELSE v_now + c.us END, c.first - 1 + c.take, 1, v_now, c.first
          FROM (SELECT unnest(p_part) AS part, unnest(p_group) AS grp, unnest(p_first) AS first, unnest(p_take) AS take,
                       unnest(p_base) AS base, unnest(p_lease) AS lease, unnest(p_us) AS us) AS c
          CROSS JOIN LATERAL (
                SELECT FROM (SELECT FROM queend.cursors x
                              WHERE x.partition_id = c.part AND x.group_id >= c.grp AND x.group_id <= c.grp
                                AND queend.cursor_free(x, c.first, v_now)
                                ORDER BY x.group_id DESC LIMIT 1      -- the newest version first, see pop
                                FOR NO KEY UPDATE SKIP LOCKED) AS k
                UNION ALL
                SELECT
                 WHERE c.first = 0
                   AND NOT EXISTS (SELECT FROM queend.cursors x WHERE x.partition_id = c.part AND x.group_id = c.grp)
                         AND (SELECT COALESCE(g.start_at, 0) <= l.created_at FROM queend.consumer_groups g, queend.log l
                               WHERE g.id = c.grp AND l.partition_id = c.part AND l.base = 0)) AS free
         WHERE COALESCE((SELECT CASE WHEN f.addressed
                                          AND queend.given_until(c.part, c.grp, c.first, c.take) < c.first + c.take
                                          THEN 9223372036854775807 ELSE f.floor END
                           -- A NOT EXISTS could become a join that loses the order.
                           FROM queend.floors f WHERE f.partition_id = c.part), 0) <= c.first
           AND (v_holes IS FALSE
                OR NOT EXISTS (SELECT FROM queend.holes h
                                WHERE h.partition_id = c.part AND h.record_offset >= c.first
                                  AND h.record_offset < c.first + c.take))
        ON CONFLICT (partition_id, group_id) DO UPDATE
           SET committed = excluded.committed, row_base = excluded.row_base, lease_id = excluded.lease_id,
               lease_until = excluded.lease_until, lease_end = excluded.lease_end, attempt = excluded.attempt,
               consumed_at = excluded.consumed_at,
               retries = CASE WHEN excluded.lease_until = 0 THEN 0 ELSE k.retries END
         -- A pop may have created or moved the cursor meanwhile.
         WHERE queend.cursor_free(k, excluded.retry_until, v_now)
        RETURNING k.partition_id, k.group_id, k.ctid;
    END IF;
    -- If a lease id does not name its partition, its cursors are remembered.
    IF FOUND AND '80000000-0000-0000-0000-000000000000' > ANY (p_lease) THEN
        PERFORM queend.leases_note(p_lease, p_part, p_group);
    END IF;
END $$;

-- Tells whether a cursor stands right before p_first and is free: without a lease, a pause, an unacknowledged delivery,
-- or a record done beyond a gap. The planner writes the expression into the statement that calls it.
CREATE OR REPLACE FUNCTION queend.cursor_free(k queend.cursors, p_first bigint, p_now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT k.committed + 1 = p_first AND k.lease_end <= k.committed AND k.lease_until <= p_now
           AND k.retry_until <= p_now AND k.beyond IS NULL AND k.standing IS NULL
$$;
