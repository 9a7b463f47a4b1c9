-- Tells every daemon that names, options or groups it remembers may be stale. Call it in the transaction of the change.
CREATE OR REPLACE FUNCTION queend.catalog_raise() RETURNS void
LANGUAGE sql AS $$
    UPDATE queend.catalog SET version = version + 1
$$;
