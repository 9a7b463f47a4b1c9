-- The wire spelling of a partition's or queue's id: a UUID that is no counter to guess and decodes without a look-up.
-- Bytes 0…11 are of sha256(seed, letter, id), marked as version 8; bytes 12…15 are the id, masked by
-- sha256(seed, second letter, bytes 0…11).
CREATE OR REPLACE FUNCTION queend.id_uuid(p_id int, p_tag text, p_mask text) RETURNS uuid
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    v_seed bytea := (SELECT c.seed FROM queend.catalog c);
    v_tag  bytea := substr(sha256(v_seed || p_tag::bytea || int4send(p_id)), 1, 12);
BEGIN
    v_tag := set_byte(set_byte(v_tag, 6, get_byte(v_tag, 6) & 15 | 128), 8, get_byte(v_tag, 8) & 63 | 128);
    RETURN encode(v_tag || int4send(p_id # queend.id_mask(v_seed, p_mask, v_tag)), 'hex')::uuid;
END $$;
