# Transactions: acknowledgments and pushes that take effect together or not at all. In: a request; rows of an answer
# (settle/txcall). Out: its job, resolved and queued for its statement; its answer, counts and trace spans. Cycles use
# the part about pushes too. Owner: the request's worker. Locks: catalog.lock, then book.lock.

cdef const char* TX_IN_DOUBT = b"The database did not answer; whether the transaction took effect is not known"

cdef JobKind TX_JOB
TX_JOB.op = OP_TRANSACTION
TX_JOB.ask = tx_ask
TX_JOB.name_refused = tx_name_refused
TX_JOB.retry = tx_resolve
TX_JOB.refuse = tx_refuse
TX_JOB.reloads = True

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void tx_submit(Worker* w, Request* r, int route) noexcept nogil:
    r.op = OP_TRANSACTION
    offload_job(w, r, sizeof(TxJob), tx_read_body, tx_taken)

cdef bint tx_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    cdef TxReq* q = &(<TxJob*>job).req
    cdef int i
    if not txbody_read(r.headers_raw, r.body, t, q):
        return False
    if r.asks & ASK_TRACE:
        for i in range(q.n):
            if q.ops[i].kind == TX_PUSH:
                trace_items(r.headers_raw, &r.arena, q.ops[i].push, 1)
    return True

cdef void tx_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef TxJob* j = <TxJob*>job
    cdef int i
    if not good and j.req.kv.code != NULL:
        kv_refuse(r, e, j.req.kv.code, j.req.kv.reason)
        return
    if not good and j.req.timers.code != NULL:
        kv_refuse(r, e, j.req.timers.code, j.req.timers.reason)
        return
    if not good:
        reply_error(r, e.status, e.text)
        return
    if gate_names(r) and not gate_transaction(r, &j.req) or r.grant != NULL and not gate_kv(r, &j.req.kv):
        return
    if j.req.timers.n and (not gate_timers(r, &j.req.timers) or not timer_seal_known(w, r, &j.req.timers)):
        return
    job_open(&j.job, r, &TX_JOB, r.body.n + j.req.unpacked + j.req.timers.unpacked)
    i = tx_static_fault(j)
    if i >= 0:
        tx_answer(j, i)
        return
    if j.req.n == 0 and j.req.n_required == 0 and j.req.kv.n == 0 and j.req.timers.n == 0:
        tx_answer(j, TX_DONE)
        return
    tx_resolve(engine_of(w), &j.job)

cdef int tx_static_fault(TxJob* j) noexcept nogil:
    # Returns the first operation that is invalid without asking the database: an unknown type or status, or a malformed
    # lease. Returns -1 if all are valid.
    cdef int i
    cdef TxOp* op
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_UNKNOWN:
            op.fault = TX_FAULT_TYPE
            return i
        if op.kind == TX_ACK and op.ack.status > ACK_DLQ and op.ack.status != ACK_UPTO:
            op.fault = TX_FAULT_STATUS
            return i
        if op.kind == TX_ACK and op.ack.lease_bad:
            op.fault = TX_FAULT_LEASE
            return i
    return -1

# ---- names -----------------------------------------------------------------------------------------------------------

cdef void tx_resolve(Engine* e, Job* job) noexcept nogil:
    # Resolves names to ids; then the job waits for a slot.
    cdef TxJob* j = <TxJob*>job
    cdef int i
    cdef TxOp* op
    cdef Queue* q = NULL
    cdef bint ask = False
    cdef bint missing = False
    cdef AckItem* lacks = NULL
    uv_rwlock_rdlock(&catalog.lock)
    if j.job.incarnation != catalog.incarnation:
        j.job.incarnation = catalog.incarnation
        tx_ask_anew(j)
        j.job.tries = 0
        j.cleared = False
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH:
            if catalog.spreads:
                q = spread_single(op.push, q)
            op.push.partition = catalog_place(op.push.queue, op.push.part, &q)
            j.limited = j.limited or (q != NULL and q.max_size > 0)
            if op.push.partition == NULL:
                missing = True
        else:
            op.ack.partition_id = ACK_PARTITION_UNREAD
            ack_find_item(op.ack, op.ack.group_name, &ask)
            if lacks == NULL and not gate_ack(j.job.r, op.ack, op.ack.group_name):
                lacks = op.ack
    uv_rwlock_rdunlock(&catalog.lock)
    if lacks != NULL:
        gate_refuse(job_end(&j.job), b"pop", lacks.partition.queue.name, lacks.group_name)
        return
    if missing and not j.cleared:
        i = tx_repeat(j)
        if i >= 0:
            j.req.ops[i].fault = TX_FAULT_DUPLICATE
            tx_answer(j, i)
            return
        j.cleared = not tx_refusable(j)
    ask = ask or (missing and j.cleared)
    if ask:
        job_resolve(&j.job, "The queue is being deleted; try again")
        return
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_ACK and ack_item_removed(op.ack):
            op.ack.code = ACKED_OK | ACKED_NOOP
        elif op.kind == TX_ACK and op.ack.partition == NULL:
            op.fault = TX_FAULT_NOT_FOUND
            tx_answer(j, i)
            return
    i = capacity_transaction(j) if j.limited else CAPACITY_FITS
    if i == CAPACITY_UNKNOWN:
        j.job.tries += 1
        joblist_add(&e.resolving, &j.job)
        return
    if i >= 0:
        tx_answer(j, i)
        return
    if catalog.n_sealed and not sealing_tx(e.worker, j):
        return
    job_queue(&j.job, &e.txs.jobs)

