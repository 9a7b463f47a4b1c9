-- A moment that was given as text, in µs; NULL for what cannot be read.
CREATE OR REPLACE FUNCTION queend.moment_us(p_text text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (extract(epoch FROM p_text::timestamptz) * 1000000)::bigint;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
