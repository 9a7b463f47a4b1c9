-- The wire spelling of a partition's or queue's id: a UUID that is no counter to guess and decodes without a look-up.
-- Bytes 0…11 are of sha256(seed, letter, id), marked as version 8; bytes 12…15 are the id, masked by
-- sha256(seed, second letter, bytes 0…11).
CREATE OR REPLACE FUNCTION queend.id_uuid(p_id int, p_tag text, p_mask text) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    SELECT encode(t.tag || queend.bytes_xor(int4send(p_id), substr(sha256(c.seed || p_mask::bytea || t.tag), 1, 4)), 'hex')::uuid
      FROM queend.catalog c
      CROSS JOIN LATERAL (SELECT substr(sha256(c.seed || p_tag::bytea || int4send(p_id)), 1, 12) AS raw) AS r
      CROSS JOIN LATERAL (SELECT set_byte(set_byte(r.raw, 6, get_byte(r.raw, 6) & 15 | 128), 8, get_byte(r.raw, 8) & 63 | 128) AS tag) AS t
$$;
