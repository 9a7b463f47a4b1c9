-- The first message of the outbox, alone: what relay came to grief over is found with this. One that cannot be stored is marked with
-- the reason (refused), and the others go on. Result as of relay. Errors that are not the message's own (queend/core/pg/verdict.pyx
-- has the table) are raised.
CREATE OR REPLACE FUNCTION queend.relay_one() RETURNS TABLE (queue text, moved bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1903519077, 1) THEN
        RETURN QUERY SELECT NULL::text, -1::bigint;
        RETURN;
    END IF;
    SELECT o.id INTO v_id FROM queend.outbox o WHERE o.refused IS NULL ORDER BY o.id LIMIT 1;
    BEGIN
        RETURN QUERY SELECT r.queue, r.moved FROM queend.relay(1, v_id) AS r;
    EXCEPTION WHEN data_exception OR check_violation OR feature_not_supported OR program_limit_exceeded THEN
        RETURN QUERY UPDATE queend.outbox o SET refused = SQLERRM WHERE o.id = v_id RETURNING o.queue, 0::bigint;
    END;
END $$;
