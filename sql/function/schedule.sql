-- Delivery moments: runs of offsets with one moment each. Owns queend.schedule. catalog.scheduled is true once a
-- delivery moment was stored. Locks: written under the partition's lane, in the transaction that stores the records.

-- Stores the delivery moments of a row of the log. Requires the transaction that stored the row.
CREATE OR REPLACE FUNCTION queend.schedule_add(p_part int, p_base bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_meta bytea := (SELECT l.meta FROM queend.log l WHERE l.partition_id = p_part AND l.base = p_base);
BEGIN
    INSERT INTO queend.schedule (due, first_offset, last_offset, partition_id)
    SELECT x.due, p_base + min(x.ord), p_base + max(x.ord), p_part
      FROM (SELECT r.ord, m.due, r.ord - row_number() OVER (PARTITION BY m.due ORDER BY r.ord) AS run
              FROM queend.meta_records(v_meta) AS r CROSS JOIN LATERAL queend.meta_piece(r.piece) AS m
             WHERE get_byte(r.piece, 0) & 8 <> 0) AS x
     GROUP BY x.due, x.run;
    IF FOUND THEN
        UPDATE queend.catalog c SET scheduled = true WHERE NOT c.scheduled;
    END IF;
END $$;

-- Removes a deleted record from the schedule, so that it holds no delivery back. Notifies daemons to look at its
-- partition (a pause that ends now).
CREATE OR REPLACE FUNCTION queend.schedule_cut(p_part int, p_offset bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM queend.schedule s
         WHERE s.partition_id = p_part AND s.last_offset >= p_offset
           AND s.first_offset = (SELECT x.first_offset FROM queend.schedule x
                                  WHERE x.partition_id = p_part AND x.first_offset <= p_offset
                                  ORDER BY x.first_offset DESC LIMIT 1)
        RETURNING s.due, s.first_offset, s.last_offset),
    told AS (
        INSERT INTO queend.pauses (ends_at, partition_id, group_id) SELECT queend.now_us(), p_part, 0 FROM gone
        ON CONFLICT (partition_id, group_id) DO UPDATE SET ends_at = excluded.ends_at)
    INSERT INTO queend.schedule (due, first_offset, last_offset, partition_id)
    SELECT g.due, r.first, r.last, p_part
      FROM gone g
      CROSS JOIN LATERAL (VALUES (g.first_offset, p_offset - 1), (p_offset + 1, g.last_offset)) AS r (first, last)
     WHERE r.first <= r.last;
END $$;

-- Returns the first of the p_most records from p_first on that is not due at p_now; NULL if all are due. Runs do not
-- overlap, so only the last run that begins at or before p_first can hold p_first.
CREATE OR REPLACE FUNCTION queend.schedule_at(p_part int, p_first bigint, p_most int, p_now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN COALESCE(
        (SELECT CASE WHEN x.last_offset >= p_first AND x.due > p_now THEN p_first END FROM queend.schedule x
          WHERE x.partition_id = p_part AND x.first_offset <= p_first ORDER BY x.first_offset DESC LIMIT 1),
        (SELECT x.first_offset FROM queend.schedule x
          WHERE x.partition_id = p_part AND x.first_offset > p_first AND x.first_offset < p_first + p_most
            AND x.due > p_now ORDER BY x.first_offset LIMIT 1));
END $$;

-- Returns when a record that is not due at p_now will be due; NULL if it is due.
CREATE OR REPLACE FUNCTION queend.schedule_due(p_part int, p_offset bigint, p_now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT CASE WHEN s.last_offset >= p_offset AND s.due > p_now THEN s.due END
              FROM queend.schedule s WHERE s.partition_id = p_part AND s.first_offset <= p_offset
             ORDER BY s.first_offset DESC LIMIT 1);
END $$;

-- Returns the first of the records p_from … p_to - 1 whose first possible delivery is at or after p_at, NULL if all
-- are earlier. Such a record has a later delivery moment, or stands behind one and had to wait. So ages count from the
-- first possible delivery.
CREATE OR REPLACE FUNCTION queend.schedule_since(p_part int, p_from bigint, p_to bigint, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (SELECT x.due FROM queend.schedule x WHERE x.partition_id = p_part AND x.first_offset <= p_from
         ORDER BY x.first_offset DESC LIMIT 1) >= p_at THEN
        RETURN CASE WHEN p_from < p_to THEN p_from END;
    END IF;
    RETURN (SELECT x.first_offset FROM queend.schedule x
             WHERE x.partition_id = p_part AND x.first_offset > p_from AND x.first_offset < p_to AND x.due >= p_at
             ORDER BY x.first_offset LIMIT 1);
END $$;
