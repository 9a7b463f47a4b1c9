-- A row's meta with only the records at these 0-based places, renumbered; empty when none of them has extras.
CREATE OR REPLACE FUNCTION queend.meta_pick(p_meta bytea, p_keep int[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT COALESCE('\x10'::bytea || string_agg(queend.varint_bytes(k.ord::int - 1) || r.piece, '' ORDER BY k.ord), '')
      FROM queend.meta_records(p_meta) AS r JOIN unnest(p_keep) WITH ORDINALITY AS k (i, ord) ON k.i = r.ord
$$;
