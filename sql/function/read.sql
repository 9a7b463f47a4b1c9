-- Reads of the log without a group. No cursor moves. Locks: none.

-- Returns log rows by offset, for a read without a group. Each element is one entry: queue and partition by name, first
-- offset, most bytes. Parameter p_total: most bytes of all entries. Returns at least one row per entry, in order.
-- Column status: 0 read, 1 unknown queue, 2 the offset is below floor or above head. A partition that was never written
-- has head and floor 0. The arrays hold the log rows from the one with the first offset on; NULL: no rows. A result row
-- has at most 1000 of them, so a long answer has several result rows per entry. All come from one snapshot, so head and
-- floor are true of the rows. Bytes are those of unpacked bodies (body_size), of extras, and 32 per record (ids, and
-- what an answer has around a payload). The first row of an entry is read whatever its size, while any bytes of the
-- limits are left.
CREATE OR REPLACE FUNCTION queend.read_rows(p_queue text[], p_partition text[], p_offset bigint[], p_max bigint[],
    p_total bigint)
RETURNS TABLE (ord int, status int, head bigint, floor bigint, base bigint[], n int[], created_at bigint[], ids bytea[],
               body bytea[], meta bytea[])
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_total bigint := p_total;
    v_left  bigint;
    v_at    bigint;
    v_rows  int;
    v_size  bigint;
    e       record;
BEGIN
    FOR e IN
        SELECT u.ord::int - 1 AS ord, q.id AS queue, p.id AS part, u.start, u.most, t.head, t.floor
          FROM unnest(p_queue, p_partition, p_offset, p_max) WITH ORDINALITY AS u (queue, partition, start, most, ord)
          LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
          LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x
                              WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true
          CROSS JOIN LATERAL queend.log_end(p.id) AS t
         ORDER BY u.ord
    LOOP
        ord := e.ord;
        head := e.head;
        floor := e.floor;
        status := CASE WHEN e.queue IS NULL THEN 1 WHEN e.start < e.floor OR e.start > e.head THEN 2 ELSE 0 END;
        v_left := LEAST(e.most, v_total);
        IF status <> 0 OR e.start >= e.head OR v_left <= 0 THEN
            base := NULL; n := NULL; created_at := NULL; ids := NULL; body := NULL; meta := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        v_at := COALESCE((SELECT CASE WHEN l.base + l.n > e.start THEN l.base END FROM queend.log l
                           WHERE l.partition_id = e.part AND l.base <= e.start AND l.base >= e.floor
                           ORDER BY l.base DESC LIMIT 1), e.start);
        LOOP
            SELECT array_agg(c.base), array_agg(c.n), array_agg(c.created_at), array_agg(c.ids), array_agg(c.body),
                   array_agg(c.meta), count(*), sum(c.size), max(c.base + c.n)
              INTO base, n, created_at, ids, body, meta, v_rows, v_size, v_at
              FROM (SELECT r.*, sum(r.size) OVER (ORDER BY r.base ROWS UNBOUNDED PRECEDING) AS run
                      FROM (SELECT l.base, l.n, l.created_at, l.ids, l.body, l.meta,
                                   queend.body_size(l.body) + octet_length(l.meta) + 32 * l.n AS size FROM queend.log l
                             WHERE l.partition_id = e.part AND l.base >= v_at AND l.base < e.head
                             ORDER BY l.base LIMIT 1000) AS r) AS c
             WHERE c.run - c.size < v_left;
            RETURN NEXT;
            EXIT WHEN v_rows = 0;
            v_total := v_total - v_size;
            v_left := v_left - v_size;
            EXIT WHEN v_rows < 1000 OR v_left <= 0 OR v_at >= e.head;
        END LOOP;
    END LOOP;
END $$;

