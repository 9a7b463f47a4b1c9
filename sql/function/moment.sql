-- Microseconds since the Unix epoch as a timestamp, exactly (an interval of whole microseconds, no floating point).
CREATE OR REPLACE FUNCTION queend.moment(p_us bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => (p_us / 1000000)::double precision)
           + (p_us % 1000000) * interval '1 microsecond'
$$;
