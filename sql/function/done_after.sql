-- The first offset behind p_at that is among those done (cursors.beyond); NULL: none is.
CREATE OR REPLACE FUNCTION queend.done_after(p_done int8multirange, p_at bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (SELECT min(lower(r.run)) FROM unnest(p_done) AS r (run) WHERE lower(r.run) > p_at);
END $$;
