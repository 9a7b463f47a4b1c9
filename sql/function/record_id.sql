-- The 16 bytes a transaction id is stored as: the UUID it is, written in lower case; else of its SHA-256, marked as version 8.
CREATE OR REPLACE FUNCTION queend.record_id(p_text text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT CASE WHEN p_text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN uuid_send(p_text::uuid)
                ELSE set_byte(set_byte(h.raw, 6, get_byte(h.raw, 6) & 15 | 128), 8, get_byte(h.raw, 8) & 63 | 128) END
      FROM (SELECT substr(sha256(convert_to(p_text, 'UTF8')), 1, 16) AS raw) AS h
$$;
