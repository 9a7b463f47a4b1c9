-- Before a partition's records are looked up: what its caller has to learn, or what late_ids has to hold, as p_known says
-- (see push). before: up to where the caller's knowledge counts; seen: what comes after it (ids_seen); ready: the caller knows
-- all, or late_ids holds all. The caller of this holds the lane.
CREATE OR REPLACE FUNCTION queend.ids_prepare(p_part int, p_known bigint, p_known_at bigint, OUT before bigint, OUT seen bytea, OUT ready boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_listed boolean := NOT EXISTS (SELECT FROM queend.unlisted u WHERE u.partition_id = p_part);
    v_head   bigint;
BEGIN
    before := 0;
    ready := true;
    IF p_known = -1 THEN
        ready := v_listed OR queend.ids_list(p_part);
    ELSIF p_known <> 0 OR p_known = 0 AND NOT v_listed THEN
        v_head := queend.head(p_part);
        before := queend.ids_known(p_part, p_known, p_known_at);
        seen := queend.ids_seen(p_part, before);
        ready := ('x' || encode(substr(seen, 1, 8), 'hex'))::bit(64)::bigint + octet_length(seen) / 16 - 1 >= v_head;
        IF ready AND v_listed THEN
            INSERT INTO queend.unlisted (partition_id, since) VALUES (p_part, v_head);
        END IF;
    END IF;
END $$;
