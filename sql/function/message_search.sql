-- Search for messages by the content of their payloads. Payloads may be compressed or sealed, so the daemon searches
-- them. Out: the rows that the daemon searches, and the state of the messages it finds. Reads only, and a bounded part
-- of the log. Locks: none.

-- Returns rows of a queue's log, the newest first: (created_at DESC, partition_id, base DESC), stored at or after
-- p_from (µs), behind a place. The place: rows stored at p_at or before. At p_at only partitions behind p_behind
-- count, and of p_behind itself rows that begin below p_below. If p_partition is given, only this partition. Ends after
-- p_records records, p_bytes of unpacked bodies, p_look rows read, or p_ms milliseconds. Never ends before the first
-- row, nor in the middle of a window without one. The last result row has n = 0 and the place to continue from:
-- created_at, partition_id, and base, where rows begin below. At the end created_at is NULL. For at most 1000
-- partitions it reads their own rows. For more it reads the log back in windows of time and keeps the queue's rows, as
-- message_rows does.
CREATE OR REPLACE FUNCTION queend.message_search_rows(p_queue int, p_partition text, p_from bigint, p_at bigint,
    p_behind int, p_below bigint, p_records int, p_bytes bigint, p_look int, p_ms int)
RETURNS TABLE (partition_id int, base bigint, n int, created_at bigint, ids bytea, body bytea, meta bytea)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    chunk     CONSTANT int := 5000;      -- largest number of rows in a window
    v_end     timestamptz := clock_timestamp() + p_ms * interval '1 millisecond';
    v_ids     int[];       -- the partitions, NULL: more than 1000
    v_high    bigint[];    -- of each: rows that begin at or behind this offset are passed
    v_newest  bigint[];    -- of each: when the row before that was stored
    v_to      bigint := LEAST(p_at, queend.now_us());
    v_from    bigint;
    v_width   bigint := 1000000;
    v_most    int;
    v_part    int[];
    v_base    bigint[];
    v_at      bigint[];
    v_rows    int;
    v_records int := 0;
    v_bytes   bigint := 0;
    r         record;
BEGIN
    p_at := LEAST(p_at, 9223372036854775806);
    v_ids := CASE WHEN p_partition IS NULL
                       THEN ARRAY(SELECT x.id FROM queend.partitions x WHERE x.queue_id = p_queue
                                   ORDER BY x.id LIMIT 1001)
                  ELSE ARRAY(SELECT x.id FROM queend.partitions x
                              WHERE x.queue_id = p_queue AND x.name = p_partition) END;
    IF cardinality(v_ids) > 1000 THEN
        v_ids := NULL;
    ELSE
        v_to := p_at;
        SELECT array_agg(h.high ORDER BY h.ord), array_agg(queend.row_before(h.id, h.high) ORDER BY h.ord)
          INTO v_high, v_newest
          FROM (SELECT u.id, u.ord, CASE WHEN e.written_at > p_at THEN queend.row_since(u.id, p_at + 1)
                                         ELSE e.head END AS high
                  FROM unnest(v_ids) WITH ORDINALITY AS u (id, ord)
                 CROSS JOIN LATERAL queend.log_end(u.id) AS e) AS h;
    END IF;
    LOOP
        IF v_ids IS NOT NULL THEN
            v_to := LEAST(v_to, COALESCE((SELECT max(u.at) FROM unnest(v_newest) AS u (at)), -1));
        END IF;
        IF v_to < p_from THEN
            RETURN QUERY SELECT -1, 0::bigint, 0, NULL::bigint, ''::bytea, ''::bytea, ''::bytea;
            RETURN;
        END IF;
        v_from := GREATEST(v_to - v_width, p_from - 1);
        -- Rows stored in one microsecond stay in one window.
        v_most := CASE WHEN v_to - v_from > 1 THEN chunk + 1 END;
        IF v_ids IS NOT NULL THEN
            SELECT array_agg(w.partition_id), array_agg(w.base), array_agg(w.created_at), count(*)
              INTO v_part, v_base, v_at, v_rows
              FROM (SELECT l.partition_id, l.base, l.created_at FROM unnest(v_ids, v_high, v_newest) AS u (id, high, at)
                     CROSS JOIN LATERAL (SELECT queend.row_since(u.id, v_from + 1) AS low WHERE u.at > v_from
                                         OFFSET 0) AS s
                     CROSS JOIN LATERAL (SELECT x.partition_id, x.base, x.created_at FROM queend.log x
                                          WHERE x.partition_id = u.id AND x.base >= s.low AND x.base < u.high
                                          ORDER BY x.base DESC LIMIT v_most) AS l
                     LIMIT v_most) AS w;
        ELSE
            SELECT array_agg(w.partition_id), array_agg(w.base), array_agg(w.created_at), count(*)
              INTO v_part, v_base, v_at, v_rows
              FROM queend.rows_between(v_from, v_to, v_most) AS w;
        END IF;
        IF v_rows >= v_most THEN
            v_width := GREATEST((v_to - v_from) / 4, 1);
            CONTINUE;
        END IF;
        FOR r IN SELECT u.part, u.base, u.at FROM unnest(v_part, v_base, v_at) AS u (part, base, at)
                   LEFT JOIN LATERAL (SELECT p.queue_id FROM queend.partitions p WHERE p.id = u.part OFFSET 0) AS p
                          ON v_ids IS NULL
                  WHERE (v_ids IS NOT NULL OR p.queue_id = p_queue)
                    AND (u.at < p_at OR u.part > p_behind OR u.part = p_behind AND u.base < p_below)
                  ORDER BY u.at DESC, u.part, u.base DESC
        LOOP
            IF v_records > 0 AND (v_records >= p_records OR v_bytes >= p_bytes OR clock_timestamp() > v_end) THEN
                RETURN QUERY SELECT partition_id, base, 0, created_at, ''::bytea, ''::bytea, ''::bytea;
                RETURN;
            END IF;
            SELECT l.partition_id, l.base, l.n, l.created_at, l.ids, l.body, l.meta
              INTO partition_id, base, n, created_at, ids, body, meta
              FROM queend.log l WHERE l.partition_id = r.part AND l.base = r.base;
            v_records := v_records + n;
            v_bytes := v_bytes + queend.body_size(body);
            RETURN NEXT;
        END LOOP;
        IF v_ids IS NOT NULL AND v_rows > 0 THEN
            SELECT array_agg(h.high ORDER BY h.ord),
                   array_agg(CASE WHEN h.passed THEN queend.row_before(h.id, h.high) ELSE h.at END ORDER BY h.ord)
              INTO v_high, v_newest
              FROM (SELECT u.id, u.at, u.ord, COALESCE(f.base, u.high) AS high, f.base IS NOT NULL AS passed
                      FROM unnest(v_ids, v_high, v_newest) WITH ORDINALITY AS u (id, high, at, ord)
                      LEFT JOIN (SELECT w.part, min(w.base) AS base FROM unnest(v_part, v_base) AS w (part, base)
                                  GROUP BY w.part) AS f ON f.part = u.id) AS h;
        END IF;
        p_look := p_look - v_rows;
        v_to := v_from;
        v_width := v_width * 4;
        IF v_to >= p_from AND (p_look <= 0 OR v_records >= p_records OR v_bytes >= p_bytes
                               OR v_rows > 0 AND clock_timestamp() > v_end) THEN
            RETURN QUERY SELECT -1, 0::bigint, 0, v_to, ''::bytea, ''::bytea, ''::bytea;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Returns when the newest row of a partition that begins below an offset was stored; NULL without such a row.
