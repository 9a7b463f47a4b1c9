# Transactions: acknowledgments and pushes that take effect together or not at all. One statement per transaction; the
# function validates everything under its locks before it changes anything, so a refusal leaves no trace.

cdef enum:
    TX_FAULTS = 10            # added to what tx_take returns, so that none is 0

cdef const char* TX_IN_DOUBT = b"The database did not answer; whether the transaction took effect is not known"

cdef struct TxCall:
    Engine* engine
    TxJob* job
    PushBatch* batch
    AckRow* rows
    int n_rows
    bint asks                 # it only asks whether what it pushes is stored
    bint dry                  # it pushes to what does not exist yet: first a look whether the rest of it would be refused
    int64_t sent_us
    int64_t forgets           # book.forgets when it was sent

cdef void tx_submit(Worker* w, Request* r) noexcept nogil:
    cdef TxJob* j = <TxJob*>arena_zero(&r.arena, sizeof(TxJob))
    r.op = OP_TRANSACTION
    if j == NULL:
        reply_error(r, 503, "Out of memory")
    else:
        body_take(w, r, j, tx_read_body, tx_taken)

cdef bint tx_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    cdef TxReq* q = &(<TxJob*>job).req
    cdef int i
    if not tx_read(r.headers_raw, r.body, t.unzip, &r.arena, t.uuids, t.settings.max_items, q, &t.error):
        return False
    if r.asks & ASK_TRACE:
        for i in range(q.n):
            if q.ops[i].kind == TX_PUSH:
                pushreq_trace(r.headers_raw, &r.arena, q.ops[i].push, 1)
    return True

cdef void tx_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef TxJob* j = <TxJob*>job
    cdef int i
    if not good:
        reply_error(r, e.status, e.text)
        return
    if r.grant != NULL and not gate_transaction(r, &j.req):
        return
    job_open(&j.job, r, OP_TRANSACTION)
    j.job.bytes += j.req.unpacked
    i = tx_static_fault(j)
    if i >= 0:
        tx_answer(j, i)
        return
    if j.req.n == 0 and j.req.n_required == 0:
        tx_answer(j, -1)
        return
    tx_go(w, j)

cdef int tx_static_fault(TxJob* j) noexcept nogil:
    # The first operation that no database has to judge: unknown type, a status that a transaction does not have.
    cdef int i
    cdef TxOp* op
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_UNKNOWN:
            op.fault = TX_FAULT_TYPE
            return i
        if op.kind == TX_ACK and op.ack.status > 2 and op.ack.status != ACK_UPTO:
            op.fault = TX_FAULT_STATUS
            return i
        if op.kind == TX_ACK and op.ack.lease_bad:
            op.fault = TX_FAULT_LEASE
            return i
    return -1

cdef void tx_go(Worker* w, TxJob* j) noexcept nogil:
    # Names to ids, as for pushes and acks; then it waits for a slot.
    cdef Engine* e = engine_of(w)
    cdef int i
    cdef TxOp* op
    cdef Queue* q
    cdef bint ask = False
    cdef bint missing = False
    cdef bint allowed = True
    uv_rwlock_rdlock(&catalog.lock)
    if j.job.server != catalog_server():
        j.job.server = catalog_server()
        j.job.tries = 0
        j.asked = False
        j.cleared = False
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH:
            q = catalog_queue(op.push.queue)
            op.push.partition = catalog_partition(q, op.push.part) if q != NULL else NULL
            j.limited = j.limited or (q != NULL and q.max_size > 0)
            if op.push.partition == NULL:
                missing = True
        else:
            op.ack.partition_id = 0
            ackitem_find(op.ack, op.ack.group_name, j.asked, &ask)
            allowed = allowed and gate_ack(j.job.r, op.ack)
    uv_rwlock_rdunlock(&catalog.lock)
    if not allowed:
        job_move(&j.job, JOB_DONE)
        gate_refuse_queue(j.job.r)
        return
    if missing and not j.cleared:
        i = tx_repeat(j)
        if i >= 0:
            j.req.ops[i].fault = TX_FAULT_DUPLICATE
            tx_answer(j, i)
            return
        j.cleared = not tx_refusable(j)
    ask = ask or (missing and j.cleared)
    if ask and j.job.tries >= 10:
        job_refuse(&j.job, 503, "The queue is being deleted; try again")
        return
    if ask:
        j.job.tries += 1
        j.asked = j.job.tries >= ACK_ROUNDS
        job_move(&j.job, JOB_RESOLVING)
        joblist_add(&e.resolving, &j.job)
        return
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_ACK and (op.ack.partition == NULL or op.ack.group == NULL):
            op.fault = TX_FAULT_NOT_FOUND
            tx_answer(j, i)
            return
    i = capacity_transaction(j) if j.limited else -1
    if i == -2:
        j.job.tries += 1
        job_move(&j.job, JOB_RESOLVING)
        joblist_add(&e.resolving, &j.job)
        return
    if i >= 0:
        tx_answer(j, i)
        return
    if catalog.n_sealed and not tx_seal(w, j):
        return
    job_move(&j.job, JOB_QUEUED)
    joblist_add(&e.txs, &j.job)

