-- A moment (µs) as ISO 8601 in UTC, to the microsecond; NULL for NULL and for 0, which means never.
CREATE OR REPLACE FUNCTION queend.iso(p_us bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_char(queend.moment(NULLIF(p_us, 0)) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
