# The statement of a transaction. In: a job whose names are known. Out: its results, and the changes in the book.
# Function queend.transaction validates everything under its locks before it changes anything, so a refused transaction
# leaves no trace. After a lost answer the pushed items show whether it took effect (queend.pushed). Owner: the worker.
# Locks: catalog.lock, then book.lock; idsets.lock alone.

cdef struct TxCall:
    Call base
    TxJob* job
    PushBatch batch
    AckRow* rows
    int n_rows
    KvOp** keys
    bint asks                 # only asks whether its pushed items are stored
    # it pushes to missing partitions: first checks whether the rest would be refused
    bint dry

# ---- the statement ---------------------------------------------------------------------------------------------------

cdef bint txcall_send(Engine* e) noexcept nogil:
    # Sends a transaction. Returns False if nothing was sent: the job is back in its queue or was refused.
    cdef TxCall* call = <TxCall*>call_open(e, sizeof(TxCall), STMT_TRANSACTION, &e.txs.limit, txcall_done)
    cdef TxJob* j
    cdef int i
    if call == NULL:
        return False
    j = <TxJob*>joblist_take(&e.txs.jobs)
    if not txcall_current(j, &call.dry):
        call_drop(&call.base)
        tx_resolve(e, &j.job)
        return True
    call.job = j
    joblist_add(&call.base.jobs, &j.job)
    call.asks = j.doubt and not call.dry
    call.batch.check_ids = j.check_ids
    arena_open(&call.batch.arena, &e.worker.chunks)
    if not txcall_gather(call, j):
        arena_close(&call.batch.arena)
        call_drop(&call.base)
        return True           # already answered: the transaction contradicts itself
    if call.asks:
        call_asks(&call.base, STMT_PUSHED)
        rows_ask(&call.batch, <PushedArgs*>e.args.at)
    else:
        if j.req.kv.n or j.req.timers.n:
            call_asks(&call.base, STMT_TRANSACTION_BUNDLE)
            txcall_encode_keys(call, &(<TxBundleArgs*>e.args.at).keys)
            for i in range(j.req.timers.n):
                timer_encode(&(<TxBundleArgs*>e.args.at).timers, &j.req.timers.ops[i])
        else:
            call.base.statement = STMT_TRANSACTION_DUE if call.batch.scheduled else STMT_TRANSACTION
        txcall_encode(call, <TxArgs*>e.args.at)
        e.worker.counters.op[OP_TRANSACTION].calls += 1
    return call_send(&call.base)

cdef bint txcall_current(TxJob* j, bint* dry) noexcept nogil:
    # Returns True if the names are still valid. False: a queue was deleted since the look-up, or is encrypted now or
    # spread in another way, or the server changed. Sets dry if the transaction pushes to missing partitions.
    cdef PushItem* it
    cdef int i
    if j.job.incarnation != catalog.incarnation:
        return False
    for i in range(j.req.n):
        it = j.req.ops[i].push
        if j.req.ops[i].kind == TX_PUSH and it.partition == NULL:
            dry[0] = True
        elif j.req.ops[i].kind == TX_PUSH and (it.partition.dead or sealing_needs(it) or spread_stale(it)):
            return False
    return True

cdef bint txcall_gather(TxCall* call, TxJob* j) noexcept nogil:
    # Makes a batch and acknowledgment rows of the operations. Returns False if the job was answered.
    cdef Table seen
    cdef TxOp* op
    cdef int fault = TX_FAULT_NONE
    cdef int i
    call.rows = <AckRow*>arena_alloc(&call.base.arena, (j.req.n + 1) * sizeof(AckRow))
    call.keys = <KvOp**>arena_alloc(&call.base.arena, (j.req.kv.n + 1) * sizeof(void*))
    if call.rows == NULL or call.keys == NULL:
        job_refuse(&j.job, 503, "Out of memory")
        return False
    table_init(&seen)
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind != TX_PUSH and op.ack.partition != NULL:
            fault = txcall_gather_ack(call, &seen, op.ack)
        elif op.kind != TX_PUSH:
            continue              # its partition was removed: it counts as done
        elif op.push.partition != NULL and not tx_push_add(&call.batch, &seen, op.push):
            fault = TX_FAULT_MEMORY
        elif op.push.partition != NULL and op.push.status != ITEM_QUEUED:
            fault = TX_FAULT_DUPLICATE
        if fault:
            break
    table_free(&seen)
    if fault > TX_FAULT_NONE:
        op.fault = fault
        tx_answer(j, i)
    elif fault or not rows_cut(&call.batch):
        job_refuse(&j.job, 503, "Out of memory")
        fault = TX_FAULT_MEMORY
    return fault == TX_FAULT_NONE