cdef void tx_ask_anew(TxJob* j) noexcept nogil:
    # Lets the partitions and groups of all acknowledgments be looked up again.
    cdef int i
    for i in range(j.req.n):
        if j.req.ops[i].kind == TX_ACK:
            j.req.ops[i].ack.asked = 0

cdef bint tx_refusable(TxJob* j) noexcept nogil:
    # Returns True if the database may refuse the transaction. It cannot if all operations push to partitions that do
    # not exist.
    cdef int i
    for i in range(j.req.n):
        if j.req.ops[i].kind != TX_PUSH or j.req.ops[i].push.partition != NULL:
            return True
    return j.req.n_required > 0 or j.req.kv.requires or j.req.timers.n > 0

cdef int tx_repeat(TxJob* j) noexcept nogil:
    # Returns the first push to a missing partition that repeats the id of an earlier push to the same partition; -1 if
    # there is none.
    cdef int i
    cdef int found = -1
    cdef Table seen
    cdef PushItem* it
    cdef PushItem* other
    cdef uint64_t key
    table_init(&seen)
    for i in range(j.req.n):
        it = j.req.ops[i].push
        if j.req.ops[i].kind != TX_PUSH or it.partition != NULL or it.id_kind == ID_MADE:
            continue
        memcpy(&key, it.id + 8, 8)      # the random or hashed half of the id
        key = slice_hash(it.queue, slice_hash(it.part, key ^ hash_seed))
        other = <PushItem*>table_get(&seen, key)
        if other == NULL:
            table_put(&seen, key, it)
        elif memcmp(other.id, it.id, 16) == 0 and slice_eq(other.queue, it.queue) and slice_eq(other.part, it.part):
            found = i
            break
    table_free(&seen)
    return found

cdef void tx_ask(Engine* e, Job* job) noexcept nogil:
    cdef TxJob* j = <TxJob*>job
    cdef int i
    cdef TxOp* op
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH and op.push.partition == NULL and not j.cleared:
            continue
        elif op.kind == TX_PUSH and op.push.partition == NULL:
            ask_names(e, ASK_RESOLVE, op.push.queue, op.push.part, 0)
        elif op.kind == TX_PUSH and op.push.partition.queue.capacity.wanted:
            ask_names(e, ASK_SIZE, op.push.queue, op.push.queue, op.push.partition.queue.id)
        elif op.kind == TX_ACK:
            ack_ask_item(e, op.ack, op.ack.group_name)

cdef void tx_name_refused(Round* r, Job* job) noexcept nogil:
    cdef TxJob* j = <TxJob*>job
    cdef TxOp* op
    cdef int i
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH and op.push.partition == NULL and ask_is_refused(r, job, False, op.push.queue,
                                                                               op.push.part):
            return

# ---- pushes of a transaction or a cycle ------------------------------------------------------------------------------
# In: items whose partitions are known; rows of an answer. Out: a batch; items with their offsets, which the book takes
# over. After a lost answer the items show whether it was done: either all of them are stored or none (queend.pushed).

cdef bint tx_push_add(PushBatch* b, Table* groups, PushItem* it) noexcept nogil:
    # Adds an item to the batch. groups: of the batch, by partition. Returns False if memory ran out.
    cdef PushPartition* g = <PushPartition*>table_get(groups, <uint32_t>it.partition.id)
    if g == NULL:
        g = batch_partition(b, it.partition)
        if g == NULL or not table_put(groups, <uint32_t>it.partition.id, g):
            return False
    it.status = ITEM_QUEUED
    batch_place(b, g, it)
    return True

cdef void tx_push_stored(PushChunk* c, int64_t base, int64_t created_us, PopJob** wake) noexcept nogil:
    # Notes a stored row. The items have consecutive offsets, except those that were stored before. Requires
    # catalog.lock and book.lock.
    cdef PushItem* it = c.first
    cdef int64_t following = base
    cdef int k
    for k in range(c.n):
        if it.status == ITEM_QUEUED:
            it.offset = following
            it.created_us = created_us
            following += 1
        it = it.next
    if following > base:
        index_stored(c.group.partition, following, wake)

