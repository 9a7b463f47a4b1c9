-- The first offset at or after p_at that is not among those done (cursors.beyond; NULL: none is).
CREATE OR REPLACE FUNCTION queend.undone_from(p_done int8multirange, p_at bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN p_done @> p_at THEN (SELECT upper(r.run) FROM unnest(p_done) AS r (run) WHERE r.run @> p_at) ELSE p_at END;
END $$;
