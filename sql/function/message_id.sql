-- The id of a message on the wire, made of where and when it is stored: 48 bits of milliseconds, version 7, 42 bits of
-- offset and 32 bits of partition id around the variant. It sorts like the offset within a partition.
CREATE OR REPLACE FUNCTION queend.message_id(p_created_at bigint, p_part int, p_offset bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT encode(substr(int8send(p_created_at / 1000), 3, 6)
                  || substr(int8send(28672 | (p_offset >> 30 & 4095)), 7, 2)
                  || int8send((-9223372036854775808) | ((p_offset & 1073741823) << 32) | (p_part::bigint & 4294967295)), 'hex')::uuid
$$;
