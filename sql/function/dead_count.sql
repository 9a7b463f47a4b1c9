-- How many dead letters there are with these filters (dead_find.sql), counted to p_most. Without partition and group the keys of an
-- index say so.
CREATE OR REPLACE FUNCTION queend.dead_count(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint, p_most int) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_from bigint := COALESCE(p_from, 0);
    v_to   bigint := COALESCE(p_to, 9223372036854775807);
BEGIN
    IF p_partition IS NOT NULL OR p_group IS NOT NULL THEN
        RETURN (SELECT count(*) FROM queend.dead_find(p_queue, p_partition, p_group, p_from, p_to, p_most, 0));
    ELSIF p_queue IS NOT NULL THEN
        RETURN (SELECT count(*) FROM (SELECT FROM queend.dead_letters d WHERE d.queue_id = p_queue AND d.failed_at >= v_from AND d.failed_at <= v_to LIMIT p_most) AS d);
    END IF;
    RETURN (SELECT count(*) FROM (SELECT FROM queend.dead_letters d WHERE d.failed_at >= v_from AND d.failed_at <= v_to LIMIT p_most) AS d);
END $$;
