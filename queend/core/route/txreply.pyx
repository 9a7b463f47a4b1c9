# Writes the answer to a transaction: a result for each operation in the order of the request, or why all of it was
# refused.

cdef const char* txop_ack_error(TxOp* op) noexcept nogil:
    # Returns why an acknowledgment failed, as JSON.
    if op.fault == TX_FAULT_LEASE: return ack_lease_error(op.ack)
    if op.fault == TX_FAULT_NOT_FOUND: return b'"Message not found"'
    if op.fault == TX_FAULT_LATE: return b'"Message already committed"'
    return b'"Unknown error"' if op.fault else b"null"

cdef void tx_fault_text(Buf* b, TxOp* op) noexcept nogil:
    if op.fault == TX_FAULT_TYPE:
        buf_text(b, b"\"Unknown operation type: ")
        if op.type_json.n > 2 and op.type_json.p[0] == b'"':
            buf_put(b, op.type_json.p + 1, op.type_json.n - 2)
        else:
            buf_text(b, b"null")
        buf_byte(b, b'"')
    elif op.fault == TX_FAULT_STATUS:
        buf_text(b, b"\"ACK operation failed: Unknown error\"")
    elif op.fault == TX_FAULT_LEASE or op.fault == TX_FAULT_NOT_FOUND or op.fault == TX_FAULT_LATE:
        buf_text(b, b"\"ACK operation failed: ")
        buf_text(b, txop_ack_error(op) + 1)      # it is quoted
    elif op.fault == TX_FAULT_FULL:
        push_full_text(b, op.push)
    elif op.fault == TX_FAULT_OF_DELETED:
        buf_text(b, b"\"duplicate key: the message with this transactionId in the partition was deleted\"")
    else:
        buf_text(b, b"\"duplicate key: a message with this transactionId is already stored in the partition\"")

cdef void tx_fault_word(Buf* b, int fault) noexcept nogil:
    # Writes the reason for programs, in the words of the second SDK generation.
    if fault == TX_FAULT_DUPLICATE:
        buf_text(b, b"\"duplicate\"")
    elif fault == TX_FAULT_OF_DELETED:
        buf_text(b, b"\"duplicate_of_deleted\"")
    elif fault == TX_FAULT_LEASE or fault == TX_FAULT_NOT_FOUND or fault == TX_FAULT_LATE:
        buf_text(b, b"\"rejected_ack\"")
    elif fault == TX_FAULT_FULL:
        buf_text(b, b"\"queue_full\"")
    else:
        buf_text(b, b"\"bad_request\"")

cdef void tx_result(Buf* b, TxOp* op, int index) noexcept nogil:
    member_int(b, b"{\"index\":", index)
    if op.kind == TX_PUSH:
        buf_text(b, b",\"type\":\"push\",\"success\":true,\"transactionId\":")
        put_txid(b, op.push)
        member_uuid(b, b",\"messageId\":", op.push.message_id)
        buf_text(b, b",\"partitionId\":\"")
        buf_put(b, op.push.partition_uuid, 36)
        buf_text(b, b"\",\"queueName\":")
        put_queue(b, op.push)
    elif op.kind == TX_ACK:
        member_bool(b, b",\"type\":\"ack\",\"success\":", op.fault == TX_FAULT_NONE)
        member_raw(b, b",\"transactionId\":", op.ack.txid_json)
        buf_text(b, b",\"error\":")
        buf_text(b, txop_ack_error(op))
        member_bool(b, b",\"dlq\":", op.ack.code & ACKED_DLQ)
    else:
        member_raw(b, b",\"type\":", op.type_json)
        buf_text(b, b",\"success\":false,\"error\":")
        tx_fault_text(b, op)
    buf_byte(b, b'}')

cdef void tx_reply(Buf* b, TxReq* q, int fault) noexcept nogil:
    # Writes the answer. fault: TX_DONE, TX_LEASE or the index of the operation that failed. A failed transaction lists
    # only the failing operation, because nothing else happened.
    cdef int i
    cdef int pushed = 0
    member_uuid(b, b"{\"transactionId\":", q.id)
    if fault == TX_DONE:
        buf_text(b, b",\"success\":true,\"results\":[")
        for i in range(0 if q.counts else q.n):
            if i:
                buf_byte(b, b',')
            tx_result(b, &q.ops[i], i)
        buf_byte(b, b']')
        if q.counts:
            for i in range(q.n):
                pushed += 1 if q.ops[i].kind == TX_PUSH else 0
            member_int(b, b",\"pushed\":", pushed)
            member_int(b, b",\"duplicate\":0,\"acked\":", q.n - pushed)
        buf_byte(b, b'}')
        return
    buf_text(b, b",\"success\":false,\"reason\":")
    if fault == TX_LEASE:
        buf_text(b, b"\"rejected_ack\",\"error\":\"Invalid or expired lease\",\"results\":[]}")
        return
    tx_fault_word(b, q.ops[fault].fault)
    member_int(b, b",\"failedIndex\":", fault)
    buf_text(b, b",\"error\":")
    tx_fault_text(b, &q.ops[fault])
    buf_text(b, b",\"results\":[")
    if q.ops[fault].kind != TX_PUSH:
        tx_result(b, &q.ops[fault], fault)
    buf_text(b, b"]}")
