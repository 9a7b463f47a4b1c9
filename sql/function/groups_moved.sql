-- Tells every daemon that groups of a queue were deleted, or cursors moved by hand: what it believes of them is void. Call it
-- last in the transaction of the change, after the cursors.
CREATE OR REPLACE FUNCTION queend.groups_moved(p_queue int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE queend.queues q SET epoch = q.epoch + 1 WHERE q.id = p_queue;
    PERFORM queend.catalog_raise();
END $$;
