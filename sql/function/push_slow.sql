-- Appends one batch row after looking up every id; what is already stored is left out. The caller holds the lane.
-- p_refuse: nothing is to be stored of the row (status 3). p_known as in push, p_before, p_from, p_to as p_known, p_from and
-- p_to of ids_find. Result: as push, status 1; base is -1 when every record was a duplicate.
CREATE OR REPLACE FUNCTION queend.push_slow(p_part int, p_n int, p_ids bytea, p_body bytea, p_meta bytea, p_refuse boolean,
    p_known bigint, p_before bigint, p_from bigint[], p_to bigint[],
    OUT status smallint, OUT base bigint, OUT created_at bigint, OUT dup_offset bigint[], OUT dup_at bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    zero    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_now   bigint := queend.now_us();
    v_loose boolean := EXISTS (SELECT FROM queend.unlisted u WHERE u.partition_id = p_part);
    v_high  uuid := zero;
    v_odd   boolean := false;
    v_keep  int[];
    v_ids   bytea;
    v_top   uuid;
    v_late  boolean;
    head    record;
BEGIN
    -- What push put into late_ids before it met a conflict: places at or above the head that no row will ever have.
    DELETE FROM queend.late_ids t USING queend.id_spread(p_ids) AS i
     WHERE t.partition_id = p_part AND t.id = i.id AND t.position >= (SELECT queend.head(p_part));
    base := -1;
    created_at := v_now;
    status := CASE WHEN p_refuse THEN 3 ELSE 1 END;
    IF p_refuse THEN
        RETURN;
    END IF;
    SELECT array_agg(COALESCE(f.found, -1) ORDER BY i.ord), array_agg(COALESCE(f.stored_at, 0) ORDER BY i.ord),
           array_agg(i.ord ORDER BY i.ord) FILTER (WHERE f.found IS NULL)
      INTO dup_offset, dup_at, v_keep
      FROM queend.id_spread(p_ids) AS i
      LEFT JOIN (SELECT DISTINCT ON (x.ord) x.* FROM queend.ids_find(p_part, p_ids, p_before, p_from, p_to) AS x ORDER BY x.ord, x.found) AS f ON f.ord = i.ord;
    IF v_keep IS NULL THEN
        RETURN;
    END IF;

    SELECT l.high, l.odd, l.created_at INTO head FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1;
    IF FOUND THEN
        v_high := head.high;
        v_odd := head.odd;
        v_now := GREATEST(v_now, head.created_at);   -- the clock may have stepped back, offsets do not
    END IF;
    created_at := v_now;
    base := queend.head(p_part);

    -- The kept ids in their new places; `late` are those the log will not be able to prove by itself and nobody remembers.
    WITH k AS MATERIALIZED (
        SELECT u.ord::int - 1 AS ord, substr(p_ids, 16 * u.i + 1, 16) AS id, get_byte(p_ids, 16 * u.i + 6) >> 4 = 7 AS seven
          FROM unnest(v_keep) WITH ORDINALITY AS u (i, ord)),
    t AS MATERIALIZED (
        SELECT k.*, k.seven AND k.id >= uuid_send(queend.id_bound(v_now - 60000000))
                            AND k.id < uuid_send(queend.id_bound(v_now + 60000000)) AS timely FROM k),
    late AS (
        -- A row below the floor is of a message that is gone: the id is free again and the row is ours.
        INSERT INTO queend.late_ids AS e (position, partition_id, id)
        SELECT base + t.ord, p_part, t.id FROM t
         WHERE NOT t.timely AND (t.seven OR NOT v_loose OR p_known = -1)
        ON CONFLICT (partition_id, id) DO UPDATE SET position = excluded.position)
    SELECT string_agg(t.id, '' ORDER BY t.ord), (max(encode(t.id, 'hex') COLLATE "C") FILTER (WHERE t.timely))::uuid,
           bool_or(t.seven AND NOT t.timely)
      INTO v_ids, v_top, v_late FROM t;

    INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
    VALUES (base, v_now, p_part, cardinality(v_keep), GREATEST(v_high, v_top), v_odd OR v_late, v_ids,
            CASE WHEN cardinality(v_keep) = p_n THEN p_body ELSE queend.body_pick(p_body, p_n, v_keep) END,
            CASE WHEN cardinality(v_keep) = p_n THEN COALESCE(p_meta, '') ELSE queend.meta_pick(p_meta, v_keep) END);
    IF p_known = -1 AND v_loose THEN
        DELETE FROM queend.unlisted u WHERE u.partition_id = p_part;
    END IF;
END $$;