cdef bint tx_refusable(TxJob* j) noexcept nogil:
    # Can what is in the database refuse it? Pushes to what does not exist yet alone it cannot.
    cdef int i
    for i in range(j.req.n):
        if j.req.ops[i].kind != TX_PUSH or j.req.ops[i].push.partition != NULL:
            return True
    return j.req.n_required > 0

cdef int tx_repeat(TxJob* j) noexcept nogil:
    # The first push to what does not exist yet that has the id of an earlier one to the same; -1: none.
    cdef int i
    cdef int found = -1
    cdef Table seen
    cdef PushItem* it
    cdef PushItem* other
    cdef uint64_t key
    table_init(&seen)
    for i in range(j.req.n):
        it = j.req.ops[i].push
        if j.req.ops[i].kind != TX_PUSH or it.partition != NULL or it.id_kind == 0:
            continue
        memcpy(&key, it.id + 8, 8)      # the half of an id that is chance, or of a hash
        key = slice_hash(it.queue, slice_hash(it.part, key))
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
            ackitem_ask(e, op.ack, op.ack.group_name, True)

cdef void txs_drain(Engine* e) noexcept nogil:
    cdef TxJob* j
    while e.txs.n and limit_take(&e.tx_limit):
        j = <TxJob*>joblist_take(&e.txs)
        if not txcall_send(e, j):
            limit_give(&e.tx_limit)
            jobs_expire(e, &e.txs)
            break