CREATE OR REPLACE FUNCTION queend.row_before(p_part int, p_base bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT l.created_at FROM queend.log l
             WHERE l.partition_id = p_part AND l.base < p_base
               AND l.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0)
             ORDER BY l.base DESC LIMIT 1);
END $$;

-- Returns the state of messages by partition and offset, as message_list shows it. Column ord: their place, from 0. A
-- deleted message has no row, unless it is a dead letter.
CREATE OR REPLACE FUNCTION queend.message_stands(p_part int[], p_at bigint[])
RETURNS TABLE (ord int, partition text, queue_status text, status text, consumed_by int, groups int, lease_until bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.ord::int - 1, p.name, queend.group_status(d.dead, c.mode, c.lease_until > 0),
           CASE WHEN d.dead OR c.mode IS NOT NULL THEN queend.group_status(d.dead, c.mode, c.lease_until > 0)
                ELSE queend.group_status(false, c.consumed = c.groups AND c.groups > 0, c.held) END,
           c.consumed::int, c.groups::int, COALESCE(c.lease_until, 0)
      FROM unnest(p_part, p_at) WITH ORDINALITY AS u (part, at, ord)
     CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = u.part OFFSET 0) AS p
     CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM queend.dead_letters x
                                         WHERE x.partition_id = u.part AND x.record_offset = u.at) AS dead
                         OFFSET 0) AS d
     CROSS JOIN LATERAL (
            SELECT bool_or(g.consumed) FILTER (WHERE g.name = '__QUEUE_MODE__') AS mode,
                   max(g.lease_until) FILTER (WHERE g.name = '__QUEUE_MODE__') AS lease_until,
                   count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__') AS groups,
                   count(*) FILTER (WHERE g.name <> '__QUEUE_MODE__' AND g.consumed) AS consumed,
                   bool_or(g.lease_until > 0 AND NOT g.consumed) FILTER (WHERE g.name <> '__QUEUE_MODE__') AS held
              FROM queend.message_groups(u.part, u.at) AS g) AS c
     WHERE d.dead OR NOT EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = u.part AND h.record_offset = u.at)
     ORDER BY u.ord;
END $$;
