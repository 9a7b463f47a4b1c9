-- Notes that every change before p_since is in the kept figures; p_full: and that everything is to be walked through again.
-- Returns how many partitions there are.
CREATE OR REPLACE FUNCTION queend.stats_keep(p_since bigint, p_full boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.stats AS s (since, looked_at, full_at) VALUES (p_since, queend.now_us(), queend.now_us())
        ON CONFLICT (one) DO UPDATE SET since = excluded.since, looked_at = excluded.looked_at, full_at = CASE WHEN p_full THEN excluded.full_at ELSE s.full_at END;
    IF p_full THEN
        UPDATE queend.stat_queues s SET visit_after = 0;
    END IF;
    RETURN (SELECT COALESCE(sum(s.partitions), 0) FROM queend.stat_queues s);
END $$;
