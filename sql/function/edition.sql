-- The edition of these functions, and the oldest edition whose daemons they serve. The additional functions that the
-- statements of those daemons need are in sql/former. A release that changes a function raises the first number. A
-- release that cannot serve the one before raises the second number too. queend.migrate never goes back
-- (docs/inside/decisions/versions.md). Every new connection of a daemon reads the edition.
CREATE OR REPLACE FUNCTION queend.edition()
RETURNS TABLE (edition int, serves int)
LANGUAGE sql IMMUTABLE AS $$
    SELECT 7, 0
$$;
