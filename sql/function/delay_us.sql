-- A delayMs as µs, NULL where there is none; what is no whole number of ms from 0 to 366 days is refused (22023).
CREATE OR REPLACE FUNCTION queend.delay_us(p_delay jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_delay IS NULL OR jsonb_typeof(p_delay) = 'null' THEN
        RETURN NULL;
    END IF;
    IF (CASE WHEN jsonb_typeof(p_delay) = 'number' THEN p_delay::numeric NOT BETWEEN 0 AND 31622400000 OR p_delay::numeric % 1 <> 0 ELSE true END) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'delayMs must be a whole number of milliseconds from 0 to 31622400000 (366 days)';
    END IF;
    RETURN p_delay::bigint * 1000;
END $$;