cdef void tx_push_take(Worker* w, PushBatch* b, PGresult* res) noexcept nogil:
    # Takes the rows of queend.pushed: all items are stored.
    cdef PopJob* wake = NULL
    cdef int row, i
    index_lock_all()
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSHED_ORD)
        if 0 <= i < b.n_chunks:
            tx_push_stored(&b.chunks[i], pg_int8(res, row, PUSHED_BASE), pg_int8(res, row, PUSHED_CREATED_AT), &wake)
    index_unlock_all(w, wake)

cdef inline void tx_push_names(PushItem* it) noexcept nogil:
    # Fills in the names for the answer.
    it.partition_uuid = it.partition.uuid
    uuid_message(it.created_us, it.partition.id, it.offset, it.message_id)

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void tx_answer(TxJob* j, int fault) noexcept nogil:
    # Answers the request. fault: the operation that failed, TX_DONE, or TX_LEASE.
    cdef Request* r = j.job.r
    cdef TxOp* op
    cdef int i
    if fault == TX_DONE and j.limited:
        capacity_transacted(j)
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH and op.push.partition != NULL:
            tx_push_names(op.push)
        if op.kind == TX_ACK and op.ack.code & ACKED_DLQ:
            r.worker.counters.dead_lettered += 1
    job_end(&j.job)
    r.worker.counters.op[OP_TRANSACTION].items += j.req.n
    if fault == TX_DONE:
        tx_tally(&j.req, r.worker)
        timer_tally(r.worker, &j.req.timers, clock_mono_us())
    if r.worker.spans.every:
        tx_spans(r, &j.req, 200 if fault == TX_DONE else 409)
    txbody_reply(reply_begin(r, 200, JSON_TYPE), &j.req, fault)
    reply_end(r)

cdef void tx_tally(TxReq* q, Worker* w) noexcept nogil:
    # Adds the transaction to the counts of its queues, once per run of operations on the same queue.
    cdef Queue* queue
    cdef Queue* last = NULL
    cdef Partition* p
    cdef int i
    for i in range(q.n):
        p = <Partition*>(q.ops[i].push.partition if q.ops[i].kind == TX_PUSH else q.ops[i].ack.partition)
        queue = p.queue if p != NULL else NULL
        if queue == NULL:
            continue
        if queue is not last:
            last = queue
            queue.tally[w.index].transactions += 1
        if q.ops[i].kind == TX_PUSH:
            queue.tally[w.index].push_messages += 1
        else:
            queue.tally[w.index].ack_done += 1

cdef void tx_refuse(Job* job, int status, const char* text) noexcept nogil:
    # Refuses a transaction. After a lost answer it may have taken effect, so the answer says that the outcome is
    # unknown.
    if (<TxJob*>job).doubt:
        job_refuse(job, 503, TX_IN_DOUBT)
    else:
        job_refuse(job, status, text)

# ---- trace spans (net/spans) -----------------------------------------------------------------------------------------
# Neighbouring pushes of one queue and trace share a span, and so do neighbouring acknowledgments of one queue and
# group.

cdef void tx_spans(Request* r, TxReq* q, int status) noexcept nogil:
    # Writes the spans: pushes follow the traceparents of their items, acknowledgments that of the request.
    cdef Slice parent, state, other
    cdef int64_t began = span_began(r)
    cdef int n
    cdef int at = 0
    cdef TxOp* op
    if not (r.asks & ASK_TRACE and trace_request(r.headers_raw, &r.arena, &parent, &state)):
        parent = slice_of(NULL, 0)
    while at < q.n:
        op = &q.ops[at]
        n = 1
        while at + n < q.n and tx_ops_alike(op, &q.ops[at + n]):
            n += 1
        at += n
        if op.kind == TX_PUSH:
            other = tx_op_parent(op)
            if other.p != NULL:
                span_put(r.worker, SPAN_SEND, other, began, status, n, op.push.queue, op.push.part,
                         slice_of(NULL, 0), op.push.offset if n == 1 and status < 400 else -1)
        elif op.kind == TX_ACK and parent.p != NULL and op.ack.partition != NULL:
            span_put(r.worker, SPAN_SETTLE, parent, began, status, n, op.ack.partition.queue.name,
                     op.ack.partition.name, op.ack.group_name, -1)

cdef inline Slice tx_op_parent(TxOp* op) noexcept nogil:
    return span_parent(op.push.more.headers) if op.push.more != NULL else slice_of(NULL, 0)

cdef bint tx_ops_alike(TxOp* a, TxOp* b) noexcept nogil:
    if a.kind != b.kind:
        return False
    if a.kind == TX_PUSH:
        return slice_eq(a.push.queue, b.push.queue) and slice_eq(tx_op_parent(a), tx_op_parent(b))
    return (a.kind == TX_ACK and a.ack.partition != NULL and b.ack.partition != NULL
            and a.ack.partition.queue is b.ack.partition.queue and slice_eq(a.ack.group_name, b.ack.group_name))
