-- Makes a query or finds it by its name. Where the hash of its operators changed, p_reset decides: true deletes all its state and
-- keeps its id, false changes nothing and answers mismatch. The same hash keeps the state whatever p_reset says.
-- A reset waits for the cycles of the query that are under way, and holds off new ones.
CREATE OR REPLACE FUNCTION queend.stream_register(p_name text, p_source text, p_sink text, p_hash text, p_reset boolean,
    OUT query uuid, OUT fresh boolean, OUT reset boolean, OUT mismatch boolean)
LANGUAGE plpgsql AS $$
DECLARE
    q queend.stream_queries;
BEGIN
    reset := false;
    mismatch := false;
    INSERT INTO queend.stream_queries AS s (name, source_queue, sink_queue, config_hash) VALUES (p_name, p_source, p_sink, p_hash)
    ON CONFLICT (name) DO NOTHING RETURNING s.query_uuid INTO query;
    fresh := FOUND;
    IF fresh THEN
        RETURN;
    END IF;
    SELECT s.* INTO q FROM queend.stream_queries s WHERE s.name = p_name FOR UPDATE;
    query := q.query_uuid;
    reset := p_reset AND q.config_hash <> p_hash;
    mismatch := NOT p_reset AND q.config_hash <> p_hash;
    IF mismatch THEN
        RETURN;
    END IF;
    IF reset THEN
        PERFORM pg_advisory_xact_lock(q.id::bigint << 32);
        DELETE FROM queend.stream_state s WHERE s.query_id = q.id;
    END IF;
    UPDATE queend.stream_queries s SET source_queue = p_source, sink_queue = p_sink, config_hash = p_hash, updated_at = now()
     WHERE s.id = q.id AND (s.source_queue, s.sink_queue, s.config_hash) IS DISTINCT FROM (p_source, p_sink, p_hash);
END $$;
