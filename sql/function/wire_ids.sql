-- Ids on the wire. Message ids are made of place and time; ids of partitions and queues are masked by the seed of the
-- catalogue. Reads only the catalogue's row, and partitions in partition_removed. Locks: none.

-- Returns the id of a message on the wire, made of where and when it is stored. Bits: 48 of milliseconds, version 7, 42
-- of offset and 32 of partition id around the variant. It sorts like the offset within a partition.
CREATE OR REPLACE FUNCTION queend.message_id(p_created_at bigint, p_part int, p_offset bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT encode(substr(int8send(p_created_at / 1000), 3, 6)
                  || substr(int8send(28672 | (p_offset >> 30 & 4095)), 7, 2)
                  || int8send((-9223372036854775808) | ((p_offset & 1073741823) << 32) | (p_part::bigint & 4294967295)),
                  'hex')::uuid
$$;

-- Returns the offset inside a message id (format: message_id).
CREATE OR REPLACE FUNCTION queend.message_offset(p_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT (h.n & 4095) << 30 | (('x' || substr(h.hex, 17, 16))::bit(64)::bigint >> 32 & 1073741823)
      FROM (SELECT replace(p_id::text, '-', '') AS hex,
                   ('x' || substr(replace(p_id::text, '-', ''), 13, 4))::bit(16)::int::bigint AS n) AS h
$$;

-- Returns the wire spelling of a partition id (format: id_uuid).
CREATE OR REPLACE FUNCTION queend.partition_uuid(p_id int) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    SELECT queend.id_uuid(p_id, 'p', 'm')
$$;

-- Returns the wire spelling of a queue id (format: id_uuid).
CREATE OR REPLACE FUNCTION queend.queue_uuid(p_id int) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    SELECT queend.id_uuid(p_id, 'q', 'r')
$$;

-- Returns the number of a partition given in its wire spelling or in decimals; NULL for any other text.
CREATE OR REPLACE FUNCTION queend.partition_number(p_text text) RETURNS int
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_text ~ '^[0-9]{1,10}$' THEN CASE WHEN p_text::bigint <= 2147483647 THEN p_text::int END
                WHEN p_text ~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
                     THEN queend.partition_id(p_text::uuid) END
$$;

-- Returns whether an id on the wire is one that this database gave to a partition that is gone. Returns false for a
-- decimal number, which does not tell which database gave it.
CREATE OR REPLACE FUNCTION queend.partition_removed(p_text text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT COALESCE(p_text !~ '^[0-9]+$' AND queend.partition_number(p_text) IS NOT NULL
                    AND NOT EXISTS (SELECT FROM queend.partitions p WHERE p.id = queend.partition_number(p_text)),
                    false)
$$;

-- Returns the partition id inside its wire spelling; NULL if this database did not give it. The partition may be gone.
CREATE OR REPLACE FUNCTION queend.partition_id(p_uuid uuid) RETURNS int
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    v_raw bytea := uuid_send(p_uuid);
    v_id  int := ('x' || encode(substr(v_raw, 13, 4), 'hex'))::bit(32)::int
                 # queend.id_mask((SELECT c.seed FROM queend.catalog c), 'm', substr(v_raw, 1, 12));
BEGIN
    RETURN CASE WHEN queend.partition_uuid(v_id) = p_uuid THEN v_id END;
END $$;

-- Returns the wire spelling of a partition's or queue's id: a UUID that cannot be guessed by counting and decodes
-- without a look-up. Bytes 0…11 are of sha256(seed, letter, id), marked as version 8. Bytes 12…15 are the id,
-- masked by sha256(seed, second letter, bytes 0…11).
CREATE OR REPLACE FUNCTION queend.id_uuid(p_id int, p_tag text, p_mask text) RETURNS uuid
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    v_seed bytea := (SELECT c.seed FROM queend.catalog c);
    v_tag  bytea := substr(sha256(v_seed || p_tag::bytea || int4send(p_id)), 1, 12);
BEGIN
    v_tag := set_byte(set_byte(v_tag, 6, get_byte(v_tag, 6) & 15 | 128), 8, get_byte(v_tag, 8) & 63 | 128);
    RETURN encode(v_tag || int4send(p_id # queend.id_mask(v_seed, p_mask, v_tag)), 'hex')::uuid;
END $$;

-- Returns the mask of the number in a wire id (format: id_uuid): the first four bytes of sha256(seed, letter, bytes
-- 0…11).
CREATE OR REPLACE FUNCTION queend.id_mask(p_seed bytea, p_mask text, p_tag bytea) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('x' || encode(substr(sha256(p_seed || p_mask::bytea || p_tag), 1, 4), 'hex'))::bit(32)::int
$$;
