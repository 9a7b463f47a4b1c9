-- Reads of a stream's state, to which cycles without an acknowledgment are bound: a client reads the ended windows, and
-- a later request closes them. That request does not name the read, so the database remembers reads. Owns
-- queend.stream_reads and queend.stream_flushes. Locks: rows of both, after the locks of a cycle, last.

-- Returns the hash by which a key of the state is remembered.
CREATE OR REPLACE FUNCTION queend.stream_key(p_key text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(p_key, 0)
$$;

-- Returns the hash by which a set of keys is remembered. Requires the keys in ascending order by byte.
CREATE OR REPLACE FUNCTION queend.stream_keys(p_keys text[]) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(array_to_string(p_keys, chr(10)), cardinality(p_keys))
$$;

-- Remembers a read of a partition's state, and forgets reads of the partition that are older than 60 s. Parameter
-- p_keys: the keys it found, ascending by byte. Parameter p_seen: the newest updated_at of their rows, 0 without a key.
-- Parameter p_ripe: the read asked for ended windows.
CREATE OR REPLACE FUNCTION queend.stream_read(p_query int, p_part bigint, p_ripe boolean, p_keys text[], p_seen bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    DELETE FROM queend.stream_reads r
     WHERE r.query_id = p_query AND r.partition_id = p_part AND r.last_at < v_now - 60000000;
    INSERT INTO queend.stream_reads AS r (found_at, seen, last_at, query_id, partition_id, keyset, ripe, keys)
    VALUES (ARRAY[v_now], ARRAY[p_seen], v_now, p_query, p_part, queend.stream_keys(p_keys), p_ripe,
            CASE WHEN cardinality(p_keys) <= 256
                 THEN ARRAY(SELECT queend.stream_key(u.key) FROM unnest(p_keys) AS u (key)) END)
    ON CONFLICT (query_id, partition_id, ripe, keyset) DO UPDATE
       SET last_at = excluded.last_at,
           found_at = CASE WHEN cardinality(r.found_at) < 32 THEN r.found_at ELSE r.found_at[:1] || r.found_at[3:] END
                      || excluded.last_at,
           seen = CASE WHEN cardinality(r.seen) < 32 THEN r.seen ELSE r.seen[:1] || r.seen[3:] END || p_seen;
END $$;

-- Counts a read of the partition as answered: the newest unanswered one up to p_until. Parameters p_ripe and p_keyset
-- name the set of keys. If p_keyset is NULL, any set of a read that did not ask for ended windows counts.
CREATE OR REPLACE FUNCTION queend.stream_answered(p_query int, p_part bigint, p_ripe boolean, p_keyset bigint,
    p_until bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_keyset bigint;
    v_place int;
BEGIN
    SELECT r.keyset, u.place INTO v_keyset, v_place
      FROM queend.stream_reads r CROSS JOIN LATERAL unnest(r.found_at) WITH ORDINALITY AS u (at, place)
     WHERE r.query_id = p_query AND r.partition_id = p_part AND r.ripe = p_ripe
       AND (p_keyset IS NULL OR r.keyset = p_keyset) AND u.at <= p_until
     ORDER BY u.at DESC LIMIT 1;
    UPDATE queend.stream_reads r
       SET found_at = r.found_at[:v_place - 1] || r.found_at[v_place + 1:],
           seen = r.seen[:v_place - 1] || r.seen[v_place + 1:]
     WHERE r.query_id = p_query AND r.partition_id = p_part AND r.ripe = p_ripe AND r.keyset = v_keyset
       AND v_place <= cardinality(r.found_at);
END $$;

-- Judges a cycle without an acknowledgment that deletes the keys p_unset and came at p_arrived. Returns in verdict:
--   gone     All keys are gone, and a read has found the keys: another cycle has closed these windows.
--   changed  Some keys are gone, or a key was written after a read that this cycle may rest on.
--   same     Every key is as it was read.
--   unread   The keys were never read, and the cycle stores no messages: its client knows them from elsewhere.
-- Columns keyset and ripe: the reads it may rest on, for stream_answered. If keyset is NULL: reads that did not ask for
-- ended windows. A client deletes exactly the keys that a read of ended windows found. If such reads are known, each of
-- them must have seen the newest values, because two runners of a query cannot be told apart. Otherwise the newest read
-- that found the keys counts, and every one of the last second. If no read is known and the cycle stores messages
-- (p_stores), keys written within 60 s count as changed: reads are remembered for 60 s.
CREATE OR REPLACE FUNCTION queend.stream_bound(p_query int, p_part bigint, p_unset text[], p_arrived bigint,
    p_stores boolean, OUT verdict text, OUT keyset bigint, OUT ripe boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_keys    text[] := ARRAY(SELECT u.key FROM unnest(p_unset) AS u (key) ORDER BY u.key COLLATE "C");
    v_hashes  bigint[] := ARRAY(SELECT queend.stream_key(u.key) FROM unnest(p_unset) AS u (key));
    v_here    bigint;
    v_written bigint;
    v_known   boolean;
    v_seen    bigint;
BEGIN
    SELECT count(s.updated_at), max(s.updated_at) INTO v_here, v_written
      FROM unnest(p_unset) AS u (key)
     CROSS JOIN LATERAL (SELECT x.updated_at FROM queend.stream_state x
                          WHERE x.query_id = p_query AND x.partition_id = p_part AND x.key = u.key OFFSET 0) AS s;
    keyset := queend.stream_keys(v_keys);
    SELECT true, min(u.seen) INTO ripe, v_seen
      FROM queend.stream_reads r CROSS JOIN LATERAL unnest(r.found_at, r.seen) AS u (at, seen)
     WHERE r.query_id = p_query AND r.partition_id = p_part AND r.ripe AND r.keyset = stream_bound.keyset
       AND u.at <= p_arrived;
    IF v_seen IS NULL THEN
        ripe := false;
        keyset := NULL;
        SELECT min(c.seen) INTO v_seen
          FROM (SELECT u.seen, u.at, max(u.at) OVER () AS newest
                  FROM queend.stream_reads r CROSS JOIN LATERAL unnest(r.found_at, r.seen) AS u (at, seen)
                 WHERE r.query_id = p_query AND r.partition_id = p_part AND COALESCE(r.keys @> v_hashes, true)
                   AND u.at <= p_arrived) AS c
         WHERE c.at = c.newest OR c.at > p_arrived - 1000000;
    END IF;
    v_known := EXISTS (SELECT FROM queend.stream_reads r WHERE r.query_id = p_query AND r.partition_id = p_part
                                                          AND COALESCE(r.keys @> v_hashes, true));
    verdict := CASE WHEN NOT v_known AND NOT p_stores THEN 'unread'
                    WHEN v_here = 0 AND v_known THEN 'gone'
                    WHEN v_here < cardinality(p_unset) THEN 'changed'
                    WHEN v_written > COALESCE(v_seen, queend.now_us() - 60000000) THEN 'changed'
                    ELSE 'same' END;
END $$;

-- Remembers that a cycle without an acknowledgment closes the windows p_unset while the lease p_lease is live. Forgets
-- entries of the partition that are older than a day.
CREATE OR REPLACE FUNCTION queend.stream_flushed(p_query int, p_part bigint, p_lease uuid, p_unset text[], p_at bigint)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM queend.stream_flushes f
     WHERE f.query_id = p_query AND f.partition_id = p_part AND f.flushed_at < p_at - 86400000000;
    INSERT INTO queend.stream_flushes (query_id, partition_id, lease_id, flushed_at, keys)
    VALUES (p_query, p_part, p_lease, p_at,
            ARRAY(SELECT queend.stream_key(u.key) FROM unnest(p_unset) AS u (key)));
END $$;

-- Returns true if a cycle under the lease p_lease, which writes or deletes the keys p_keys, rests on an outdated state.
-- That is so if a cycle without an acknowledgment closed one of these windows during the lease, and no client has read
-- the state since.
CREATE OR REPLACE FUNCTION queend.stream_overtaken(p_query int, p_part bigint, p_lease uuid, p_keys text[])
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_at bigint;
BEGIN
    SELECT max(f.flushed_at) INTO v_at FROM queend.stream_flushes f
     WHERE f.query_id = p_query AND f.partition_id = p_part AND f.lease_id = p_lease
       AND f.keys && ARRAY(SELECT queend.stream_key(u.key) FROM unnest(p_keys) AS u (key));
    RETURN v_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM queend.stream_reads r
         WHERE r.query_id = p_query AND r.partition_id = p_part AND NOT r.ripe AND r.last_at > v_at);
END $$;
