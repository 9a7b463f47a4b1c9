-- The offset inside a message id (format: message_id.sql).
CREATE OR REPLACE FUNCTION queend.message_offset(p_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT (h.n & 4095) << 30 | (('x' || substr(h.hex, 17, 16))::bit(64)::bigint >> 32 & 1073741823)
      FROM (SELECT replace(p_id::text, '-', '') AS hex, ('x' || substr(replace(p_id::text, '-', ''), 13, 4))::bit(16)::int::bigint AS n) AS h
$$;
