-- A batch body with only the records at these 0-based places, in this order.
CREATE OR REPLACE FUNCTION queend.body_pick(p_body bytea, p_n int, p_keep int[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT '\x10'::bytea || string_agg(queend.varint_bytes(b.sizes[k.i + 1]), '' ORDER BY k.ord)
           || string_agg(substr(p_body, b.starts[k.i + 1] + 1, b.sizes[k.i + 1]), '' ORDER BY k.ord)
      FROM queend.body_open(p_body, p_n) AS b, unnest(p_keep) WITH ORDINALITY AS k (i, ord)
$$;
