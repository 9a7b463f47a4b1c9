-- The operations with the transaction ids that were made for those of their pushes that had none.
CREATE OR REPLACE FUNCTION queend.transaction_named(p_ops jsonb, p_ord int[], p_transaction text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_agg(CASE WHEN n.id IS NULL THEN o.v ELSE jsonb_set(o.v, '{v,transactionId}', to_jsonb(n.id)) END ORDER BY o.ord)
      FROM jsonb_array_elements(p_ops) WITH ORDINALITY AS o (v, ord) LEFT JOIN unnest(p_ord, p_transaction) AS n (ord, id) ON n.ord = o.ord
$$;
