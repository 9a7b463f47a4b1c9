# Statements of acknowledgments. In: many requests, with one row per (partition, group, lease) of a request. Out: the
# results of their items.
# A (partition, group) occurs once in all calls in flight. Further rows for it wait for the end of that call. So the
# rules are applied one request at a time, and no call waits in PostgreSQL for a cursor of another call. Requests for
# other cursors go first meanwhile.

cdef CallTexts ACK_TEXTS
ACK_TEXTS.event = b"ack_refused"
ACK_TEXTS.unknown = ACK_UNKNOWN
ACK_TEXTS.refused = b"The acknowledgments were refused"
ACK_TEXTS.put_off = b"The acknowledgments could not be taken"

cdef struct AckCall:
    Call base
    AckRow* rows
    int n_rows

cdef void acks_drain(Engine* e) noexcept nogil:
    jobs_expire(e, &e.acks.jobs)
    while hold_fires(e, &e.acks) and ackcall_send(e):
        pass

cdef bint ackjob_waits(Engine* e, AckJob* j) noexcept nogil:
    # Returns True if the cursor of the job's first pending item is in a call that is in flight or being written.
    cdef AckItem* it
    cdef int i
    for i in range(j.req.n):
        it = &j.req.items[i]
        if not it.done:
            return it.group != NULL and table_get(&e.ack_rows, pair_key(it.partition.id, it.group.id)) != NULL
    return False

cdef bint ackcall_send(Engine* e) noexcept nogil:
    cdef AckCall* call = <AckCall*>call_open(e, sizeof(AckCall), STMT_ACK, &e.acks.limit, ackcall_done)
    cdef AckArgs* a = <AckArgs*>e.args.at
    cdef AckJob* j
    cdef JobList later
    cdef int n = 0
    cdef int jobs = 0
    cdef int looks = 0
    cdef int before
    cdef bint alone = False
    if call == NULL:
        return False
    memset(&later, 0, sizeof(later))
    ackjobs_renew(e, &e.acks.jobs)
    j = <AckJob*>e.acks.jobs.first
    while j != NULL and n < CALL_ACKS and jobs < e.acks.hold.max_jobs and looks < CALL_LOOKS:
        if not ackjob_waits(e, j):
            n += j.pending
            jobs += 1
        looks += 1
        j = <AckJob*>j.job.next
    call.rows = <AckRow*>arena_alloc(&call.base.arena, n * sizeof(AckRow)) if n else NULL
    while call.rows != NULL and looks and not alone:
        looks -= 1
        j = <AckJob*>e.acks.jobs.first
        if ackjob_waits(e, j):
            joblist_add(&later, joblist_take(&e.acks.jobs))
            continue
        if j.job.alone and call.base.jobs.n:
            break
        alone = j.job.alone
        joblist_take(&e.acks.jobs)
        before = call.n_rows
        ack_rows_add(call, &e.ack_rows, j)
        if call.n_rows == before:
            joblist_add(&later, &j.job)      # out of memory
            continue
        joblist_add(&call.base.jobs, &j.job)
    jobs_queue_first(&later, &e.acks.jobs)
    if call.n_rows == 0:
        call_drop(&call.base)
        return False
    ack_encode(call.rows, call.n_rows, &a.acks, &a.failures, a)
    e.worker.counters.op[OP_ACK].calls += 1
    return call_send(&call.base)

cdef void ack_rows_add(AckCall* call, Table* taken, AckJob* j) noexcept nogil:
    # Makes rows of the job's pending items. taken: rows of all calls in flight, and of this one. An item stays pending
    # if its (partition, group) is in another row, with another lease or for another job.
    cdef int i
    cdef AckItem* it
    cdef AckRow* row
    cdef uint64_t key
    for i in range(j.req.n):
        it = &j.req.items[i]
        if it.done:
            continue
        row = NULL
        key = 0
        if it.group != NULL:
            key = pair_key(it.partition.id, it.group.id)
            row = <AckRow*>table_get(taken, key)
            if row != NULL and (row.job is not j or row.first.window or it.window or row.first.has_lease != it.has_lease
                                or (it.has_lease and memcmp(row.first.lease, it.lease, 16) != 0)):
                continue
        if row == NULL:
            row = &call.rows[call.n_rows]
            call.n_rows += 1
            row.job = j
            row.partition = it.partition
            row.group = it.group
            row.first = NULL
            row.last = NULL
            row.n = 0
            if key and not table_put(taken, key, row):
                call.n_rows -= 1
                continue      # waits for the next call
        it.next = NULL
        if row.last != NULL:
            row.last.next = it
        else:
            row.first = it
        row.last = it
        row.n += 1

