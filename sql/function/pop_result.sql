-- The result of a pop in the reference server's shape. p_taken: the partitions that were claimed; the first names the answer.
CREATE OR REPLACE FUNCTION queend.pop_result(p_request jsonb, p_group text, p_lease text, p_taken int[], p_messages jsonb, p_error text, p_window boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_build_object(
        'success', p_taken <> '{}', 'queue', p_request->>'queue_name',
        'partition', COALESCE((SELECT p.name FROM queend.partitions p WHERE p.id = p_taken[1]), NULLIF(p_request->>'partition_name', '')),
        'partitionId', queend.partition_uuid(p_taken[1]), 'leaseId', COALESCE(p_lease, ''), 'consumerGroup', p_group, 'partitionsClaimed', cardinality(p_taken),
        'messages', (SELECT COALESCE(jsonb_agg(m.v || jsonb_build_object('leaseId', COALESCE(p_lease, ''), 'consumerGroup', p_group) ORDER BY m.ord), '[]')
                       FROM jsonb_array_elements(p_messages) WITH ORDINALITY AS m (v, ord)))
        || CASE WHEN p_error IS NULL THEN '{}' ELSE jsonb_build_object('error', p_error) END
        || CASE WHEN p_window THEN '{"windowBufferActive": true}' ELSE '{}'::jsonb END;
END $$;
