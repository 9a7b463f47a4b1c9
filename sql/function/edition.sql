-- The edition of these functions, and the oldest edition whose daemons they serve. What the statements of those daemons
-- need besides stands in sql/former. A release that changes a function raises the first number; one that cannot serve
-- the release before raises the second too. queend.migrate never goes back (docs/inside/decisions/versions.md). Every
-- connection of a daemon asks when it is made.
CREATE OR REPLACE FUNCTION queend.edition()
RETURNS TABLE (edition int, serves int)
LANGUAGE sql IMMUTABLE AS $$
    SELECT 6, 0
$$;
