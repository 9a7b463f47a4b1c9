-- Transactions: pushes and acknowledgments, all or nothing.

CREATE OR REPLACE FUNCTION queen.execute_transaction_v2(transactions jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queend.transaction_request(transactions)
$$;
COMMENT ON FUNCTION queen.execute_transaction_v2(jsonb) IS
'Pushes and acknowledges, all or nothing: {"operations": [...], "requiredLeases": [...]}, or the array of operations
alone. A push is {"type": "push", "items": [{queue, partition, payload, transactionId, traceId}, …]}. An acknowledgment
is {"type": "ack", "transactionId", "partitionId", "status", "consumerGroup", "leaseId", "error"}. Returns the answer of
POST /api/v1/transaction. A refused transaction leaves nothing behind, including queues. Use autocommit: its partitions
and cursors stay locked until the transaction ends.';
