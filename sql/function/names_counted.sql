-- Queues, partitions and groups that were made or removed are counted: the trigger of their tables, once a statement.
-- With the rights of its owner: who may make a queue need not be able to write to the counts.
CREATE OR REPLACE FUNCTION queend.names_counted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    v_sign CONSTANT int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    IF TG_TABLE_NAME = 'queues' THEN
        PERFORM queend.names_count(0, 'queue', c.n) FROM (SELECT v_sign * count(*)::int AS n FROM changed) AS c WHERE c.n <> 0;
        IF v_sign < 0 THEN
            DELETE FROM queend.name_counts c USING changed d WHERE c.queue_id = d.id;
        END IF;
    ELSE
        PERFORM queend.names_count(c.queue_id, CASE TG_TABLE_NAME WHEN 'partitions' THEN 'partition' ELSE 'group' END, c.n)
           FROM (SELECT d.queue_id, v_sign * count(*)::int AS n FROM changed d GROUP BY d.queue_id ORDER BY d.queue_id) AS c;
    END IF;
    RETURN NULL;
END $$;