cdef int txcall_gather_ack(TxCall* call, Table* seen, AckItem* it) noexcept nogil:
    # Adds an acknowledgment. Returns TX_FAULT_*. An unknown group holds no lease: the database refuses its row.
    cdef int32_t group = it.group.id if it.group != NULL else 0
    cdef uint64_t key = (<uint64_t>1 << 63) | (<uint64_t><uint32_t>it.partition.id << 31) ^ <uint32_t>group
    cdef AckRow* row = <AckRow*>table_get(seen, key)
    if row != NULL and it.has_lease and row.first.has_lease and memcmp(row.first.lease, it.lease, 16) != 0:
        return TX_FAULT_LEASE     # two leases of one (partition, group): at most one can be valid
    if row == NULL:
        row = &call.rows[call.n_rows]
        call.n_rows += 1
        memset(row, 0, sizeof(AckRow))
        row.partition = it.partition
        row.group = it.group
        if not table_put(seen, key, row):
            return TX_FAULT_MEMORY
    if it.has_lease and row.first != NULL and not row.first.has_lease:
        # the row is checked against the only lease that was named
        it.next = row.first
        row.first = it
    else:
        link_append(<void**>&row.first, it)
    row.n += 1
    return TX_FAULT_NONE

cdef void txcall_encode(TxCall* call, TxArgs* a) noexcept nogil:
    cdef TxJob* j = call.job
    cdef int i
    if call.batch.has_other:
        idset_batch_known(&call.batch, &a.known)
    rows_encode(&call.batch, &a.rows, &a.known, NULL, &call.base.engine.pack)
    ack_encode(call.rows, call.n_rows, &a.acks, &a.failures, NULL)
    for i in range(j.req.n_required):
        pgarray_uuid(&a.required, j.req.required + 16 * i)
    for i in range(call.n_rows if j.req.n_required else 0):
        pgarray_int4(&a.part, call.rows[i].partition.id)
        if call.rows[i].group != NULL:
            pgarray_int4(&a.group, call.rows[i].group.id)
        else:
            pgarray_null(&a.group)
    arg_bool(&a.dry, call.dry)

cdef void txcall_encode_keys(TxCall* call, KvArgs* a) noexcept nogil:
    cdef KvReq* q = &call.job.req.kv
    cdef int i
    for i in range(q.n):
        q.ops[i].row = -1
        q.ops[i].rows = 0
        call.keys[i] = &q.ops[i]
    kvargs_waves(&call.base.arena, call.keys, q.n)
    for i in range(q.n):
        kvargs_encode(a, &q.ops[i])
        pgarray_bool(&a.required, q.ops[i].required)

# ---- results ---------------------------------------------------------------------------------------------------------

cdef void txcall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef TxCall* call = <TxCall*>c
    cdef TxJob* j = call.job
    if job_unsent(&j.job, &c.engine.txs.jobs, outcome, b"The transaction is too large"):
        pass
    elif outcome != SLOT_OK and (res == NULL or call.asks):
        if not call.asks:
            ack_uncertain(c.engine, call.rows, call.n_rows)    # the next look finds what it may have stored
        txcall_lost(call)
    elif outcome != SLOT_OK:
        txcall_error(call, res)
    elif call.asks:
        txcall_recovered(call, res)
    elif PQntuples(res) and pg_int4(res, 0, TX_ORD) < 0:
        txcall_stale(c.engine, j)
    elif txcall_learn(call, res):
        job_queue_first(&j.job, &c.engine.txs.jobs)
    else:
        txcall_end(call, txcall_take(call, res))
    arena_close(&call.batch.arena)

