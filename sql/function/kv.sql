-- Keys and values: rows of queend.kv by namespace and key. A row past its expiry counts as absent, whether it was
-- removed or not. Versions rise with every write, also over deletions and promotions, so they are fencing tokens.
-- Locks: an advisory lock of each key that a statement may write, ascending by number, until the end of the
-- transaction; after lanes and cursors. Reads take none.

-- Operations, as the daemon numbers them.
--   0 get   1 put   2 delete   3 incr   4 check   5 list (key: the prefix, value: the last key of the page before,
--   ttl_us: the most rows)   6 list without values
-- Outcomes.
--   0 applied, found, held, or a row of a list   1 exists   2 absent   3 version   4 limit   5 type
--   6 a list has more rows   16 and more: the same, of an operation that was required

-- Returns the number under which a key is locked. Two keys may share one.
CREATE OR REPLACE FUNCTION queend.kv_lock_number(p_ns text, p_key text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(p_key, hashtextextended(p_ns, 1903519080))
$$;

-- Locks the keys of operations that look or write, until the end of the transaction. The order is ascending, so no two
-- statements wait for each other.
CREATE OR REPLACE FUNCTION queend.kv_lock(p_ns text[], p_key text[], p_op smallint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[] := ARRAY(SELECT DISTINCT queend.kv_lock_number(k.ns, k.key) AS number
                                  FROM unnest(p_ns, p_key, p_op) AS k (ns, key, op) WHERE k.op BETWEEN 1 AND 4
                                 ORDER BY number);
    v_number  bigint;
BEGIN
    FOREACH v_number IN ARRAY v_numbers LOOP
        PERFORM pg_advisory_xact_lock(v_number);
    END LOOP;
END $$;

-- Returns what this server adds to the numbers of versions: the era times 2^33. Raises the era if it belongs to
-- another server. That is so after a promotion, a recovery to an earlier moment, or a restore into another cluster. A
-- server that was promoted twice, and lost the first raise, has a timeline above the lost era. A session keeps the
-- result in the setting queend.kv_era: the server of a session that writes stays the same.
CREATE OR REPLACE FUNCTION queend.kv_era() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_era      bigint := NULLIF(current_setting('queend.kv_era', true), '');
    v_timeline int;
    v_server   text;
BEGIN
    IF v_era IS NOT NULL THEN
        RETURN v_era;
    END IF;
    v_timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int;
    v_server := (SELECT c.system_identifier FROM pg_control_system() AS c) || '/' || v_timeline;
    UPDATE queend.kv_era e SET era = GREATEST(e.era + 1, v_timeline), server = v_server WHERE e.server <> v_server;
    SELECT e.era::bigint << 33 INTO STRICT v_era FROM queend.kv_era e;
    PERFORM set_config('queend.kv_era', v_era::text, false);
    RETURN v_era;
END $$;

-- Returns the value of a JSON literal that incr can add to; NULL for anything else. Numbers of more than 30 digits, and
-- exponents of more than two, are no counters. Whole numbers are recognized without the pattern, which takes 5 us.
CREATE OR REPLACE FUNCTION queend.kv_number(p_value text) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(p_value) < 19 AND translate(p_value, '-0123456789', '') = '' THEN p_value::numeric
                WHEN p_value ~ '^-?[0-9]{1,30}([.][0-9]{1,30})?([eE][-+]?[0-9]{1,2})?$' THEN p_value::numeric END
$$;

-- Returns a number as JSON: whole numbers below 10^18 exactly, others as doubles.
CREATE OR REPLACE FUNCTION queend.kv_number_text(p_number numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_number = trunc(p_number) AND abs(p_number) < 1e18 THEN trunc(p_number)::text
                ELSE p_number::double precision::text END
$$;

-- Returns the rows of the keys that are live, with their places (from 0). The columns are those of kv_apply.
CREATE OR REPLACE FUNCTION queend.kv_get(p_ns text[], p_key text[])
RETURNS TABLE (ord int, outcome smallint, version bigint, expires_at bigint, updated_at bigint, value text, key text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    RETURN QUERY
    SELECT u.ord::int - 1, 0::smallint, k.version, k.expires_at, k.updated_at, k.value, NULL::text
      FROM unnest(p_ns, p_key) WITH ORDINALITY AS u (ns, key, ord)
     CROSS JOIN LATERAL (SELECT x.* FROM queend.kv x WHERE x.ns = u.ns AND x.key = u.key OFFSET 0) AS k
     WHERE k.expires_at > v_now;
END $$;

-- Returns live rows of a namespace whose keys begin with a prefix and come after p_after, ascending. Parameters
-- p_limit, p_bytes: the most rows, and the most bytes of their values; the first row always fits. A last row without a
-- key says that there are others.
CREATE OR REPLACE FUNCTION queend.kv_list(p_ns text, p_prefix text, p_after text, p_limit int, p_bytes bigint,
    p_keys_only boolean)
RETURNS TABLE (key text, version bigint, expires_at bigint, updated_at bigint, value text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now   bigint := queend.now_us();
    v_n     int := 0;
    v_bytes bigint := 0;
    r       queend.kv;
BEGIN
    FOR r IN SELECT x.* FROM queend.kv x
              WHERE x.ns = p_ns AND x.key >= p_prefix AND x.key > COALESCE(p_after, '') ORDER BY x.ns, x.key
    LOOP
        EXIT WHEN NOT starts_with(r.key, p_prefix);
        CONTINUE WHEN r.expires_at <= v_now;
        IF v_n >= p_limit OR v_n > 0 AND v_bytes + octet_length(r.value) > p_bytes THEN
            RETURN QUERY SELECT NULL::text, 0::bigint, 0::bigint, 0::bigint, NULL::text;
            RETURN;
        END IF;
        v_n := v_n + 1;
        v_bytes := v_bytes + CASE WHEN p_keys_only THEN 0 ELSE octet_length(r.value) END;
        RETURN QUERY SELECT r.key, r.version, r.expires_at, r.updated_at, CASE WHEN NOT p_keys_only THEN r.value END;
    END LOOP;
END $$;

-- Applies operations of one or many requests in their order and returns the outcome of each (ord from 0). Parameters,
-- one element for each operation:
--   p_wave     Waves run one after another, from 0 and ascending. Within one, a key may be written once, or read any
--              number of times. A list is alone in its wave.
--   p_expect   NULL: any; 0: the key has to be absent; otherwise the version that it must have.
--   p_ttl_us   Its life for put and incr; NULL: for ever. incr keeps the expiry of a live counter.
--   p_delta, p_min, p_max   Of incr, as JSON. A sum beyond a bound is not written.
-- An operation that was not applied returns the row as a reader would see it; version 0 if there is none. A put or
-- delete that was applied returns no value. `key` is that of a row of a list. Requires kv_lock for all keys that may be
-- written.
CREATE OR REPLACE FUNCTION queend.kv_apply(p_wave int[], p_op smallint[], p_ns text[], p_key text[], p_value text[],
    p_expect bigint[], p_ttl_us bigint[], p_delta text[], p_min text[], p_max text[])
RETURNS TABLE (ord int, outcome smallint, version bigint, expires_at bigint, updated_at bigint, value text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint;
    v_era bigint := CASE WHEN p_op && '{1,2,3}'::smallint[] THEN queend.kv_era() END;
    v_lists int := (SELECT count(*) FROM unnest(p_op) AS o WHERE o >= 5);      -- share the bytes of their values
    w     int;
    i     int;
BEGIN
    FOR w IN 0 .. COALESCE((SELECT max(x) FROM unnest(p_wave) AS x), -1) LOOP
        v_now := queend.now_us();
        -- OFFSET 0: otherwise the planner writes the expressions of the inner queries into each place that names them.
        RETURN QUERY
        WITH judged AS MATERIALIZED (
            SELECT o.*, o.outcome = 0 AND o.op BETWEEN 1 AND 3 AS writes,
                   CASE WHEN o.outcome = 0 AND o.op BETWEEN 1 AND 3 THEN v_era + nextval('queend.kv_versions')
                        WHEN o.live THEN o.old_version ELSE 0 END AS new_version,
                   CASE WHEN o.outcome = 0 AND (o.op = 1 OR o.op = 3 AND NOT o.live)
                             THEN COALESCE(v_now + o.ttl_us, 9223372036854775807)
                        WHEN o.live THEN o.old_expires_at END AS new_expires_at,
                   CASE WHEN o.outcome = 0 AND o.op = 1 THEN o.value
                        WHEN o.outcome = 0 AND o.op = 3 THEN queend.kv_number_text(o.total)
                        WHEN o.live THEN o.old_value END AS new_value
              FROM (SELECT p.*, CASE WHEN p.op = 0 THEN CASE WHEN p.live THEN 0 ELSE 2 END
                                     WHEN p.op = 3 AND p.total IS NULL THEN 5
                                     WHEN p.op = 3 AND (p.total < queend.kv_number(p.low)
                                                        OR p.total > queend.kv_number(p.high)) THEN 4
                                     WHEN p.op = 3 THEN 0
                                     WHEN p.op = 2 AND NOT p.live THEN 2
                                     WHEN p.expect = 0 THEN CASE WHEN p.live THEN 1 ELSE 0 END
                                     WHEN p.op = 1 AND p.expect IS NULL THEN 0
                                     WHEN NOT p.live THEN 2
                                     WHEN p.old_version <> p.expect THEN 3
                                     ELSE 0 END::smallint AS outcome
                      FROM (SELECT u.*, k.tid, COALESCE(k.expires_at > v_now, false) AS live,
                                   k.version AS old_version, k.expires_at AS old_expires_at,
                                   k.updated_at AS old_updated_at, k.value AS old_value,
                                   CASE WHEN u.op = 3 THEN queend.kv_number(u.delta)
                                                  + CASE WHEN k.expires_at > v_now THEN queend.kv_number(k.value)
                                                         ELSE 0 END END AS total
                              FROM (SELECT unnest(p_wave) AS wave, unnest(p_op) AS op, unnest(p_ns) AS ns,
                                           unnest(p_key) AS key, unnest(p_value) AS value, unnest(p_expect) AS expect,
                                           unnest(p_ttl_us) AS ttl_us, unnest(p_delta) AS delta, unnest(p_min) AS low,
                                           unnest(p_max) AS high, generate_subscripts(p_op, 1) AS ord) AS u
                              LEFT JOIN LATERAL (SELECT x.ctid AS tid, x.* FROM queend.kv x
                                                  WHERE x.ns = u.ns AND x.key = u.key OFFSET 0) AS k ON true
                             WHERE u.wave = w AND u.op < 5 OFFSET 0) AS p OFFSET 0) AS o),
        written AS (
            INSERT INTO queend.kv (version, expires_at, updated_at, ns, key, value)
            SELECT j.new_version, j.new_expires_at, v_now, j.ns, j.key, j.new_value FROM judged j
             WHERE j.writes AND j.op <> 2
            ON CONFLICT (ns, key) DO UPDATE
               SET version = EXCLUDED.version, expires_at = EXCLUDED.expires_at, updated_at = EXCLUDED.updated_at,
                   value = EXCLUDED.value),
        deleted AS (
            DELETE FROM queend.kv k USING judged j WHERE j.writes AND j.op = 2 AND k.ctid = j.tid)
        SELECT j.ord - 1, j.outcome, j.new_version, j.new_expires_at,
               CASE WHEN j.writes THEN v_now WHEN j.live THEN j.old_updated_at END,
               CASE WHEN NOT j.writes OR j.op = 3 THEN j.new_value END, NULL::text
          FROM judged j;
        CONTINUE WHEN v_lists = 0;
        FOR i IN SELECT o.ord FROM unnest(p_wave, p_op) WITH ORDINALITY AS o (wave, op, ord)
                  WHERE o.wave = w AND o.op >= 5 LOOP
            RETURN QUERY
            SELECT i - 1, CASE WHEN l.key IS NULL THEN 6 ELSE 0 END::smallint, l.version, l.expires_at, l.updated_at,
                   l.value, l.key
              FROM queend.kv_list(p_ns[i], p_key[i], p_value[i], p_ttl_us[i]::int, 4194304 / v_lists, p_op[i] = 6) AS l;
        END LOOP;
    END LOOP;
END $$;

-- Applies operations of one or many requests, none of which requires that another was applied. Parameters and result:
-- those of kv_apply.
CREATE OR REPLACE FUNCTION queend.kv_write(p_wave int[], p_op smallint[], p_ns text[], p_key text[], p_value text[],
    p_expect bigint[], p_ttl_us bigint[], p_delta text[], p_min text[], p_max text[])
RETURNS TABLE (ord int, outcome smallint, version bigint, expires_at bigint, updated_at bigint, value text, key text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queend.kv_lock(p_ns, p_key, p_op);
    RETURN QUERY SELECT * FROM queend.kv_apply(p_wave, p_op, p_ns, p_key, p_value, p_expect, p_ttl_us, p_delta, p_min,
                                               p_max);
END $$;

-- Applies the operations of one request. If one that is required (p_required) was not applied, nothing is, and the
-- last row is that of the first such operation, with 16 added to its outcome. Other parameters and result: those of
-- kv_apply.
CREATE OR REPLACE FUNCTION queend.kv_bundle(p_wave int[], p_op smallint[], p_ns text[], p_key text[], p_value text[],
    p_expect bigint[], p_ttl_us bigint[], p_delta text[], p_min text[], p_max text[], p_required boolean[])
RETURNS TABLE (ord int, outcome smallint, version bigint, expires_at bigint, updated_at bigint, value text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at int;                 -- the first required operation that was not applied
    r    record;
    v_why record;
BEGIN
    PERFORM queend.kv_lock(p_ns, p_key, p_op);
    FOR r IN SELECT * FROM queend.kv_apply(p_wave, p_op, p_ns, p_key, p_value, p_expect, p_ttl_us, p_delta, p_min,
                                           p_max)
    LOOP
        IF r.outcome > 0 AND p_required[r.ord + 1] AND (v_at IS NULL OR r.ord < v_at) THEN
            v_at := r.ord;
            v_why := r;
        END IF;
        RETURN QUERY SELECT r.ord, r.outcome, r.version, r.expires_at, r.updated_at, r.value, r.key;
    END LOOP;
    IF v_at IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'QD412', MESSAGE = 'a required operation was not applied';
    END IF;
EXCEPTION WHEN SQLSTATE 'QD412' THEN
    RETURN QUERY SELECT v_at, (16 + v_why.outcome)::smallint, v_why.version, v_why.expires_at, v_why.updated_at,
                        v_why.value, NULL::text;
END $$;

-- Removes rows past their expiry: those among the next p_most rows after a key, in the order of namespaces and keys.
-- Returns the key that it came to; NULL at the end of the table.
CREATE OR REPLACE FUNCTION queend.kv_sweep(p_ns text, p_key text, p_most int, OUT ns text, OUT key text,
    OUT removed int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    WITH page AS MATERIALIZED (
        SELECT x.ns, x.key, x.expires_at, x.ctid AS tid FROM queend.kv x WHERE (x.ns, x.key) > (p_ns, p_key)
         ORDER BY x.ns, x.key LIMIT p_most),
    gone AS (
        DELETE FROM queend.kv k USING page p
         WHERE p.expires_at <= v_now AND k.ctid = p.tid AND k.expires_at <= v_now RETURNING 1)
    SELECT (SELECT count(*) FROM gone), l.ns, l.key INTO removed, ns, key
      FROM (SELECT 1) AS one
      LEFT JOIN LATERAL (SELECT p.ns, p.key FROM page p
                          WHERE (SELECT count(*) FROM page) = p_most
                          ORDER BY p.ns DESC, p.key DESC LIMIT 1) AS l ON true;
END $$;
