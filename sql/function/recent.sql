-- What was stored at or after a moment (µs): how a daemon finds what it was not told of. Reads only the block ranges the index on
-- created_at cannot rule out.
--   p_since   where this look begins: the moment that the last one returned; NULL: nothing is read, a first look
--   p_back    the last look was so long ago (µs): where the clock was set back since, this look begins then instead
-- The first row, of partition 0: the moment where the next look is to begin (safe_time: what this one cannot see yet will
-- have a created_at at or after it). The second, of partition -1: the start of the oldest transaction that may have written
-- something else, such as a pause. Then the partitions with records of that time, with their heads.
-- queue_id of the first row is 1 where safe_time cannot tell, because another role stores under a lane in a transaction of its
-- own and its start is not to be seen: then the next look begins a minute back, and what is committed later than that may be
-- passed over.
CREATE OR REPLACE FUNCTION queend.recent(p_since bigint, p_back bigint) RETURNS TABLE (partition_id int, queue_id int, head bigint)
LANGUAGE plpgsql VOLATILE SET enable_bitmapscan = on SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now    bigint := queend.now_us();
    v_safe   bigint := queend.safe_time();
    v_writer timestamptz := (SELECT min(a.xact_start) FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.datname = current_database());
BEGIN
    RETURN QUERY VALUES (0, CASE WHEN v_safe IS NULL THEN 1 ELSE 0 END, COALESCE(v_safe, v_now - 60000000)), (-1, 0, COALESCE((extract(epoch FROM v_writer) * 1000000)::bigint, v_now));
    IF p_since IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY      -- by a snapshot later than what safe_time saw
    SELECT r.partition_id, p.queue_id, r.head
      FROM (SELECT l.partition_id, max(l.base + l.n) AS head FROM queend.log l
             WHERE l.created_at >= LEAST(p_since, v_now - p_back) GROUP BY l.partition_id) AS r
      JOIN queend.partitions p ON p.id = r.partition_id;
END $$;