cdef bint txcall_learn(TxCall* call, PGresult* res) noexcept nogil:
    # Learns the ids in the answer. Returns True if more ids must be learned first, and nothing was done.
    cdef int row, i
    cdef bint again = False
    uv_mutex_lock(&idsets.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TX_ORD)
        if pg_int2(res, row, TX_KIND) == TX_ROW_PUSH and 0 <= i < call.batch.n_chunks:
            again = again or pg_int2(res, row, TX_STATUS) == TX_ROW_REFUSED
            idset_row_learn(&call.batch.chunks[i], pg_bytes(res, row, TX_SEEN), pg_int8(res, row, TX_BASE),
                            pg_int8(res, row, TX_CREATED_AT), NULL)
    uv_mutex_unlock(&idsets.lock)
    return again

cdef int txcall_take(TxCall* call, PGresult* res) noexcept nogil:
    # Takes the results for the operations and the book. Returns TX_DONE, TX_LEASE, TX_CLEAR, TX_KEYS, TX_TIMERS,
    # TX_UNSEALED, or the first operation at fault.
    cdef int row, i
    cdef bint refused = False
    cdef bint lease = False
    cdef PopJob* wake = NULL
    cdef KvReq* keys = &call.job.req.kv
    cdef TimerReq* timers = &call.job.req.timers
    keys.res = res
    keys.columns = KV_RIDING
    keys.lost.at = -1
    timers.res = res
    timers.columns = TIMER_RIDING
    timers.refused = 0
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TX_ORD)
        if pg_int2(res, row, TX_KIND) == TX_ROW_KEY:
            kvargs_scatter_row(call.keys, keys.n, res, KV_RIDING, row, &keys.lost)
            continue
        if pg_int2(res, row, TX_KIND) == TX_ROW_TIMER:
            txcall_take_timer(timers, i, res, row)
            continue
        if pg_int2(res, row, TX_KIND) == TX_ROW_PUSH and 0 <= i < call.batch.n_chunks:
            refused = txcall_take_push(&call.batch.chunks[i], res, row) or refused
        elif pg_int2(res, row, TX_KIND) == TX_ROW_ACK and 0 <= i < call.n_rows:
            refused = txcall_take_ack(&call.rows[i], pg_bytes(res, row, TX_CODES)) or refused
        elif pg_int2(res, row, TX_KIND) == TX_ROW_LEASE:
            lease = True
    if refused or lease:
        return txcall_fault(&call.job.req)
    if keys.lost.at >= 0:
        if keys.lost.value.p != NULL:         # the answer may be written after the rows are freed
            keys.lost.value = arena_copy(&call.job.job.r.arena, keys.lost.value)
        return TX_KEYS
    if timers.refused:
        return TX_UNSEALED if timers.refused == TIMER_UNSEALED else TX_TIMERS
    if call.dry:
        return TX_CLEAR
    index_lock_all()
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TX_ORD)
        if pg_int2(res, row, TX_KIND) == TX_ROW_PUSH and 0 <= i < call.batch.n_chunks:
            index_stored(call.batch.chunks[i].group.partition, pg_int8(res, row, TX_BASE) + call.batch.chunks[i].n,
                         &wake)
        elif pg_int2(res, row, TX_KIND) == TX_ROW_ACK and 0 <= i < call.n_rows:
            index_acked(call.rows[i].group, call.rows[i].partition, &call.base, pg_bool(res, row, TX_RELEASED),
                        pg_int8_or(res, row, TX_COMMITTED, -1), pg_int8_or(res, row, TX_HEAD, 0), 0, &wake)
    index_unlock_all(call.base.engine.worker, wake)
    return TX_DONE

