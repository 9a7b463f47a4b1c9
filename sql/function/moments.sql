-- Moments (times): microseconds since the Unix epoch, as text and as timestamps. Locks: none.

-- Returns the clock in microseconds since the Unix epoch; the value advances inside a transaction.
CREATE OR REPLACE FUNCTION queend.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Returns microseconds since the Unix epoch as a timestamp, exactly (an interval of whole microseconds, no floating
-- point).
CREATE OR REPLACE FUNCTION queend.moment(p_us bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => (p_us / 1000000)::double precision)
           + (p_us % 1000000) * interval '1 microsecond'
$$;

-- Returns a time (µs) as ISO 8601 in UTC, to the microsecond; NULL for NULL and for 0, which means never.
CREATE OR REPLACE FUNCTION queend.iso(p_us bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_char(queend.moment(NULLIF(p_us, 0)) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Returns a time that was given as text, in µs; NULL for NULL and for an empty text. Raises 22023 for any other
-- unreadable text, because an unreadable filter must not select everything.
CREATE OR REPLACE FUNCTION queend.moment_us(p_text text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (extract(epoch FROM NULLIF(p_text, '')::timestamptz) * 1000000)::bigint;
EXCEPTION WHEN data_exception OR feature_not_supported THEN      -- infinity is no number
    RAISE invalid_parameter_value USING MESSAGE = format('"%s" is no time: give one in ISO 8601', left(p_text, 64));
END $$;

-- Returns a delayMs as µs, NULL for NULL. Raises 22023 unless it is a whole number of ms from 0 to 366 days.
CREATE OR REPLACE FUNCTION queend.delay_us(p_delay jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_delay IS NULL OR jsonb_typeof(p_delay) = 'null' THEN
        RETURN NULL;
    END IF;
    IF (CASE WHEN jsonb_typeof(p_delay) = 'number'
                  THEN p_delay::numeric NOT BETWEEN 0 AND 31622400000 OR p_delay::numeric % 1 <> 0 ELSE true END) THEN
        RAISE invalid_parameter_value
              USING MESSAGE = 'delayMs must be a whole number of milliseconds from 0 to 31622400000 (366 days)';
    END IF;
    RETURN p_delay::bigint * 1000;
END $$;