cdef bint txcall_send(Engine* e, TxJob* j) noexcept nogil:
    # False: nothing was sent and the job is back in its queue.
    cdef Slot* slot = slotpool_take(e.slots)
    cdef TxCall* call
    cdef Params params
    cdef int i
    cdef bint dry = False
    if slot == NULL:
        joblist_front(&e.txs, &j.job)
        return False
    if j.job.server != catalog_server():
        limit_give(&e.tx_limit)
        tx_go(e.worker, j)
        return True
    for i in range(j.req.n):
        if j.req.ops[i].kind == TX_PUSH and j.req.ops[i].push.partition == NULL:
            dry = True
        elif j.req.ops[i].kind == TX_PUSH and (j.req.ops[i].push.partition.dead or item_bare(j.req.ops[i].push)):
            # the queue was deleted since its names were looked up, or is encrypted now: they are looked up again
            limit_give(&e.tx_limit)
            tx_go(e.worker, j)
            return True
    call = <TxCall*>calloc(1, sizeof(TxCall))
    if call != NULL:
        call.batch = <PushBatch*>calloc(1, sizeof(PushBatch))
    if call == NULL or call.batch == NULL:
        free(call)
        job_refuse(&j.job, 503, "Out of memory")
        return False
    call.engine = e
    call.job = j
    call.dry = dry
    call.asks = j.doubt and not dry
    call.batch.unsure = j.unsure
    arena_open(&call.batch.arena, &e.worker.chunks)
    job_move(&j.job, JOB_FLYING)
    if not tx_gather(e, call, j):
        txcall_free(call)
        limit_give(&e.tx_limit)
        return True               # answered: it contradicts itself
    batch_recall(call.batch, &e.tx_pushes)
    batch_encode(call.batch, &e.tx_pushes)
    if call.asks:
        return txcall_ask(e, slot, call)
    ack_encode(call.rows, call.n_rows, &e.tx_acks)
    pgarray_begin(&e.tx_required, OID_UUID)
    for i in range(j.req.n_required):
        pgarray_uuid(&e.tx_required, j.req.required + 16 * i)
    pgarray_begin(&e.ask_a, OID_INT4)
    pgarray_begin(&e.ask_b, OID_INT4)
    for i in range(call.n_rows if j.req.n_required else 0):
        pgarray_int4(&e.ask_a, call.rows[i].partition.id)
        pgarray_int4(&e.ask_b, call.rows[i].group.id)
    params_begin(&params)
    params_int8(&params, e.version)
    batch_params(&params, &e.tx_pushes)
    params_array(&params, &e.tx_acks.part)
    params_array(&params, &e.tx_acks.grp)
    params_array(&params, &e.tx_acks.lease)
    params_array(&params, &e.tx_acks.n)
    params_array(&params, &e.tx_acks.ids)
    params_array(&params, &e.tx_acks.status)
    params_array(&params, &e.tx_acks.f_row)
    params_array(&params, &e.tx_acks.f_idx)
    params_array(&params, &e.tx_acks.f_error)
    params_array(&params, &e.tx_required)
    params_array(&params, &e.ask_a)
    params_array(&params, &e.ask_b)
    recall_params(&params, &e.tx_pushes)
    params_bool(&params, dry)
    call.sent_us = clock_mono_us()
    call.forgets = atomic_get64(&book.forgets)
    e.worker.counters.op[OP_TRANSACTION].calls += 1
    if slot_send(slot, STMT_TRANSACTION_DUE if call.batch.scheduled else STMT_TRANSACTION, &params, txcall_done, call, e.deadline_ms):
        return True
    txcall_free(call)
    if params.failed:
        job_refuse(&j.job, 413 if params.too_large else 503, "The transaction is too large" if params.too_large else "Out of memory")
        limit_give(&e.tx_limit)
        return True
    job_move(&j.job, JOB_QUEUED)
    joblist_front(&e.txs, &j.job)
    return False

cdef bint txcall_ask(Engine* e, Slot* slot, TxCall* call) noexcept nogil:
    cdef Params params
    cdef TxJob* j = call.job
    pushed_params(&params, &e.tx_pushes)
    call.sent_us = clock_mono_us()
    call.forgets = atomic_get64(&book.forgets)
    if slot_send(slot, STMT_PUSHED, &params, txcall_done, call, e.deadline_ms):
        return True
    txcall_free(call)
    job_move(&j.job, JOB_QUEUED)
    joblist_front(&e.txs, &j.job)
    return False

cdef void pushed_params(Params* params, PushArrays* a) noexcept nogil:
    params_begin(params)
    params_array(params, &a.lanes)
    params_array(params, &a.part)
    params_array(params, &a.n)
    params_array(params, &a.ids)

