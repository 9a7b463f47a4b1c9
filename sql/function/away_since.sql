-- Was a daemon or the database away since a moment (µs)? A lease that ended meanwhile says nothing about its consumer. What each daemon notes when it
-- starts and when its database answers again (service/maintenance).
CREATE OR REPLACE FUNCTION queend.away_since(p_at bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM queend.system_state s WHERE s.key = 'away' AND s.changed_at >= p_at)
        OR pg_postmaster_start_time() >= queend.moment(p_at);
END $$;
