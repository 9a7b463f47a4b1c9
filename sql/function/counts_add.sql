-- Two lists of counts added place by place; the shorter one goes on with zeros.
CREATE OR REPLACE FUNCTION queend.counts_add(p_one bigint[], p_other bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT COALESCE(array_agg(COALESCE(u.a, 0) + COALESCE(u.b, 0) ORDER BY u.ord), '{}') FROM unnest(p_one, p_other) WITH ORDINALITY AS u (a, b, ord)
$$;
