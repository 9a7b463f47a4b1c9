# Encrypted queues in the engine. Payloads are sealed when a request has found its queues, and opened when an answer is
# written (deliver/delivery). In: items with their partitions. Out: sealed items; requests refused if there is no key.
# Between the two no payload is plain: in batches, in the row cache, in the database and in the failover buffer. Owner:
# the request's worker. Locks: catalog.lock, to find a queue.

# ---- items -----------------------------------------------------------------------------------------------------------

cdef inline bint sealing_has(PushItem* it) noexcept nogil:
    return it.more != NULL and it.more.seal.n != 0

cdef inline bint sealing_needs(PushItem* it) noexcept nogil:
    # Returns True if an item has to be sealed and is not. Requires its partition.
    return it.partition.queue.sealed and not sealing_has(it)

cdef bint sealing_item(Worker* w, Job* j, PushItem* it) noexcept nogil:
    # Seals an item, on its request's worker. The envelope lives as long as the request. Returns False if that failed.
    cdef size_t n = seal_size(it.payload.n)
    cdef char* out = <char*>arena_alloc(&j.r.arena, n)
    cdef Extras* x = <Extras*>arena_alloc(&j.r.arena, sizeof(Extras))
    if out == NULL or x == NULL or not seal_write(&w.seal, it.queue, it.payload, out):
        return False
    if it.more != NULL:
        x[0] = it.more[0]     # other items may share the old extras
    else:
        batchrow_extras_none(x)
    x.seal = slice_lit(sealring.keys[0].id)
    it.payload = slice_of(out, n)
    it.more = x
    w.counters.sealed += 1
    j.bytes += n
    held_count(j.r)
    return True

# ---- pushes and transactions -----------------------------------------------------------------------------------------

cdef bint sealing_push(Worker* w, PushJob* j, bint spills) noexcept nogil:
    # Seals all items that are not in flight, if their queue is encrypted. Requires their partitions. Opens runs of such
    # queues: each record carries a key's id. spills: the items are to be written to the failover buffer, and may lack
    # partitions. They are sealed whatever their queue is: a plain queue may have become encrypted without this process
    # being able to hear of it. A record that names its key is opened in any queue. If no key is
    # configured, refuses items of queues known to be encrypted, and no others. Returns False if the request is
    # answered, or its remaining items have failed.
    cdef PushItem** at = &j.unresolved
    cdef PushItem* it
    cdef Queue* q
    cdef bint sealed = sealring.n > 0
    if spills and not (catalog.n_sealed or sealed):
        return True
    while at[0] != NULL:
        it = at[0]
        if not spills:
            sealed = it.partition.queue.sealed
        elif not sealring.n:
            uv_rwlock_rdlock(&catalog.lock)
            q = catalog_queue(it.queue)
            sealed = q != NULL and q.sealed
            uv_rwlock_rdunlock(&catalog.lock)
        if sealed and it.run != NULL:
            runitem_expand(it)
            it.run.items[it.run.n - 1].next = it.next
            it = at[0] = it.run.items
        if sealed and not sealing_has(it) and not sealing_item(w, &j.job, it):
            sealing_refuse_push(j)
            return False
        at = &it.next
    return True

cdef bint sealing_tx(Worker* w, TxJob* j) noexcept nogil:
    # Seals the pushes of a transaction. Requires their partitions. Returns False if the transaction is answered.
    cdef TxOp* op
    cdef int i
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if (op.kind == TX_PUSH and op.push.partition != NULL and sealing_needs(op.push)
                and not sealing_item(w, &j.job, op.push)):
            sealing_refuse(job_end(&j.job))
            return False
    return True

# ---- batches ---------------------------------------------------------------------------------------------------------

cdef bint sealing_needs_any(PushPartition* g) noexcept nogil:
    # Returns True if the queue became encrypted after the items were looked up.
    cdef PushItem* it = g.first
    if not g.partition.queue.sealed:
        return False
    while it != NULL:
        if it.run != NULL or not sealing_has(it):
            return True
        it = it.next
    return False

# ---- refused ---------------------------------------------------------------------------------------------------------

cdef void sealing_refuse(Request* r) noexcept nogil:
    # Answers a request whose job has ended.
    if sealring.n:
        reply_error(r, 503, "Out of memory")
    else:
        reply_error(r, 500, "The queue is encrypted and this server has no key")

cdef void sealing_refuse_push(PushJob* j) noexcept nogil:
    # Refuses a push that cannot be sealed: it is never stored in clear instead.
    capacity_give_back(j)
    if j.held:
        j.unsealed = True
        push_end_items(j, ITEM_FAILED, FAILED_REFUSED)
    elif j.drain:
        failover_hooks.retry(1000000)  # it stays in the failover buffer until there is a key
    else:
        sealing_refuse(job_end(&j.job))
