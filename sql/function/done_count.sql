-- How many offsets from p_from on are among those done (cursors.beyond; NULL: none is).
CREATE OR REPLACE FUNCTION queend.done_count(p_done int8multirange, p_from bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_done IS NULL THEN
        RETURN 0;
    END IF;
    RETURN (SELECT COALESCE(sum(upper(r.run) - GREATEST(lower(r.run), p_from)), 0) FROM unnest(p_done) AS r (run) WHERE upper(r.run) > p_from);
END $$;
