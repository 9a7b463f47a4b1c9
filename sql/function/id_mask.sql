-- What the number in such a UUID is masked with (see id_uuid.sql): of the first four bytes of sha256(seed, letter, bytes 0…11).
CREATE OR REPLACE FUNCTION queend.id_mask(p_seed bytea, p_mask text, p_tag bytea) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('x' || encode(substr(sha256(p_seed || p_mask::bytea || p_tag), 1, 4), 'hex'))::bit(32)::int
$$;
