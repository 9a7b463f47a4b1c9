-- Two sets of levels of one bucket made one: name → [sum, samples, least, most, last]; p_other is the later.
CREATE OR REPLACE FUNCTION queend.levels_add(p_one jsonb, p_other jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_one || COALESCE(jsonb_object_agg(o.key, CASE WHEN p_one ? o.key THEN jsonb_build_array(
               (p_one -> o.key ->> 0)::numeric + (o.value ->> 0)::numeric, (p_one -> o.key ->> 1)::numeric + (o.value ->> 1)::numeric,
               LEAST((p_one -> o.key ->> 2)::numeric, (o.value ->> 2)::numeric), GREATEST((p_one -> o.key ->> 3)::numeric, (o.value ->> 3)::numeric),
               o.value -> 4) ELSE o.value END), '{}')
      FROM jsonb_each(p_other) AS o
$$;
