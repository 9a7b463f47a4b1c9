-- Locks and semaphores: rows of queend.kv in the namespace queen-locks, `name#slot`, with owner and begin as value. The
-- version of the row is the token, its expiry that of the permit. Locks: the keys of renewals and releases as kv_lock
-- takes them. An acquisition waits for no lock: a slot whose key is locked counts as taken.

-- Returns the owner and the begin (µs) that the value of a permit names; NULL for a value that another writer put
-- there.
CREATE OR REPLACE FUNCTION queend.lock_value(p_value text, OUT owner text, OUT since bigint)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    owner := p_value::jsonb ->> 'owner';
    since := (p_value::jsonb ->> 'since')::bigint;
EXCEPTION WHEN data_exception OR untranslatable_character THEN
    RETURN;
END $$;

-- Returns the live permits of a lock, by slot.
CREATE OR REPLACE FUNCTION queend.lock_holders(p_name text)
RETURNS TABLE (slot int, token bigint, owner text, since bigint, expires_at bigint, renewed_at bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT s.slot, s.version, v.owner, COALESCE(v.since, s.updated_at), s.expires_at, s.updated_at
      FROM (SELECT CASE WHEN x.key ~ '#[0-9]{1,4}$' THEN substr(x.key, length(p_name) + 2)::int END AS slot, x.*
              FROM queend.kv x WHERE x.ns = 'queen-locks' AND x.key >= p_name || '#' AND x.key < p_name || '$') AS s
     CROSS JOIN LATERAL queend.lock_value(s.value) AS v
     WHERE s.slot IS NOT NULL AND s.expires_at > queend.now_us() ORDER BY s.slot;
END $$;

-- Writes a permit and returns its token. Requires its key's lock.
CREATE OR REPLACE FUNCTION queend.lock_put(p_key text, p_owner text, p_since bigint, p_ttl_us bigint, OUT token bigint,
    OUT expires_at bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    token := queend.kv_era() + nextval('queend.kv_versions');
    expires_at := v_now + p_ttl_us;
    INSERT INTO queend.kv AS k (version, expires_at, updated_at, ns, key, value)
    VALUES (token, lock_put.expires_at, v_now, 'queen-locks', p_key,
            json_build_object('owner', p_owner, 'since', COALESCE(p_since, v_now))::text)
    ON CONFLICT (ns, key) DO UPDATE
       SET version = EXCLUDED.version, expires_at = EXCLUDED.expires_at, updated_at = EXCLUDED.updated_at,
           value = EXCLUDED.value;
END $$;

-- Acquires a permit for an owner: the one it holds, or the lowest free slot. Outcomes: 0 won, 1 this owner held it
-- before, 2 all slots are held, 3 another transaction works on the free slots.
CREATE OR REPLACE FUNCTION queend.lock_acquire(p_name text, p_owner text, p_ttl_us bigint, p_limit int,
    OUT outcome smallint, OUT slot int, OUT token bigint, OUT expires_at bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_held int[];
BEGIN
    SELECT h.slot, h.token, h.expires_at INTO slot, token, expires_at FROM queend.lock_holders(p_name) h
     WHERE h.owner = p_owner AND h.slot < p_limit LIMIT 1;
    IF FOUND THEN
        outcome := 1;
        RETURN;
    END IF;
    outcome := 2;
    v_held := ARRAY(SELECT h.slot FROM queend.lock_holders(p_name) h);
    FOR v_slot IN 0 .. p_limit - 1 LOOP
        CONTINUE WHEN v_slot = ANY (v_held);
        outcome := 3;
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(queend.kv_lock_number('queen-locks', p_name || '#' || v_slot));
        -- Whoever had the key's lock before has committed: the slot is looked at once more.
        CONTINUE WHEN EXISTS (SELECT FROM queend.lock_holders(p_name) h WHERE h.slot = v_slot);
        SELECT p.token, p.expires_at INTO token, expires_at
          FROM queend.lock_put(p_name || '#' || v_slot, p_owner, NULL, p_ttl_us) AS p;
        outcome := 0;
        slot := v_slot;
        RETURN;
    END LOOP;
END $$;

-- Runs operations on locks, one after another. Parameters, one element for each:
--   p_op      0 acquire, 1 renew, 2 release, 3 get
--   p_limit   Of acquire: the number of permits.
--   p_token, p_slot   Of renew and release.
--   p_owner   A renewal with an older token succeeds if this owner still holds the slot.
-- Returns rows with ord from 0. Outcomes: 0 done, 1 the owner held it before, 2 all permits are held, 3 contended, 4
-- lost. Outcome 5 is a row of a holder; such rows follow outcomes 2, 3 and 4 of acquire and renew, and are the answer
-- of get.
CREATE OR REPLACE FUNCTION queend.locks(p_op smallint[], p_name text[], p_owner text[], p_ttl_us bigint[],
    p_limit int[], p_token bigint[], p_slot int[])
RETURNS TABLE (ord int, outcome smallint, slot int, token bigint, owner text, since bigint, expires_at bigint,
               renewed_at bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_key  text[] := ARRAY(SELECT u.name || '#' || u.slot FROM unnest(p_name, p_slot) AS u (name, slot));
    v_held record;
    v_new  record;
    i      int;
BEGIN
    PERFORM queend.kv_lock(array_fill('queen-locks'::text, ARRAY[cardinality(p_op)]), v_key,
                           ARRAY(SELECT CASE WHEN o IN (1, 2) THEN 4 ELSE 0 END FROM unnest(p_op) AS o)::smallint[]);
    FOR i IN 1 .. cardinality(p_op) LOOP
        IF p_op[i] = 0 THEN
            SELECT * INTO v_new FROM queend.lock_acquire(p_name[i], p_owner[i], p_ttl_us[i], p_limit[i]);
            RETURN QUERY SELECT i - 1, v_new.outcome, v_new.slot, v_new.token, p_owner[i], 0::bigint, v_new.expires_at,
                                0::bigint;
            CONTINUE WHEN v_new.outcome < 2;
        ELSIF p_op[i] IN (1, 2) THEN
            SELECT h.* INTO v_held FROM queend.lock_holders(p_name[i]) h WHERE h.slot = p_slot[i];
            IF v_held.token = p_token[i] OR p_op[i] = 1 AND v_held.owner = p_owner[i] THEN
                IF p_op[i] = 1 THEN
                    SELECT * INTO v_new FROM queend.lock_put(v_key[i], v_held.owner, v_held.since, p_ttl_us[i]);
                    RETURN QUERY SELECT i - 1, 0::smallint, p_slot[i], v_new.token, v_held.owner, v_held.since,
                                        v_new.expires_at, 0::bigint;
                ELSE
                    DELETE FROM queend.kv k WHERE k.ns = 'queen-locks' AND k.key = v_key[i];
                    RETURN QUERY SELECT i - 1, 0::smallint, p_slot[i], v_held.token, v_held.owner, v_held.since,
                                        0::bigint, 0::bigint;
                END IF;
                CONTINUE;
            END IF;
            RETURN QUERY SELECT i - 1, 4::smallint, p_slot[i], p_token[i], p_owner[i], 0::bigint, 0::bigint, 0::bigint;
            CONTINUE WHEN p_op[i] = 2;
        END IF;
        RETURN QUERY SELECT i - 1, 5::smallint, h.slot, h.token, h.owner, h.since, h.expires_at, h.renewed_at
                       FROM queend.lock_holders(p_name[i]) AS h;
    END LOOP;
END $$;
