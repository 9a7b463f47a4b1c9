-- Transactions: pushes and acknowledgments, all or nothing.

CREATE OR REPLACE FUNCTION queen.execute_transaction_v2(transactions jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queend.transaction_request(transactions)
$$;
COMMENT ON FUNCTION queen.execute_transaction_v2(jsonb) IS
'Executes pushes and acknowledgments, all or none: {"operations": [{"type": "push", "items": [{queue, partition,
payload, transactionId, traceId}, …]}, {"type": "ack", "transactionId", "partitionId", "status", "consumerGroup",
"leaseId", "error"}, …], "requiredLeases": [...]}. Or the operations only. Returns the answer of POST
/api/v1/transaction. A refused transaction changes nothing. Call it in autocommit mode: partitions and cursors stay
locked until the transaction ends.';
