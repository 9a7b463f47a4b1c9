-- For whoever watches the outbox and has found it empty below p_low: the newest id that was drawn (0: none), the number of a transaction
-- that is younger than all that drew those ids (queen.push takes its number before an id), and the oldest number under way. Once `oldest`
-- is above an earlier `after`, all of those have ended: what is not in the outbox then will never be, and need not be looked for up to
-- `last` any more. That matters while a long snapshot elsewhere keeps the entries of rows that are gone.
-- after is NULL, and no number is spent, where p_low is NULL or nothing was drawn from p_low on.
CREATE OR REPLACE FUNCTION queend.outbox_mark(p_low bigint, OUT last bigint, OUT after bigint, OUT oldest bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END INTO last FROM queend.outbox_id_seq s;      -- first: the number must be younger
    IF last >= p_low THEN
        after := pg_current_xact_id()::text::bigint;
    END IF;
    oldest := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
END $$;
