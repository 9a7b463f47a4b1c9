-- Returns ids of dead letters, as daemons of editions 0 to 5 call it: without a text of the error.
CREATE OR REPLACE FUNCTION queend.dead_find(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint,
    p_limit int, p_offset int)
RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT queend.dead_find(p_queue, p_partition, p_group, p_from, p_to, p_limit, p_offset, NULL)
$$;

-- Counts dead letters, as daemons of editions 0 to 5 call it: without a text of the error.
CREATE OR REPLACE FUNCTION queend.dead_count(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint,
    p_most int) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT queend.dead_count(p_queue, p_partition, p_group, p_from, p_to, p_most, NULL::text)
$$;
