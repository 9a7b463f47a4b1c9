-- A moment (µs): every record that a snapshot taken after this call cannot see will have a created_at at or after it.
-- created_at is read under a lane and before the commit, so it is the smaller of the clock now and the starts of the
-- transactions that hold or wait for a lane. One that asks for its lane later reads the clock later; one that had let its
-- lanes go had committed. NULL: the start of one of them is not to be seen (another role's session and no
-- pg_read_all_stats, or track_activities off). VOLATILE: what follows in the caller takes a later snapshot.
CREATE OR REPLACE FUNCTION queend.safe_time() RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now    bigint := queend.now_us();
    v_hidden boolean;
    v_oldest timestamptz;
BEGIN
    SELECT bool_or(a.pid IS NULL OR a.backend_start IS NULL OR a.state = 'disabled'), min(a.xact_start) INTO v_hidden, v_oldest
      FROM pg_locks k LEFT JOIN pg_stat_activity a ON a.pid = k.pid
     WHERE k.locktype = 'advisory' AND k.classid = 1903519076 AND k.objsubid = 2
       AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    IF v_hidden THEN
        RETURN NULL;
    END IF;
    RETURN LEAST(v_now, (extract(epoch FROM v_oldest) * 1000000)::bigint);
END $$;
