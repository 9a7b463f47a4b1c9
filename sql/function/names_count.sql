-- Adds to how many names of a kind a queue has (0: the database): to a row that nobody else holds, or to a new one, so nobody waits.
-- There are as many rows as there were callers at once.
CREATE OR REPLACE FUNCTION queend.names_count(p_queue int, p_kind text, p_n int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id int;
BEGIN
    SELECT c.id INTO v_id FROM queend.name_counts c WHERE c.queue_id = p_queue AND c.kind = p_kind LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE queend.name_counts c SET n = c.n + p_n WHERE c.id = v_id;
    ELSE
        INSERT INTO queend.name_counts (queue_id, n, kind) VALUES (p_queue, p_n, p_kind);
    END IF;
END $$;
