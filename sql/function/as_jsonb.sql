-- A payload as jsonb; NULL where jsonb cannot hold what JSON may say (\u0000, half surrogates, numbers beyond numeric). For the views of the schema queen: its result stays as it is.
CREATE OR REPLACE FUNCTION queend.as_jsonb(p_payload text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN p_payload::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
