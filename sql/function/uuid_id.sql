-- The id inside such a UUID (see id_uuid.sql); NULL if it is not one of ours.
CREATE OR REPLACE FUNCTION queend.uuid_id(p_uuid uuid, p_tag text, p_mask text) RETURNS int
LANGUAGE sql STABLE STRICT AS $$
    SELECT CASE WHEN queend.id_uuid(i.id, p_tag, p_mask) = p_uuid THEN i.id END
      FROM queend.catalog c
      CROSS JOIN LATERAL (SELECT queend.bytes_xor(substr(uuid_send(p_uuid), 13, 4),
                                                  substr(sha256(c.seed || p_mask::bytea || substr(uuid_send(p_uuid), 1, 12)), 1, 4)) AS raw) AS r
      CROSS JOIN LATERAL (SELECT (get_byte(r.raw, 0) << 24) | (get_byte(r.raw, 1) << 16) | (get_byte(r.raw, 2) << 8) | get_byte(r.raw, 3) AS id) AS i
$$;
