-- The clock, in microseconds since the Unix epoch; not frozen inside a transaction.
CREATE OR REPLACE FUNCTION queend.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