cdef bint tx_gather(Engine* e, TxCall* call, TxJob* j) noexcept nogil:
    # Operations become record batches and ack rows. False: the job was answered.
    cdef int i
    cdef TxOp* op
    cdef Table groups
    cdef PushGroup* g
    cdef Partition* p
    cdef AckRow* row
    cdef AckItem* it
    cdef uint64_t key
    table_init(&groups)
    call.rows = <AckRow*>arena_alloc(&call.batch.arena, (j.req.n + 1) * sizeof(AckRow))
    if call.rows == NULL:
        job_refuse(&j.job, 503, "Out of memory")
        return False
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH and op.push.partition == NULL:
            continue
        if op.kind == TX_PUSH:
            p = op.push.partition
            g = <PushGroup*>table_get(&groups, <uint32_t>p.id)
            if g == NULL:
                g = batch_group(call.batch, p)
                if g == NULL or not table_put(&groups, <uint32_t>p.id, g):
                    table_free(&groups)
                    job_refuse(&j.job, 503, "Out of memory")
                    return False
            op.push.status = 0
            batch_place(call.batch, g, op.push)
            if op.push.status:
                op.fault = TX_FAULT_DUPLICATE
                table_free(&groups)
                tx_answer(j, i)
                return False
            continue
        it = op.ack
        key = (<uint64_t>1 << 63) | (<uint64_t><uint32_t>it.partition.id << 31) ^ <uint32_t>it.group.id
        row = <AckRow*>table_get(&groups, key)
        if row != NULL and it.has_lease and row.first.has_lease and memcmp(row.first.lease, it.lease, 16) != 0:
            # two leases of one (partition, group): at most one can be live
            op.fault = TX_FAULT_LEASE
            table_free(&groups)
            tx_answer(j, i)
            return False
        if row == NULL:
            row = &call.rows[call.n_rows]
            call.n_rows += 1
            memset(row, 0, sizeof(AckRow))
            row.partition = it.partition
            row.group = it.group
            if not table_put(&groups, key, row):
                table_free(&groups)
                job_refuse(&j.job, 503, "Out of memory")
                return False
        it.next = NULL
        if it.has_lease and row.first != NULL and not row.first.has_lease:
            # the row is checked against the one lease that was named
            it.next = row.first
            row.first = it
        elif row.last != NULL:
            row.last.next = it
            row.last = it
        if row.first == NULL:
            row.first = it
            row.last = it
        row.n += 1
    table_free(&groups)
    if not batch_chunks(call.batch):
        job_refuse(&j.job, 503, "Out of memory")
        return False
    return True

cdef void txcall_free(TxCall* call) noexcept nogil:
    batch_free(call.batch)
    free(call)

cdef void txcall_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef TxCall* call = <TxCall*>ctx
    cdef Engine* e = call.engine
    cdef TxJob* j = call.job
    cdef int64_t now = clock_mono_us()
    cdef int fault
    limit_done(&e.tx_limit, now, now - call.sent_us, outcome == SLOT_OK)
    if outcome != SLOT_OK:
        if res == NULL or call.asks:
            if not call.asks:
                tx_lost(call)
            tx_doubt(e, call, now)
        else:
            tx_error(e, j, res, now)
        txcall_free(call)
        return
    if call.asks:
        tx_told(e, call, res)
        return
    if PQntuples(res) and pg_int4(res, 0, TX_ORD) < 0:
        j.asked = False
        job_move(&j.job, JOB_RESOLVING)
        joblist_add(&e.wait_reload, &j.job)
        engine_reload(e.worker)
        txcall_free(call)
        return
    if tx_learn(call, res):
        job_move(&j.job, JOB_QUEUED)
        joblist_front(&e.txs, &j.job)
        txcall_free(call)
        return
    fault = tx_take(call, res, now)
    if fault != -1 and fault != -3 and j.unsure and call.batch.n_chunks:
        j.doubt = True        # refused because it was done after all?
        j.unsure = False
        job_move(&j.job, JOB_QUEUED)
        joblist_front(&e.txs, &j.job)
        j.fault = fault + TX_FAULTS
        txcall_free(call)
        return
    txcall_free(call)
    if fault == -3:
        j.cleared = True
        tx_go(e.worker, j)
        return
    tx_answer(j, fault)

cdef void tx_doubt(Engine* e, TxCall* call, int64_t now) noexcept nogil:
    # No answer. What was pushed tells whether it took effect, and it is asked for that; without a push only its client can know.
    cdef TxJob* j = call.job
    if now - j.job.born_us > e.patience_us or (call.batch.n_chunks == 0 and not call.dry):
        job_refuse(&j.job, 503, TX_IN_DOUBT)
        return
    j.doubt = j.doubt or not call.dry
    e.pause_until = now + TROUBLE_PAUSE_US
    job_move(&j.job, JOB_QUEUED)
    joblist_add(&e.txs, &j.job)

