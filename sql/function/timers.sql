-- Timers: rows of queend.timers by queue and key. Each is a push put off to a due moment by the database's clock.
-- Locks, after lanes, cursors and keys, until the end of the transaction: an advisory lock of each timer that a
-- statement writes, ascending by number, then its row. Firing takes the lanes first and then only rows that are free,
-- so it never waits for a row.

-- Operations, as the daemon numbers them.
--   0 schedule   1 cancel
-- Outcomes.
--   0 scheduled   1 rescheduled   2 cancelled   3 absent   4 too late: it is being fired
--   5 the queue is encrypted and the payload is not   6 there are too many timers
--   With outcomes 5 and 6, nothing was done.

-- Returns about how many timers there may be.
CREATE OR REPLACE FUNCTION queend.timers_most() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 10000000::bigint';

-- Returns the number under which a timer is locked. Two timers may share one.
CREATE OR REPLACE FUNCTION queend.timer_lock_number(p_queue text, p_key text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(p_key, hashtextextended(p_queue, 1903519081))
$$;

-- Schedules and cancels timers for one or many requests, and returns the outcome of each operation (ord from 0).
-- Parameters, one element for each operation:
--   p_delay_us  from the database's now to the due moment, at least 0
--   p_seal      the id of the key that sealed the payload; NULL: it is plain
-- Columns due, message_id and txn are those of the timer that was scheduled or cancelled. A timer that is there already
-- is replaced, with its failed attempts. Requires that each timer occurs once. The number of timers is an estimate of
-- autovacuum, so the bound is not exact.
CREATE OR REPLACE FUNCTION queend.timers_write(p_op smallint[], p_queue text[], p_key text[], p_partition text[],
    p_transaction text[], p_payload text[], p_seal text[], p_delay_us bigint[], p_producer text[])
RETURNS TABLE (ord int, outcome smallint, due bigint, message_id uuid, txn text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now  bigint;
    v_held bigint[];          -- numbers of the timers to be cancelled that this transaction has locked
BEGIN
    IF 0 = ANY (p_op) THEN
        RETURN QUERY
        SELECT u.ord::int - 1, 5::smallint, NULL::bigint, NULL::uuid, NULL::text
          FROM unnest(p_op, p_queue, p_seal) WITH ORDINALITY AS u (op, queue, seal, ord)
         CROSS JOIN LATERAL (SELECT q.encryption_enabled FROM queend.queues q WHERE q.name = u.queue OFFSET 0) AS q
         WHERE u.op = 0 AND u.seal IS NULL AND q.encryption_enabled;
        IF FOUND THEN
            RETURN;
        END IF;
        IF (SELECT c.reltuples >= queend.timers_most() FROM pg_class c WHERE c.oid = 'queend.timers'::regclass) THEN
            RETURN QUERY SELECT 0, 6::smallint, NULL::bigint, NULL::uuid, NULL::text;
            RETURN;
        END IF;
    END IF;
    PERFORM queend.timers_lock(p_queue, p_key);
    v_now := queend.now_us();
    IF 1 = ANY (p_op) THEN
        -- A row that is locked although this transaction holds its advisory lock is being fired. It is deleted by a
        -- statement of its own: the snapshot of this one may be older than the row that it locks.
        v_held := ARRAY(
            SELECT t.number FROM unnest(p_op, p_queue, p_key) AS u (op, queue, key)
             CROSS JOIN LATERAL (SELECT x.number FROM queend.timers x
                                  WHERE x.queue = u.queue AND x.timer_key = u.key FOR UPDATE SKIP LOCKED) AS t
             WHERE u.op = 1);
        RETURN QUERY
        WITH op AS MATERIALIZED (
            SELECT u.ord, t.*
              FROM unnest(p_op, p_queue, p_key) WITH ORDINALITY AS u (op, queue, key, ord)
              LEFT JOIN LATERAL (SELECT x.ctid AS tid, x.number, x.due, x.message_id, x.transaction_id
                                   FROM queend.timers x
                                  WHERE x.queue = u.queue AND x.timer_key = u.key OFFSET 0) AS t ON true
             WHERE u.op = 1),
        gone AS (
            DELETE FROM queend.timers t USING op o WHERE o.number = ANY (v_held) AND t.ctid = o.tid)
        SELECT o.ord::int - 1,
               CASE WHEN o.number = ANY (v_held) THEN 2 WHEN o.number IS NULL THEN 3 ELSE 4 END::smallint, o.due,
               o.message_id, o.transaction_id
          FROM op o;
    END IF;
    IF 0 = ANY (p_op) THEN
        RETURN QUERY
        WITH op AS MATERIALIZED (
            SELECT u.*, nextval('queend.timer_numbers') AS number, gen_random_uuid() AS id
              FROM (SELECT unnest(p_op) AS op, unnest(p_queue) AS queue, unnest(p_key) AS key,
                           unnest(p_partition) AS partition, unnest(p_transaction) AS txn, unnest(p_payload) AS payload,
                           unnest(p_seal) AS seal, unnest(p_delay_us) AS delay_us, unnest(p_producer) AS producer,
                           generate_subscripts(p_op, 1) AS ord) AS u
             WHERE u.op = 0),
        put AS (
            INSERT INTO queend.timers AS t (number, due, next_at, created_at, updated_at, attempts, message_id, queue,
                                            timer_key, partition, transaction_id, payload, seal, producer_sub)
            SELECT o.number, v_now + o.delay_us, v_now + o.delay_us, v_now, v_now, 0, o.id, o.queue, o.key,
                   o.partition, o.txn, o.payload, o.seal, o.producer
              FROM op o
            ON CONFLICT (queue, timer_key) DO UPDATE
               SET number = EXCLUDED.number, due = EXCLUDED.due, next_at = EXCLUDED.next_at,
                   updated_at = EXCLUDED.updated_at, attempts = 0, message_id = EXCLUDED.message_id,
                   partition = EXCLUDED.partition, transaction_id = EXCLUDED.transaction_id,
                   payload = EXCLUDED.payload, seal = EXCLUDED.seal, producer_sub = EXCLUDED.producer_sub,
                   last_error = NULL
            RETURNING t.number, t.xmax <> 0 AS again)      -- xmax: 0 for a new row
        SELECT o.ord - 1, CASE WHEN p.again THEN 1 ELSE 0 END::smallint, v_now + o.delay_us, o.id, o.txn
          FROM op o JOIN put p ON p.number = o.number;
    END IF;
END $$;

-- Locks timers that are to be written, until the end of the transaction. The order is ascending, so no two statements
-- wait for each other.
CREATE OR REPLACE FUNCTION queend.timers_lock(p_queue text[], p_key text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[] := ARRAY(SELECT DISTINCT queend.timer_lock_number(k.queue, k.key) AS number
                                  FROM unnest(p_queue, p_key) AS k (queue, key) ORDER BY number);
    v_number  bigint;
BEGIN
    FOREACH v_number IN ARRAY v_numbers LOOP
        PERFORM pg_advisory_xact_lock(v_number);
    END LOOP;
END $$;

-- Fires timers that are due: at most p_limit and about 8 MB, in the order of their moments. One transaction stores
-- their messages and deletes the timers, so each fires exactly once. A message whose transaction id its partition has
-- already is not stored again. Timers that another transaction is changing are left for the next call. The lanes are
-- taken before the rows, so a transaction that holds lanes may wait for a row that is held here. Returns:
--   fired    how many; -1: another session fires at this moment
--   late_us  how late the latest of them was
--   next_at  when the next one is due; NULL: there are no others
--   now_us   the database's clock
CREATE OR REPLACE FUNCTION queend.timers_fire(p_limit int DEFAULT 1000, OUT fired int, OUT late_us bigint,
    OUT next_at bigint, OUT now_us bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_due  record;
    v_lane int;
    v      record;
BEGIN
    fired := 0;
    late_us := 0;
    now_us := queend.now_us();
    IF NOT pg_try_advisory_xact_lock(1903519077, 2) THEN
        fired := -1;
        RETURN;
    END IF;
    SELECT array_agg(r.number ORDER BY r.next_at, r.number) AS number, array_agg(r.queue ORDER BY r.next_at, r.number)
               AS queue, array_agg(r.timer_key ORDER BY r.next_at, r.number) AS key,
           array_agg(r.partition ORDER BY r.next_at, r.number) AS partition,
           array_agg(r.transaction_id ORDER BY r.next_at, r.number) AS transaction INTO v_due
      FROM (SELECT x.*, sum(x.size) OVER (ORDER BY x.next_at, x.number) - x.size AS before
              FROM (SELECT t.next_at, t.number, t.queue, t.timer_key, t.partition, t.transaction_id,
                           octet_length(t.payload) AS size
                      FROM queend.timers t
                     WHERE t.next_at <= now_us ORDER BY t.next_at, t.number LIMIT p_limit) AS x) AS r
     WHERE r.before < 8388608;
    IF v_due.number IS NOT NULL THEN
        FOR v_lane IN
            SELECT DISTINCT r.partition_id & 63 AS lane
              FROM queend.resolve(v_due.queue, queend.spread_places(v_due.queue, v_due.partition, v_due.transaction))
                   AS r
             ORDER BY lane
        LOOP
            PERFORM pg_advisory_xact_lock(1903519076, v_lane);
        END LOOP;
        WITH taken AS (
            DELETE FROM queend.timers t
             USING (SELECT x.tid FROM unnest(v_due.number, v_due.queue, v_due.key) AS u (number, queue, key)
                     CROSS JOIN LATERAL (SELECT y.ctid AS tid FROM queend.timers y
                                          WHERE y.queue = u.queue AND y.timer_key = u.key AND y.number = u.number
                                            FOR UPDATE SKIP LOCKED) AS x) AS k
             WHERE t.ctid = k.tid
            RETURNING t.*)
        SELECT array_agg(t.queue ORDER BY t.due, t.number) AS queue,
               array_agg(t.partition ORDER BY t.due, t.number) AS partition,
               array_agg(t.transaction_id ORDER BY t.due, t.number) AS transaction,
               array_agg(t.payload ORDER BY t.due, t.number) AS payload,
               array_agg(t.seal ORDER BY t.due, t.number) AS seal,
               array_agg(t.producer_sub ORDER BY t.due, t.number) AS producer,
               count(*)::int AS n, queend.now_us() - min(t.due) FILTER (WHERE t.attempts = 0) AS late INTO v
          FROM taken t;
        IF v.n > 0 THEN
            PERFORM 1 FROM queend.push_items(v.queue, v.partition, v.transaction, v.payload,
                                             array_fill(NULL::uuid, ARRAY[v.n]), v.producer, p_seal => v.seal);
            fired := v.n;
            late_us := COALESCE(v.late, 0);
        END IF;
    END IF;
    next_at := (SELECT t.next_at FROM queend.timers t ORDER BY t.next_at, t.number LIMIT 1);
END $$;

-- Fires only the first timer that is due, to find the one on which timers_fire failed. If the failure is its own, it
-- stays, with the error. It is tried again after 2 s, 4 s, and so on up to 300 s, and the others go on meanwhile.
-- Returns the row of timers_fire; fired is -2 if the timer failed. Raises every error whose cause is not the timer
-- (queend/core/pg/sqlstate.pyx has the table).
CREATE OR REPLACE FUNCTION queend.timers_fire_one(OUT fired int, OUT late_us bigint, OUT next_at bigint,
    OUT now_us bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_first record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1903519077, 2) THEN
        fired := -1;
        RETURN;
    END IF;
    SELECT t.number, t.queue, t.timer_key INTO v_first FROM queend.timers t ORDER BY t.next_at, t.number LIMIT 1;
    BEGIN
        SELECT * INTO fired, late_us, next_at, now_us FROM queend.timers_fire(1);
    EXCEPTION WHEN data_exception OR check_violation OR feature_not_supported OR program_limit_exceeded
                   OR SQLSTATE 'QD409' THEN
        now_us := queend.now_us();
        UPDATE queend.timers t
           SET attempts = t.attempts + 1, last_error = left(SQLERRM, 500),
               next_at = now_us + 1000000 * LEAST(300, 2 << LEAST(t.attempts, 8))
         WHERE t.queue = v_first.queue AND t.timer_key = v_first.timer_key AND t.number = v_first.number;
        fired := -2;
        late_us := 0;
        next_at := (SELECT t.next_at FROM queend.timers t ORDER BY t.next_at, t.number LIMIT 1);
    END;
END $$;

-- Returns due timers with plain payloads whose queues became encrypted after they were scheduled. SQL cannot seal them:
-- the daemon does (timer_sealed) before they are fired.
CREATE OR REPLACE FUNCTION queend.timers_unsealed(p_limit int) RETURNS TABLE (number bigint, queue text, timer_key text,
    payload text)
LANGUAGE sql STABLE AS $$
    SELECT t.number, t.queue, t.timer_key, t.payload
      FROM queend.timers t JOIN queend.queues q ON q.name = t.queue
     WHERE t.next_at <= queend.now_us() AND t.seal IS NULL AND q.encryption_enabled
     ORDER BY t.next_at, t.number LIMIT p_limit
$$;

-- Replaces the plain payload of a timer by the sealed one, unless the timer was replaced, cancelled or fired meanwhile.
CREATE OR REPLACE FUNCTION queend.timer_sealed(p_number bigint, p_queue text, p_key text, p_payload text, p_seal text)
RETURNS void
LANGUAGE sql AS $$
    UPDATE queend.timers t SET payload = p_payload, seal = p_seal
     WHERE t.queue = p_queue AND t.timer_key = p_key AND t.number = p_number AND t.seal IS NULL
$$;

-- Returns timers of a queue, ascending by key: those whose keys come after p_after and begin with p_prefix. If p_key
-- names one timer, returns only that one, with its payload.
CREATE OR REPLACE FUNCTION queend.timers_list(p_queue text, p_key text, p_after text, p_prefix text, p_limit int)
RETURNS TABLE (timer_key text, partition text, due bigint, transaction_id text, message_id uuid, payload text,
               seal text, producer_sub text, attempts int, last_error text, created_at bigint, updated_at bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF p_key IS NOT NULL THEN
        RETURN QUERY SELECT t.timer_key, t.partition, t.due, t.transaction_id, t.message_id, t.payload, t.seal,
                            t.producer_sub, t.attempts, t.last_error, t.created_at, t.updated_at
                       FROM queend.timers t WHERE t.queue = p_queue AND t.timer_key = p_key;
        RETURN;
    END IF;
    RETURN QUERY SELECT t.timer_key, t.partition, t.due, t.transaction_id, t.message_id, NULL::text, t.seal,
                        t.producer_sub, t.attempts, t.last_error, t.created_at, t.updated_at
                   FROM queend.timers t
                  WHERE t.queue = p_queue AND t.timer_key >= p_prefix AND t.timer_key > p_after
                    AND starts_with(t.timer_key, p_prefix)
                  ORDER BY t.queue, t.timer_key LIMIT p_limit;
END $$;

-- Returns how many timers of a queue have keys that begin with p_prefix, up to p_most.
CREATE OR REPLACE FUNCTION queend.timers_count(p_queue text, p_prefix text, p_most int) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*)
      FROM (SELECT FROM queend.timers t
             WHERE t.queue = p_queue AND t.timer_key >= p_prefix AND starts_with(t.timer_key, p_prefix)
             LIMIT p_most) AS t
$$;

-- Deletes the timers of a queue that is deleted, the last step of that. Leaves those that another transaction is
-- writing or firing: they count as written after the deletion. So the deletion, which holds all other locks, never
-- waits for a timer.
CREATE OR REPLACE FUNCTION queend.timers_drop(p_queue text) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM queend.timers t
     WHERE t.ctid = ANY (ARRAY(SELECT x.ctid FROM queend.timers x WHERE x.queue = p_queue FOR UPDATE SKIP LOCKED))
$$;
