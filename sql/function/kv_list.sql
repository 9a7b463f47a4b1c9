-- Lists of keys for people who look: namespaces, and the rows of one. Reads queend.kv. Locks: none.

-- Returns the namespaces that have rows, ascending, after p_after: at most p_limit, each with the number of its keys
-- that are live. Counts up to p_most rows of each, expired ones included.
CREATE OR REPLACE FUNCTION queend.kv_namespaces(p_after text, p_limit int, p_most int)
RETURNS TABLE (ns text, keys bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := queend.now_us();
    v_ns  text := COALESCE(p_after, '');
BEGIN
    FOR i IN 1 .. p_limit LOOP
        SELECT x.ns INTO v_ns FROM queend.kv x WHERE x.ns > v_ns ORDER BY x.ns, x.key LIMIT 1;
        EXIT WHEN v_ns IS NULL;
        RETURN QUERY
        SELECT v_ns, count(*) FILTER (WHERE r.expires_at > v_now)
          FROM (SELECT x.expires_at FROM queend.kv x WHERE x.ns = v_ns ORDER BY x.ns, x.key LIMIT p_most) AS r;
    END LOOP;
END $$;

-- Returns rows of a namespace whose keys begin with a prefix and come after p_after, ascending: at most p_limit, and so
-- many that their values have at most p_bytes, but at least one. Parameter p_expired: also those past their expiry. A
-- last row without a key says that there are others. Looks at most at p_looks rows; if it ends there, the last row has
-- the key it came to, and no version.
CREATE OR REPLACE FUNCTION queend.kv_rows(p_ns text, p_prefix text, p_after text, p_limit int, p_bytes bigint,
    p_keys_only boolean, p_expired boolean, p_looks int)
RETURNS TABLE (key text, version bigint, expires_at bigint, updated_at bigint, value text, expired boolean, bytes int)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_now   bigint := queend.now_us();
    v_n     int := 0;
    v_bytes bigint := 0;
    v_looks int := 0;
    r       queend.kv;
BEGIN
    FOR r IN SELECT x.* FROM queend.kv x
              WHERE x.ns = p_ns AND x.key >= p_prefix AND x.key > COALESCE(p_after, '') ORDER BY x.ns, x.key
    LOOP
        EXIT WHEN NOT starts_with(r.key, p_prefix);
        IF v_n >= p_limit OR v_n > 0 AND v_bytes + octet_length(r.value) > p_bytes THEN
            RETURN QUERY SELECT NULL::text, 0::bigint, 0::bigint, 0::bigint, NULL::text, false, 0;
            RETURN;
        END IF;
        v_looks := v_looks + 1;
        IF r.expires_at > v_now OR p_expired THEN
            v_n := v_n + 1;
            v_bytes := v_bytes + CASE WHEN p_keys_only THEN 0 ELSE octet_length(r.value) END;
            RETURN QUERY SELECT r.key, r.version, r.expires_at, r.updated_at,
                                CASE WHEN NOT p_keys_only THEN r.value END, r.expires_at <= v_now,
                                octet_length(r.value);
        ELSIF v_looks >= p_looks THEN
            RETURN QUERY SELECT r.key, NULL::bigint, 0::bigint, 0::bigint, NULL::text, true, 0;
            RETURN;
        END IF;
    END LOOP;
END $$;