cdef void tx_told(Engine* e, TxCall* call, PGresult* res) noexcept nogil:
    # All of it is stored: it was done. Nothing is: it was not, and is sent again with every id looked for.
    cdef TxJob* j = call.job
    cdef PushChunk* c
    cdef PushItem* it
    cdef PopJob* wake = NULL
    cdef int row, i, k
    cdef int n = PQntuples(res)
    j.doubt = False
    if n == 0 and j.fault:
        txcall_free(call)
        tx_answer(j, j.fault - TX_FAULTS)
        return
    if n == 0:
        j.unsure = True
        txcall_free(call)
        tx_go(e.worker, j)
        return
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for row in range(n):
        i = pg_int4(res, row, PUSHED_ORD)
        if i < 0 or i >= call.batch.n_chunks:
            continue
        c = &call.batch.chunks[i]
        it = c.first
        for k in range(c.n):
            it.status = 0
            it.offset = pg_int8(res, row, PUSHED_BASE) + k
            it.created_us = pg_int8(res, row, PUSHED_CREATED_AT)
            it = it.next
        book_stored(c.group.partition, pg_int8(res, row, PUSHED_BASE) + c.n, &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(e.worker, wake)
    for i in range(j.req.n):
        j.req.ops[i].fault = 0
        if j.req.ops[i].kind == TX_ACK:
            j.req.ops[i].ack.code = ACKED_OK | (ACKED_DLQ if 1 <= j.req.ops[i].ack.status <= 2 else 0)
    txcall_free(call)
    tx_answer(j, -1)

cdef void tx_lost(TxCall* call) noexcept nogil:
    # No answer: whether these leases have ended is not known. What it may have stored is found by the next look.
    cdef int i
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    for i in range(call.n_rows):
        if call.rows[i].group != NULL:
            book_unsure(call.rows[i].group, call.rows[i].partition, &wake)
    uv_mutex_unlock(&book.lock)
    popjobs_wake(call.engine.worker, wake)

cdef void tx_error(Engine* e, TxJob* j, PGresult* res, int64_t now) noexcept nogil:
    # The server said why, and that nothing took effect.
    cdef const Verdict* v = verdict_of(res)
    if job_again(&j.job, v.blame, now):
        e.pause_until = now + TROUBLE_PAUSE_US
        if v.reload:
            j.asked = False
            job_move(&j.job, JOB_RESOLVING)
            joblist_add(&e.wait_reload, &j.job)
            engine_reload(e.worker)
            return
        job_move(&j.job, JOB_QUEUED)
        joblist_add(&e.txs, &j.job)
        return
    log_line(b"error", b"transaction_refused", pg_error(res))
    if v.blame == BLAME_DATA:
        job_refuse(&j.job, 500, "The database refused the transaction")
    else:
        job_refuse(&j.job, 503, "The database could not take the transaction, and nothing of it took effect; try again")

cdef bint tx_learn(TxCall* call, PGresult* res) noexcept nogil:
    # What the answer says of ids this daemon remembers. True: there is more to learn first, and nothing was done.
    cdef int row, i
    cdef bint again = False
    uv_mutex_lock(&recalls.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TX_ORD)
        if pg_int2(res, row, TX_KIND) == 0 and 0 <= i < call.batch.n_chunks:
            again = again or pg_int2(res, row, TX_STATUS) == 3
            chunk_learn(&call.batch.chunks[i], pg_bytes(res, row, TX_SEEN), pg_int8(res, row, TX_BASE), pg_int8(res, row, TX_CREATED_AT), NULL)
    uv_mutex_unlock(&recalls.lock)
    return again

cdef int tx_take(TxCall* call, PGresult* res, int64_t now) noexcept nogil:
    # Results to the operations. Returns the first operation at fault, or -1 when everything was done. -2: a required
    # lease is not live. -3: it was only looked at, and nothing stands against it.
    cdef TxJob* j = call.job
    cdef int row, i, k
    cdef PushChunk* c
    cdef PushItem* it
    cdef AckItem* a
    cdef Slice codes
    cdef bint refused = False
    cdef bint lease = False
    cdef PopJob* wake = NULL
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TX_ORD)
        if pg_int2(res, row, TX_KIND) == 0 and 0 <= i < call.batch.n_chunks:
            c = &call.batch.chunks[i]
            it = c.first
            for k in range(c.n):
                it.offset = pg_int8_or(res, row, TX_BASE, 0) + k
                it.created_us = pg_int8_or(res, row, TX_CREATED_AT, 0)
                if pg_int2(res, row, TX_STATUS) == 1 and k == pg_int4_or(res, row, TX_DUP_INDEX, 0):
                    it.status = 1
                    refused = True
                it = it.next
        elif pg_int2(res, row, TX_KIND) == 1 and 0 <= i < call.n_rows:
            codes = pg_bytes(res, row, TX_CODES)
            a = call.rows[i].first
            k = 0
            while a != NULL:
                a.code = <uint8_t>codes.p[k] if <size_t>k < codes.n else ACKED_OK
                if a.code & (ACKED_NOT_FOUND | ACKED_BAD_LEASE):
                    refused = True
                k += 1
                a = a.next
        elif pg_int2(res, row, TX_KIND) == 2:
            lease = True
    if refused or lease:
        for i in range(j.req.n):
            if j.req.ops[i].kind == TX_PUSH and j.req.ops[i].push.status == 1:
                j.req.ops[i].fault = TX_FAULT_DUPLICATE
                return i
            if j.req.ops[i].kind == TX_ACK and j.req.ops[i].ack.code & ACKED_BAD_LEASE:
                j.req.ops[i].fault = TX_FAULT_LEASE
                return i
            if j.req.ops[i].kind == TX_ACK and j.req.ops[i].ack.code & ACKED_NOT_FOUND:
                j.req.ops[i].fault = TX_FAULT_NOT_FOUND
                return i
        return -2
    if call.dry:
        return -3
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TX_ORD)
        if pg_int2(res, row, TX_KIND) == 0 and 0 <= i < call.batch.n_chunks:
            c = &call.batch.chunks[i]
            book_stored(c.group.partition, pg_int8(res, row, TX_BASE) + c.n, &wake)
        elif pg_int2(res, row, TX_KIND) == 1 and 0 <= i < call.n_rows:
            book_acked(call.rows[i].group, call.rows[i].partition, call.forgets, pg_bool(res, row, TX_RELEASED),
                       pg_int8_or(res, row, TX_COMMITTED, -1), pg_int8_or(res, row, TX_HEAD, 0), 0, now, &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(call.engine.worker, wake)
    return -1

cdef void tx_answer(TxJob* j, int fault) noexcept nogil:
    # fault: index of the operation that failed, -1 done, -2 a required lease is not live.
    cdef Request* r = j.job.r
    cdef TxOp* op
    cdef Buf* out
    cdef int i
    if fault == -1 and j.limited:
        capacity_transacted(j)
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH and op.push.partition != NULL:
            op.push.partition_uuid = op.push.partition.uuid
            message_id_make(op.push.created_us, op.push.partition.id, op.push.offset, op.push.message_id)
        if op.kind == TX_ACK and op.ack.code & ACKED_DLQ:
            r.worker.counters.dead_lettered += 1
    job_move(&j.job, JOB_NEW + 1 if j.job.state == JOB_NEW else j.job.state)
    job_move(&j.job, JOB_DONE)
    r.job = NULL
    r.worker.counters.op[OP_TRANSACTION].items += j.req.n
    if fault == -1:
        tally_transaction(&j.req, r.worker)
    out = reply_begin(r, 200, JSON_TYPE)
    tx_reply(out, &j.req, fault)
    reply_end(r)

cdef bint tx_barred(Round* r, Job* job) noexcept nogil:
    cdef TxJob* j = <TxJob*>job
    cdef TxOp* op
    cdef int i
    for i in range(j.req.n):
        op = &j.req.ops[i]
        if op.kind == TX_PUSH and op.push.partition == NULL and refused_is(r, job, False, op.push.queue, op.push.part):
            return True
        if (op.kind == TX_ACK and op.ack.partition != NULL and op.ack.group == NULL
                and refused_is(r, job, True, op.ack.partition.queue.name, op.ack.group_name)):
            return True
    return False

cdef void tx_retry(Engine* e, Job* job) noexcept nogil:
    tx_go(e.worker, <TxJob*>job)

cdef void tx_refuse(Job* job, int status, const char* text) noexcept nogil:
    # One whose answer was lost may have taken effect, whatever happened since.
    if (<TxJob*>job).doubt:
        job_refuse(job, 503, TX_IN_DOUBT)
    else:
        job_refuse(job, status, text)
