-- Which functions these are: their edition, and the oldest edition whose daemons they serve (what its statements need
-- besides is in sql/former). A release that changes a function raises the first number; one that cannot serve the
-- release before, the second too. queend.migrate never goes back (docs/inside/decisions/versions.md); every connection
-- of a daemon asks when it is made.
CREATE OR REPLACE FUNCTION queend.edition()
RETURNS TABLE (edition int, serves int)
LANGUAGE sql IMMUTABLE AS $$
    SELECT 2, 0
$$;
