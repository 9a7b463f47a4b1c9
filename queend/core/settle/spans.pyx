# Trace spans (net/spans) of transactions and cycles. In: an answered transaction or cycle. Out: spans.
# Neighbouring pushes of one queue and trace share a span, and so do neighbouring acknowledgments of one queue and
# group.

cdef void tx_spans(Request* r, TxReq* q, int status) noexcept nogil:
    # Writes the spans: pushes follow the traceparents of their items, acknowledgments that of the request.
    cdef Slice parent, state, other
    cdef int64_t began = span_began(r)
    cdef int n
    cdef int at = 0
    cdef TxOp* op
    if not (r.asks & ASK_TRACE and request_trace(r.headers_raw, &r.arena, &parent, &state)):
        parent = slice_of(NULL, 0)
    while at < q.n:
        op = &q.ops[at]
        n = 1
        while at + n < q.n and txops_alike(op, &q.ops[at + n]):
            n += 1
        at += n
        if op.kind == TX_PUSH:
            other = txop_parent(op)
            if other.p != NULL:
                span_put(r.worker, SPAN_SEND, other, began, status, n, op.push.queue, op.push.part,
                         slice_of(NULL, 0), op.push.offset if n == 1 and status < 400 else -1)
        elif op.kind == TX_ACK and parent.p != NULL and op.ack.partition != NULL:
            span_put(r.worker, SPAN_SETTLE, parent, began, status, n, op.ack.partition.queue.name,
                     op.ack.partition.name, op.ack.group_name, -1)

cdef inline Slice txop_parent(TxOp* op) noexcept nogil:
    return span_parent(op.push.more.headers) if op.push.more != NULL else slice_of(NULL, 0)

cdef bint txops_alike(TxOp* a, TxOp* b) noexcept nogil:
    if a.kind != b.kind:
        return False
    if a.kind == TX_PUSH:
        return slice_eq(a.push.queue, b.push.queue) and slice_eq(txop_parent(a), txop_parent(b))
    return (a.kind == TX_ACK and a.ack.partition != NULL and b.ack.partition != NULL
            and a.ack.partition.queue is b.ack.partition.queue and slice_eq(a.ack.group_name, b.ack.group_name))

cdef void cycle_spans(Request* r, CycleReq* q, Slice queue, int status) noexcept nogil:
    # Writes one span for the cycle, and one for the items stored in each queue.
    cdef Slice parent, state
    if request_trace(r.headers_raw, &r.arena, &parent, &state):
        span_put(r.worker, SPAN_CYCLE, parent, span_began(r), status, q.count if q.has_ack else 1, queue,
                 slice_of(NULL, 0), q.group, -1)
        if not q.gone:
            push_spans(r, &q.push, status)