cdef void txcall_take_timer(TimerReq* q, int i, PGresult* res, int row) noexcept nogil:
    cdef int outcome = pg_int2(res, row, TX_STATUS)
    if outcome >= TIMER_UNSEALED:
        q.refused = outcome
    if 0 <= i < q.n:
        q.ops[i].row = row

cdef bint txcall_take_push(PushChunk* c, PGresult* res, int row) noexcept nogil:
    # Takes the results of one row. Returns True if a record is a duplicate.
    cdef PushItem* it = c.first
    cdef bint refused = False
    cdef int k
    for k in range(c.n):
        it.offset = pg_int8_or(res, row, TX_BASE, 0) + k
        it.created_us = pg_int8_or(res, row, TX_CREATED_AT, 0)
        if pg_int2(res, row, TX_STATUS) == TX_ROW_DUPLICATE and k == pg_int4_or(res, row, TX_DUP_INDEX, 0):
            it.status = ITEM_DUPLICATE
            it.of_deleted = it.created_us < 0
            refused = True
        it = it.next
    return refused

cdef bint txcall_take_ack(AckRow* row, Slice codes) noexcept nogil:
    cdef AckItem* a = row.first
    cdef bint refused = False
    cdef size_t k = 0
    while a != NULL:
        a.code = <uint8_t>codes.p[k] if k < codes.n else ACKED_OK
        refused = refused or a.code & ACKED_REFUSED
        k += 1
        a = a.next
    return refused

cdef int txcall_fault(TxReq* q) noexcept nogil:
    # Returns the first operation at fault; TX_LEASE if none is.
    cdef TxOp* op
    cdef int i
    for i in range(q.n):
        op = &q.ops[i]
        if op.kind == TX_PUSH and op.push.status == ITEM_DUPLICATE:
            op.fault = TX_FAULT_OF_DELETED if op.push.of_deleted else TX_FAULT_DUPLICATE
            return i
        if op.kind == TX_ACK and op.ack.code & ACKED_REFUSED:
            op.fault = (TX_FAULT_LEASE if op.ack.code & ACKED_BAD_LEASE
                        else TX_FAULT_LATE if op.ack.code & ACKED_TOO_LATE else TX_FAULT_NOT_FOUND)
            return i
    return TX_LEASE

cdef void txcall_end(TxCall* call, int fault) noexcept nogil:
    # Ends a transaction, or sends it again. fault: result of txcall_take.
    cdef TxJob* j = call.job
    if fault == TX_CLEAR:
        j.cleared = True
        tx_resolve(call.base.engine, &j.job)
    elif fault == TX_UNSEALED and timer_seal_asked(call.base.engine.worker, j.job.r, &j.req.timers):
        job_queue_first(&j.job, &call.base.engine.txs.jobs)
    elif fault == TX_UNSEALED:
        sealing_refuse(job_end(&j.job))
    elif fault != TX_DONE and j.check_ids and call.batch.n_chunks:
        j.doubt = True        # it may be refused because it was done before
        j.check_ids = False
        j.fault = fault + TX_FAULTS
        job_queue_first(&j.job, &call.base.engine.txs.jobs)
    else:
        tx_answer(j, fault)

cdef void txcall_stale(Engine* e, TxJob* j) noexcept nogil:
    tx_ask_anew(j)
    joblist_add(&e.wait_reload, &j.job)
    catalog_want_reload(e.worker)

# ---- an error, or no answer ------------------------------------------------------------------------------------------

cdef void txcall_lost(TxCall* call) noexcept nogil:
    # Handles a lost answer: asks for the pushed items, which show whether the transaction took effect. If there is no
    # push, only the client can find out.
    cdef TxJob* j = call.job
    cdef Engine* e = call.base.engine
    cdef int64_t now = call.base.ended_us
    if now - j.job.born_us > e.patience_us or (call.batch.n_chunks == 0 and not call.dry):
        job_refuse(&j.job, 503, TX_IN_DOUBT)
        return
    j.doubt = j.doubt or not call.dry
    e.pause_until = now + TROUBLE_PAUSE_US
    job_queue(&j.job, &e.txs.jobs)

