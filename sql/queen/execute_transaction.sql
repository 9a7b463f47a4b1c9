-- Transactions: pushes and acknowledgments, all or nothing.

CREATE OR REPLACE FUNCTION queen.execute_transaction_v2(transactions jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT queend.transaction_request(transactions)
$$;
COMMENT ON FUNCTION queen.execute_transaction_v2(jsonb) IS
'Pushes and acknowledgments that happen together or not at all: {"operations": [{"type": "push", "items": [{queue,
partition, payload, transactionId, traceId}, …]}, {"type": "ack", "transactionId", "partitionId", "status",
"consumerGroup", "leaseId", "error"}, …], "requiredLeases": [...]}, or the operations alone. Answer: that of POST
/api/v1/transaction; a refused one leaves nothing, not even an empty queue. For autocommit: its partitions and
cursors stay locked until the transaction ends.';
