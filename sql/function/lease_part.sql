-- The partition that a lease id names, if it is one that does (its first bit is set; queend/core/base/uuid). Anything may come
-- of another id: whether the lease is there is another question.
CREATE OR REPLACE FUNCTION queend.lease_part(p_lease uuid) RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_raw bytea := uuid_send(p_lease);
BEGIN
    RETURN ('x' || encode(substr(v_raw, 13, 4), 'hex'))::bit(32)::int # queend.id_mask((SELECT c.seed FROM queend.catalog c), 'l', substr(v_raw, 1, 12));
END $$;
