-- Acknowledgments of records that a daemon delivered itself: it knows the offsets, so the log is not read. Locks: the
-- cursors, in the order given, which is ascending.

-- Acknowledges as completed the records that the caller delivered under leases and remembers. Element i of the arrays
-- is one lease of a (partition, group), ascending by both, each pair once.
--   p_first, p_last   offsets of the first and the last record acknowledged
--   p_base            an offset at which a row of the log begins, at most that of the record after the lease's last one
--   p_heads           the caller wants the ends of the logs of these partitions
--   p_at              ctids of the cursors, as their claims returned them. Requires that every p_last is the last
--                     record of its lease and that p_heads is false.
-- Returns the elements done, in any order. The column head is the next offset of the partition if its lease was
-- released and p_heads is true, else 0. If p_at is given and all elements are done, one row says so: (0, 0, true, 0). A
-- stale catalogue version does nothing.
--
-- An element is done only if its lease is live and the cursor stands right before p_first. Every record of the lease
-- done so far must lie before the cursor, and every record from p_first on must still be in the log. The claim fixes
-- the records of a lease, and offsets never change. So these are the records that the caller delivered. Then queend.ack
-- would do the same; every other case is left to queend.ack.
--
-- A ctid is a hint. A cursor that was written since its claim (by an extension of the lease, for example) has moved.
-- The conditions then exclude the row that is found at the ctid, if any, and the cursor is searched by its key.
CREATE OR REPLACE FUNCTION queend.ack_leased(p_version bigint, p_part int[], p_group int[], p_lease uuid[],
    p_first bigint[], p_last bigint[], p_base bigint[], p_heads boolean, p_at tid[] DEFAULT NULL)
RETURNS TABLE (part int, grp int, released boolean, head bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_now     bigint;
    v_done    int;
BEGIN
    IF p_part = '{}' THEN
        RETURN;
    END IF;
    IF p_version <> 0 THEN
        SELECT c.version INTO v_version FROM queend.catalog c;
        IF v_version <> p_version THEN
            RETURN;
        END IF;
    END IF;
    v_now := queend.now_us();
    IF p_at IS NOT NULL THEN
        UPDATE queend.cursors AS k
           SET committed = a.last, consumed_at = v_now, row_base = a.base, lease_until = 0,
               lease_id = '00000000-0000-0000-0000-000000000000', retries = 0
          FROM (SELECT unnest(p_at) AS at, unnest(p_part) AS part, unnest(p_group) AS grp, unnest(p_lease) AS lease,
                       unnest(p_first) AS first, unnest(p_last) AS last, unnest(p_base) AS base OFFSET 0) AS a
         WHERE k.ctid = a.at AND k.partition_id = a.part AND k.group_id = a.grp AND k.lease_id = a.lease
           AND k.lease_until > v_now AND k.committed = a.first - 1 AND k.lease_end = a.last
           AND (k.beyond IS NULL OR lower(k.beyond) > k.lease_end)
           AND COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = a.part), 0) <= a.first;
        GET DIAGNOSTICS v_done = ROW_COUNT;
        IF v_done = cardinality(p_part) THEN
            part := 0;
            grp := 0;
            released := true;
            head := 0;
            RETURN NEXT;
            RETURN;
        END IF;
        -- The update wrote some cursors: these rows are recognized by the values written. Their xmin does not tell. It
        -- may belong to a subtransaction, and cursors claimed in this transaction have the same xmin.
        RETURN QUERY
        SELECT a.part, a.grp, true, 0::bigint
          FROM unnest(p_part, p_group, p_last) AS a (part, grp, last)
         CROSS JOIN LATERAL (SELECT FROM queend.cursors x
                              WHERE x.partition_id = a.part AND x.group_id = a.grp AND x.committed = a.last
                                AND x.consumed_at = v_now AND x.lease_until = 0 OFFSET 0) AS x
         WHERE v_done > 0;
    END IF;
    RETURN QUERY
    -- Updates by ctid: one probe of the key, where ON CONFLICT would need two. A cursor that changes meanwhile is
    -- checked again under its lock. The elements done above have no lease any more.
    UPDATE queend.cursors AS k
       SET committed   = a.last, consumed_at = v_now,
           row_base    = CASE WHEN a.last = k.lease_end THEN a.base ELSE k.row_base END,
           lease_until = CASE WHEN a.last = k.lease_end THEN 0 ELSE k.lease_until END,
           lease_id    = CASE WHEN a.last = k.lease_end THEN '00000000-0000-0000-0000-000000000000'
                              ELSE k.lease_id END,
           retries     = CASE WHEN a.last = k.lease_end THEN 0 ELSE k.retries END
      FROM (SELECT x.at, a.lease, a.first, a.last, a.base
              FROM (SELECT unnest(p_part) AS part, unnest(p_group) AS grp, unnest(p_lease) AS lease,
                           unnest(p_first) AS first, unnest(p_last) AS last, unnest(p_base) AS base) AS a
              CROSS JOIN LATERAL (SELECT x.ctid AS at FROM queend.cursors x
                                   WHERE x.partition_id = a.part AND x.group_id = a.grp OFFSET 0) AS x
             -- A NOT EXISTS could become a join that loses the order.
             WHERE COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = a.part), 0) <= a.first
            OFFSET 0) AS a
     WHERE k.ctid = a.at AND k.lease_id = a.lease AND k.lease_until > v_now AND k.committed = a.first - 1
       AND a.last <= k.lease_end AND (k.beyond IS NULL OR lower(k.beyond) > k.lease_end)
    RETURNING k.partition_id, k.group_id, k.lease_until = 0,
              CASE WHEN p_heads AND k.lease_until = 0
                   THEN COALESCE((SELECT l.base + l.n FROM queend.log l
                                   WHERE l.partition_id = k.partition_id AND l.base >= k.row_base
                                   ORDER BY l.base DESC LIMIT 1), 0)
                   ELSE 0 END;
END $$;
