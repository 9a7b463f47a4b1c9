-- Refuses to make a name: there are as many as are allowed. Error QD409, which daemons answer with 409; core/engine/bounds.pyx says
-- the same in its own words.
CREATE OR REPLACE FUNCTION queend.names_full(p_kind text, p_queue text, p_most int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'QD409', MESSAGE =
        CASE WHEN p_kind = 'queue' THEN 'There are as many queues' ELSE format('Queue %s has as many %s', p_queue, CASE p_kind WHEN 'group' THEN 'consumer groups' ELSE 'partitions' END) END
        || format(' as QUEEND_MAX_%sS allows: %s', upper(p_kind), p_most);
END $$;