cdef void ack_encode(AckRow* rows, int n, AckedArgs* a, FailureArgs* f, AckArgs* options) noexcept nogil:
    # Writes the rows as parameters. options: also writes the queues' retry options; NULL: without them.
    cdef int i, k
    cdef AckRow* row
    cdef AckItem* it
    cdef char* ids
    cdef char* status
    for i in range(n):
        row = &rows[i]
        pgarray_int4(&a.part, row.partition.id)
        if row.group != NULL:
            pgarray_int4(&a.grp, row.group.id)
        else:
            pgarray_null(&a.grp)
        if row.first.has_lease:
            pgarray_uuid(&a.lease, row.first.lease)
        else:
            pgarray_null(&a.lease)
        pgarray_int4(&a.n, row.n)
        if options != NULL:
            ack_encode_retry(row, options)
        ids = pgarray_reserve(&a.ids, 16 * <size_t>row.n)
        status = pgarray_reserve(&a.status, row.n)
        if ids == NULL or status == NULL:
            continue          # the array is marked failed: the statement is not sent
        it = row.first
        k = 0
        while it != NULL:
            memcpy(ids + 16 * k, it.id, 16)
            status[k] = <char>(it.status + ACK_WINDOW if it.window else it.status)
            if it.error.n and (it.status == ACK_FAILED or it.status == ACK_DLQ):
                pgarray_int4(&f.row, i)
                pgarray_int4(&f.idx, k)
                pgarray_bytes(&f.error, it.error.p, it.error.n)
            k += 1
            it = it.next

cdef void ack_encode_retry(AckRow* row, AckArgs* a) noexcept nogil:
    cdef AckItem* it = row.first
    cdef int64_t delay = ACK_DELAY_OF_QUEUE
    pgarray_int4(&a.retry_limit, row.partition.queue.retry_limit)
    while it != NULL:         # the longest delay that the returned messages ask for
        if (it.status == ACK_FAILED or it.status == ACK_RETRY) and it.delay_us > delay:
            delay = it.delay_us
        it = it.next
    if delay != ACK_DELAY_OF_QUEUE:
        pgarray_int8(&a.retry_delay_us, delay)
    else:
        pgarray_null(&a.retry_delay_us)

cdef void rows_unsure(Engine* e, AckRow* rows, int n) noexcept nogil:
    # Marks the leases of these rows as uncertain: without an answer they may have ended or not.
    cdef int i
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    for i in range(n):
        if rows[i].group != NULL:
            book_unsure(rows[i].group, rows[i].partition, &wake)
    uv_mutex_unlock(&book.lock)
    popjobs_wake(e.worker, wake)

cdef void ackcall_leaves(AckCall* call) noexcept nogil:
    # Lets requests that waited for the cursors of the call go.
    cdef AckRow* row
    cdef int i
    for i in range(call.n_rows):
        row = &call.rows[i]
        if row.group != NULL:
            table_del(&call.base.engine.ack_rows, pair_key(row.partition.id, row.group.id))

cdef void ackcall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef AckCall* call = <AckCall*>c
    cdef Engine* e = c.engine
    cdef AckJob* j
    ackcall_leaves(call)
    if outcome != SLOT_OK and outcome < SLOT_UNSENT and res == NULL:
        rows_unsure(e, call.rows, call.n_rows)
    if jobs_back(c, res, outcome, &e.acks.jobs, &ACK_TEXTS):
        return
    if PQntuples(res) and pg_int4(res, 0, ACK_ORD) < 0:
        while c.jobs.first != NULL:
            j = <AckJob*>joblist_take(&c.jobs)
            j.asked = 0
            joblist_add(&e.wait_reload, &j.job)
        engine_reload(e.worker)
        return
    ackcall_take(call, res)
    while c.jobs.first != NULL:
        j = <AckJob*>joblist_take(&c.jobs)
        if j.pending <= 0:
            ack_answer(j)
        else:
            job_queue_first(&j.job, &e.acks.jobs)

cdef void ackcall_take(AckCall* call, PGresult* res) noexcept nogil:
    cdef int row, i, k
    cdef AckRow* a
    cdef AckItem* it
    cdef Slice codes
    cdef bint any_
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, ACK_ORD)
        if i < 0 or i >= call.n_rows:
            continue
        a = &call.rows[i]
        codes = pg_bytes(res, row, ACK_CODES)
        it = a.first
        k = 0
        any_ = False
        while it != NULL:
            it.done = True
            if it.window:
                ackitem_window_take(it, codes, pg_bool(res, row, ACK_RELEASED))
            else:
                it.code = <uint8_t>codes.p[k] if <size_t>k < codes.n else ACKED_OK
            any_ = any_ or it.code & ACKED_OK
            if it.code & ACKED_DLQ:
                call.base.engine.worker.counters.dead_lettered += <uint64_t>ackitem_count(it)
            a.job.pending -= 1
            k += 1
            it = it.next
        if a.group != NULL and pg_int2(res, row, ACK_STATUS) == ACK_ROW_DONE:
            book_acked(a.group, a.partition, call.base.forgets, pg_bool(res, row, ACK_RELEASED),
                       pg_int8_or(res, row, ACK_COMMITTED, -1), pg_int8_or(res, row, ACK_HEAD, 0),
                       pg_int8_or(res, row, ACK_RETRY_UNTIL, 0), call.base.ended_us, &wake)
            if any_:          # the remaining records may have gaps
                unacked_over(pair_key(a.partition.id, a.group.id))
    uv_mutex_unlock(&book.lock)
    popjobs_wake(call.base.engine.worker, wake)

cdef void ackitem_window_take(AckItem* it, Slice codes, bint released) noexcept nogil:
    # Sets the result of a window from its codes: all messages of a window have the same result.
    cdef size_t i
    it.code = ACKED_RELEASED if released else ACKED_NOT
    for i in range(codes.n):
        it.code |= <uint8_t>codes.p[i]
    it.window_n = <int>codes.n if it.code & ACKED_OK else 0