cdef void txcall_recovered(TxCall* call, PGresult* res) noexcept nogil:
    # Ends a transaction with a lost answer. If it stored its items, it was done. If it did not, it is sent again and
    # every id is looked up.
    cdef TxJob* j = call.job
    cdef TxOp* op
    cdef int i
    cdef int stored = txcall_stored(j, res)
    if stored == STORED_UNKNOWN:
        job_refuse(&j.job, 503, TX_IN_DOUBT)
        return
    j.doubt = False
    j.req.kv.res = NULL
    j.req.timers.res = NULL
    if stored == STORED_NOT and j.fault:
        tx_answer(j, j.fault - TX_FAULTS)
        return
    if stored == STORED_NOT:
        j.check_ids = True
        tx_resolve(call.base.engine, &j.job)
        return
    tx_push_take(call.base.engine.worker, &call.batch, res)
    for i in range(j.req.n):
        op = &j.req.ops[i]
        op.fault = TX_FAULT_NONE
        if op.kind == TX_ACK and op.ack.partition != NULL:
            op.ack.code = ACKED_OK | (ACKED_DLQ if ACK_FAILED <= op.ack.status <= ACK_DLQ else 0)
    tx_answer(j, TX_DONE)

# An id that the daemon made belongs to this transaction alone. An id of the client may be in the log by an earlier
# push; then the transaction was refused. So if all ids are of the client, records that are older than the request do
# not count. They are older if they were stored 1 s before it. Within that second clocks may differ: a clock was set
# back, or a standby with a slower one took over. Records that another client stores under the same ids while this
# request is served count as stored by the transaction. The strict form, 503 for all ids of clients, would leave each
# client that makes its ids itself without an answer. Transactions with the same id are repeats (docs/transactions.md).

cdef enum TxStored:
    STORED_NOT = 0
    STORED_HERE               # by this transaction
    STORED_UNKNOWN            # perhaps by an earlier push

cdef enum:
    STORED_BEFORE_US = 1000000

cdef int txcall_stored(TxJob* j, PGresult* res) noexcept nogil:
    # Returns STORED_* by the rows of queend.pushed. The database's time of the request is a lower bound (base/clock).
    cdef int64_t begun = clock_db_at(j.job.born_us)
    cdef int64_t stored
    cdef int i
    if PQntuples(res) == 0:
        return STORED_NOT
    for i in range(j.req.n):
        if j.req.ops[i].kind == TX_PUSH and j.req.ops[i].push.id_kind == ID_MADE:
            return STORED_HERE
    stored = pg_int8(res, 0, PUSHED_CREATED_AT)
    if stored >= begun:
        return STORED_HERE
    return STORED_NOT if stored < begun - STORED_BEFORE_US else STORED_UNKNOWN

cdef void txcall_error(TxCall* call, PGresult* res) noexcept nogil:
    # Handles an error of the server: nothing took effect.
    cdef const Verdict* v = sqlstate_of(res)
    cdef TxJob* j = call.job
    cdef Engine* e = call.base.engine
    cdef char[VERDICT_TEXT] text
    if job_may_retry(&j.job, v.error_class, call.base.ended_us):
        e.pause_until = call.base.ended_us + TROUBLE_PAUSE_US
        if v.reload:
            txcall_stale(e, j)
        else:
            job_queue(&j.job, &e.txs.jobs)
        return
    log_line(b"error", b"transaction_refused", pg_error(res))
    if v.error_class == ERROR_DATA:
        job_refuse(&j.job, 500, sqlstate_text(text, b"The transaction was refused", v))
    else:
        job_refuse(&j.job, 503,
                   sqlstate_text(text, b"The transaction could not be taken, nothing of it took effect", v))
