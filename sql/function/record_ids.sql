-- Record ids: 16 bytes each, made of a transaction id; and the time that a version-7 id carries. Reads no table.

-- Returns the 16 bytes that stand for a transaction id. A UUID in lower case stands for itself; other texts for bytes
-- of their SHA-256, marked as version 8.
CREATE OR REPLACE FUNCTION queend.record_id(p_text text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT CASE WHEN p_text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
                     THEN uuid_send(p_text::uuid)
                ELSE set_byte(set_byte(h.raw, 6, get_byte(h.raw, 6) & 15 | 128), 8, get_byte(h.raw, 8) & 63 | 128) END
      FROM (SELECT substr(sha256(convert_to(p_text, 'UTF8')), 1, 16) AS raw) AS h
$$;

-- Returns a new UUID of version 7: ms since the Unix epoch, then 12 bits of the millisecond, then random bits.
CREATE OR REPLACE FUNCTION queend.id_make() RETURNS uuid
LANGUAGE sql VOLATILE AS $$
    SELECT encode(substr(int8send(t.us / 1000), 3, 6) || substr(int8send(28672 | t.us % 1000 * 4096 / 1000), 7, 2)
                  || substr(uuid_send(gen_random_uuid()), 9, 8), 'hex')::uuid
      FROM (SELECT queend.now_us() AS us) AS t
$$;

-- Returns the smallest version-7 id of a time (µs): its milliseconds, then zeros. Such ids compare like their times.
CREATE OR REPLACE FUNCTION queend.id_bound(p_us bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(GREATEST(p_us / 1000, 0)), 12, '0') || '00000000000000000000')::uuid
$$;

-- Returns the time inside a version-7 record id (16 bytes), in microseconds.
CREATE OR REPLACE FUNCTION queend.id_us(p_id bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ((get_byte(p_id, 0)::bigint << 40) + (get_byte(p_id, 1)::bigint << 32) + (get_byte(p_id, 2)::bigint << 24)
          + (get_byte(p_id, 3) << 16) + (get_byte(p_id, 4) << 8) + get_byte(p_id, 5)) * 1000
$$;

-- Returns the ids of a row, one per line: ord is the 0-based place in the row. The ids of a large row are stored
-- outside the row, so OFFSET 0 makes the read happen once, not once for each id.
CREATE OR REPLACE FUNCTION queend.id_spread(p_ids bytea) RETURNS TABLE (ord int, id bytea)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT u.i, substr(u.ids, 16 * u.i + 1, 16)
      FROM (SELECT x.ids, generate_series(0, octet_length(x.ids) / 16 - 1) AS i
              FROM (SELECT p_ids || '' AS ids OFFSET 0) AS x) AS u OFFSET 0
$$;