-- Returns head and floor of every partition of a queue in order of creation. A page has at most p_limit partitions
-- behind partition id p_after. Column at: the first offset whose record was stored at or after p_at (µs). It is the
-- head if all records are older, NULL if p_at is NULL. Column written_at: when the newest record was stored, NULL if
-- the partition is empty.
CREATE OR REPLACE FUNCTION queend.offsets(p_queue int, p_after int, p_limit int, p_at bigint)
RETURNS TABLE (partition_id int, name text, head bigint, floor bigint, written_at bigint, at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.id, p.name, t.head, t.floor, t.written_at,
           CASE WHEN p_at IS NULL THEN NULL WHEN COALESCE(t.written_at < p_at, true) THEN t.head
                ELSE GREATEST(queend.offset_since(p.id, p_at), t.floor) END
      FROM (SELECT x.id, x.name FROM queend.partitions x WHERE x.queue_id = p_queue AND x.id > p_after
             ORDER BY x.id LIMIT p_limit) AS p
      CROSS JOIN LATERAL queend.log_end(p.id) AS t
     ORDER BY p.id;
END $$;

-- Finds the first record of a partition stored at or after p_at (µs). Each element is one entry; returns one row each,
-- in order. Column queue_id is NULL if the queue is unknown. Columns found and stored_at: offset and time of the
-- record, NULL if all records are older.
CREATE OR REPLACE FUNCTION queend.offsets_at(p_queue text[], p_partition text[], p_at bigint[])
RETURNS TABLE (ord int, queue_id int, found bigint, stored_at bigint, head bigint, floor bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.ord::int - 1, q.id, s.found, r.created_at, t.head, t.floor
      FROM unnest(p_queue, p_partition, p_at) WITH ORDINALITY AS u (queue, partition, at, ord)
      LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
      LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x
                          WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true
      CROSS JOIN LATERAL queend.log_end(p.id) AS t
      LEFT JOIN LATERAL (SELECT NULLIF(GREATEST(queend.offset_since(p.id, u.at), t.floor), t.head) AS found
                          WHERE p.id IS NOT NULL) AS s ON true
      LEFT JOIN LATERAL (SELECT queend.record_time(l.created_at, l.meta, s.found - l.base) AS created_at
                           FROM queend.log l WHERE l.partition_id = p.id AND l.base <= s.found
                          ORDER BY l.base DESC LIMIT 1) AS r ON true
     ORDER BY u.ord;
END $$;

-- Returns the next offset of each partition, by queue and partition name, in the order given, for waiting reads of the
-- log. 0: the partition was never written. -1: the queue is unknown.
CREATE OR REPLACE FUNCTION queend.heads(p_queue text[], p_partition text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT array_agg(CASE WHEN q.id IS NULL THEN -1 ELSE COALESCE(h.head, 0) END ORDER BY u.ord)
              FROM unnest(p_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
              LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
              LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x
                                  WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true
              LEFT JOIN LATERAL (SELECT queend.head(p.id) AS head WHERE p.id IS NOT NULL) AS h ON true);
END $$;

-- Finds partitions with a record stored at or after p_since, in order of creation, a page at a time. Each element is
-- one entry:
--   p_queue    the queue by name
--   p_since    in µs, NULL: all partitions of the queue, also those never written
--   p_after    the page begins behind this partition id, 0: at the first
--   p_limit    most partitions.
-- The first result row (ord -1) has in written_at the time up to which this answer contains every write
-- (queend.safe_time). If that is unknown, written_at is the earliest p_since, or 0; both are always true. Then follow,
-- per entry in order, its partitions (status 0) and one closing row. The status of that row: 1 unknown queue, 2 the
-- page is the last, 3 there may be more behind partition_id. Column written_at: when the newest record was stored, NULL
-- if the partition is empty. Column head: the next offset the partition will give.
--   1. Recent writes are found by time (written_since), at a cost of what was written since, whatever else is stored.
--   2. After more than 100 000 such rows the queue's partitions are walked, one probe of the newest row each. A call
--      walks at most 20 000, or 20 per entry. Then a page may end before it is full.
CREATE OR REPLACE FUNCTION queend.partitions_changed(p_queue text[], p_since bigint[], p_after int[], p_limit int[])
RETURNS TABLE (ord int, status int, partition_id int, name text, head bigint, floor bigint, written_at bigint)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    walk    CONSTANT int := GREATEST(20000 / GREATEST(cardinality(p_queue), 1), 20);
    v_known bigint;      -- the p_since for which v_parts was read
    v_parts int[];
    v_page  int[];
    v_last  int;         -- the partition behind which the next page begins
    e       record;
BEGIN
    RETURN QUERY SELECT -1, 0, 0, ''::text, 0::bigint, 0::bigint,
                        COALESCE(queend.safe_time(),
                                 (SELECT CASE WHEN count(*) = count(s) THEN min(s) END FROM unnest(p_since) AS s), 0);
    FOR e IN SELECT u.ord::int - 1 AS ord, q.id AS queue, u.since, u.after, u.most
               FROM unnest(p_queue, p_since, p_after, p_limit) WITH ORDINALITY AS u (queue, since, after, most, ord)
               LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
              ORDER BY u.ord
    LOOP
        IF e.queue IS NULL THEN
            RETURN QUERY SELECT e.ord, 1, 0, ''::text, 0::bigint, 0::bigint, NULL::bigint;
            CONTINUE;
        END IF;
        v_last := NULL;
        IF e.since IS NULL THEN
            SELECT array_agg(p.id) INTO v_page
              FROM (SELECT x.id FROM queend.partitions x WHERE x.queue_id = e.queue AND x.id > e.after
                     ORDER BY x.id LIMIT e.most + 1) AS p;
        ELSE
            IF v_known IS DISTINCT FROM e.since THEN
                v_known := e.since;
                v_parts := queend.written_since(e.since, 100000);
            END IF;
            IF v_parts IS NOT NULL THEN
                SELECT array_agg(r.id) INTO v_page
                  FROM (SELECT u.id FROM unnest(v_parts) WITH ORDINALITY AS u (id, ord)
                         CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
                         WHERE u.id > e.after AND p.queue_id = e.queue ORDER BY u.ord LIMIT e.most + 1) AS r;
            ELSE
                SELECT array_agg(r.id ORDER BY r.id) FILTER (WHERE r.written),
                       CASE WHEN count(*) = walk THEN max(r.id) END INTO v_page, v_last
                  FROM (SELECT p.id, COALESCE(t.written_at >= e.since, false) AS written
                          FROM (SELECT x.id FROM queend.partitions x WHERE x.queue_id = e.queue AND x.id > e.after
                                 ORDER BY x.id LIMIT walk) AS p
                         CROSS JOIN LATERAL queend.log_end(p.id) AS t) AS r;
            END IF;
        END IF;
        IF cardinality(v_page) > e.most THEN
            v_last := v_page[e.most];
        END IF;
        RETURN QUERY
        SELECT e.ord, 0, p.id, p.name, t.head, t.floor, t.written_at
          FROM unnest(v_page[1:e.most]) WITH ORDINALITY AS u (id, ord)
         CROSS JOIN LATERAL (SELECT x.id, x.name FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
         CROSS JOIN LATERAL queend.log_end(p.id) AS t
         ORDER BY u.ord;
        RETURN QUERY SELECT e.ord, CASE WHEN v_last IS NULL THEN 2 ELSE 3 END, COALESCE(v_last, 0), ''::text, 0::bigint,
                            0::bigint, NULL::bigint;
    END LOOP;
END $$;
