-- The answer of a transaction in the reference server's shape. p_ops: its operations as transaction_request flattens them; p_fault: which one
-- refused it, from 1, 0: a required lease, NULL: it was done; p_made: by number, what came of each.
CREATE OR REPLACE FUNCTION queend.transaction_answer(p_ops jsonb, p_fault int, p_error text, p_made jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('transactionId', gen_random_uuid(), 'success', p_fault IS NULL, 'results', COALESCE(jsonb_agg(
               jsonb_build_object('index', o.ord - 1, 'type', o.v->'type', 'success', o.ord IS DISTINCT FROM p_fault, 'transactionId', o.v->'v'->'transactionId')
               || CASE WHEN o.v->>'type' = 'push'
                       THEN jsonb_build_object('messageId', m.v->'messageId', 'partitionId', m.v->'partitionId', 'queueName', o.v->'v'->'queue')
                       ELSE jsonb_build_object('error', CASE WHEN o.ord = p_fault THEN replace(p_error, 'ACK operation failed: ', '') END,
                                               'dlq', COALESCE((m.v->>'code')::int & 2 > 0, false)) END ORDER BY o.ord), '[]'))
           || CASE WHEN p_fault IS NULL THEN '{}' ELSE jsonb_build_object('error', p_error) END
      FROM jsonb_array_elements(p_ops) WITH ORDINALITY AS o (v, ord)
      LEFT JOIN LATERAL (SELECT p_made->o.ord::text AS v) AS m ON true
     WHERE p_fault IS NULL OR o.ord < p_fault OR o.ord = p_fault AND o.v->>'type' IS DISTINCT FROM 'push'
$$;
