# Acknowledgments. In: a request; rows of queend.ack. Out: its answer, once all of its items have a result; the changes
# in the book. Names become ids; then the request takes the short way without a look into the log (settle/leasedack), or
# the full way. There a statement serves many requests, with one row per (partition, group, lease) of a request. Owner:
# the request's worker. Locks: catalog.lock while names are looked up; book.lock.

cdef const char* ACK_UNKNOWN = "The database did not answer; whether the acknowledgments took effect is not known"

cdef JobKind ACK_JOB
ACK_JOB.op = OP_ACK
ACK_JOB.ask = ack_ask
ACK_JOB.retry = ack_resolve
ACK_JOB.refuse = job_refuse
ACK_JOB.reloads = True

cdef CallTexts ACK_TEXTS
ACK_TEXTS.event = b"ack_refused"
ACK_TEXTS.unknown = ACK_UNKNOWN
ACK_TEXTS.refused = b"The acknowledgments were refused"
ACK_TEXTS.put_off = b"The acknowledgments could not be taken"

cdef struct AckCall:
    Call base
    AckRow* rows
    int n_rows
    int n_records

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void ack_submit(Worker* w, Request* r, int route) noexcept nogil:
    r.op = OP_ACK
    offload_job(w, r, sizeof(AckJob), ack_read_body if route == ROUTE_ACK else ack_read_batch, ack_taken)

cdef bint ack_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    return ackbody_parse(r.body, True, t, &(<AckJob*>job).req)

cdef bint ack_read_batch(Request* r, void* job, Tools* t) noexcept nogil:
    return ackbody_parse(r.body, False, t, &(<AckJob*>job).req)

cdef void ack_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef AckJob* j = <AckJob*>job
    if not good:
        reply_error(r, e.status, e.text)
        return
    if j.req.n == 0:
        reply_simple(r, b"[]")
        return
    job_open(&j.job, r, &ACK_JOB, r.body.n)
    ack_resolve(engine_of(w), &j.job)

# ---- names -----------------------------------------------------------------------------------------------------------

cdef void ack_resolve(Engine* e, Job* job) noexcept nogil:
    # Resolves names to ids; then the job waits for its statement, or is answered.
    cdef AckJob* j = <AckJob*>job
    cdef bint ask = False
    cdef AckItem* lacks = NULL
    cdef int i
    cdef AckItem* it
    uv_rwlock_rdlock(&catalog.lock)
    if j.job.incarnation != catalog.incarnation:
        j.job.incarnation = catalog.incarnation
        ack_ask_anew(j)
    j.version = catalog.version
    for i in range(j.req.n):
        it = &j.req.items[i]
        if i and ack_same_partition(it, it - 1):
            it.partition_id = (it - 1).partition_id
            it.partition = (it - 1).partition
            it.group = (it - 1).group
            continue
        ack_find_item(it, j.req.group, &ask)
        if lacks == NULL and j.job.r.grant != NULL and not gate_ack(j.job.r, it, j.req.group):
            lacks = it
    uv_rwlock_rdunlock(&catalog.lock)
    if lacks != NULL:
        gate_refuse(job_end(&j.job), b"pop", lacks.partition.queue.name, j.req.group)
        return
    if ask:
        job_resolve(&j.job, "The partitions could not be looked up; try again")
        return
    j.pending = 0
    for i in range(j.req.n):
        it = &j.req.items[i]
        it.done = it.partition == NULL or it.status == ACK_OTHER or it.lease_bad
        if not it.done:
            j.pending += 1
        elif ack_item_removed(it) and it.status != ACK_OTHER and not it.lease_bad:
            it.code = ACKED_OK | ACKED_NOOP
        else:                 # an unknown status is refused by itself, without a text
            it.code = (ACKED_NOT_FOUND if it.partition == NULL
                       else ACKED_NOT if it.status == ACK_OTHER else ACKED_BAD_LEASE)
    if j.pending:
        job_queue(&j.job, &e.leased if leasedack_qualify(j) else &e.acks.jobs)
    else:
        ack_answer(j)

cdef inline bint ack_same_partition(const AckItem* it, const AckItem* before) noexcept nogil:
    # Returns True if two items name the same partition.
    return (it.partition_number == before.partition_number
            and memcmp(it.partition_uuid, before.partition_uuid, 16) == 0)

cdef void ack_ask_anew(AckJob* j) noexcept nogil:
    # Lets all items be looked up again.
    cdef int i
    j.job.tries = 0
    for i in range(j.req.n):
        j.req.items[i].asked = 0

cdef void ack_find_item(AckItem* it, Slice group, bint* ask) noexcept nogil:
    # Finds partition and group of one item. Sets `ask` if one is unknown and fewer than ACK_ROUNDS look-ups named it.
    # An unknown partition or group stays NULL. Requires catalog.lock.
    cdef int32_t id = 0
    if it.partition_id == ACK_PARTITION_UNREAD:
        if it.partition_number > 0 and it.partition_number < 0x7fffffff:
            id = <int32_t>it.partition_number
        elif not uuid_partition_read(catalog.seed, it.partition_uuid, &id):
            id = ACK_PARTITION_NONE
        it.partition_id = id
    it.partition = NULL
    it.group = NULL
    if it.partition_id == ACK_PARTITION_NONE:
        return
    it.partition = catalog_ids(it.partition_id, group, &it.group)
    if it.group == NULL and it.asked < ACK_ROUNDS:
        ask[0] = True

cdef inline bint ack_item_removed(AckItem* it) noexcept nogil:
    # Returns True if the partition was removed: its id was given by this database and names no partition now. The
    # message was deleted with the partition, which counts as done. A number (of a framed pop) does not identify the
    # database.
    return it.partition == NULL and it.partition_id > 0 and it.partition_number == 0

cdef void ack_ask(Engine* e, Job* job) noexcept nogil:
    cdef AckJob* j = <AckJob*>job
    cdef int i
    for i in range(j.req.n):
        if i == 0 or not ack_same_partition(&j.req.items[i], &j.req.items[i - 1]):
            ack_ask_item(e, &j.req.items[i], j.req.group)

cdef void ack_ask_item(Engine* e, AckItem* it, Slice group) noexcept nogil:
    # Asks for the partition or group of an item. Counts it if the round names it: a round has no room for all items of
    # a large request.
    cdef Group* g
    cdef Partition* p
    cdef bint asked = False
    if it.partition_id <= 0 or it.asked >= ACK_ROUNDS or e.round.room == 0:
        return
    p = catalog_ids(it.partition_id, group, &g)
    if p == NULL:
        asked = ask_names(e, ASK_NAMES, group, group, it.partition_id)
    elif g == NULL:
        asked = ask_names(e, ASK_GROUPS, p.queue.name, group, p.queue.id)
    it.asked += asked

# ---- the statement ---------------------------------------------------------------------------------------------------
# A (partition, group) occurs once in all calls in flight; further rows for it wait for the end of that call. So the
# rules are applied one request at a time, and no call waits in PostgreSQL for a cursor of another call. Requests for
# other cursors go first meanwhile.

cdef bint ack_send(Engine* e) noexcept nogil:
    cdef AckCall* call = NULL
    cdef AckArgs* a = <AckArgs*>e.args.at
    cdef int room = CALL_ACKS - e.acks_in_flight
    cdef AckJob* j
    cdef JobList later
    cdef int n = 0
    cdef int jobs = 0
    cdef int looks = 0
    cdef int before
    cdef bint isolated = False
    if room > 0:
        call = <AckCall*>call_open(e, sizeof(AckCall), STMT_ACK, &e.acks.limit, ack_call_done)
    if call == NULL:
        return False
    memset(&later, 0, sizeof(later))
    leasedack_renew(e, &e.acks.jobs)
    j = <AckJob*>e.acks.jobs.first
    while j != NULL and n < room and jobs < e.acks.linger.max_jobs and looks < CALL_LOOKS:
        if not ack_waits(e, j):
            n += j.pending
            jobs += 1
        looks += 1
        j = <AckJob*>j.job.next
    call.rows = <AckRow*>arena_alloc(&call.base.arena, n * sizeof(AckRow)) if n else NULL
    while call.rows != NULL and looks and not isolated:
        looks -= 1
        j = <AckJob*>e.acks.jobs.first
        if ack_waits(e, j):
            joblist_add(&later, joblist_take(&e.acks.jobs))
            continue
        if j.job.isolated and call.base.jobs.n:
            break
        isolated = j.job.isolated
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
    call.n_records = n
    e.acks_in_flight += n
    e.worker.counters.op[OP_ACK].calls += 1
    return call_send(&call.base)

cdef bint ack_waits(Engine* e, AckJob* j) noexcept nogil:
    # Returns True if the cursor of the job's first pending item is in a call that is in flight or being written.
    cdef AckItem* it
    cdef int i
    for i in range(j.req.n):
        it = &j.req.items[i]
        if not it.done:
            return it.group != NULL and table_get(&e.ack_rows, table_pair(it.partition.id, it.group.id)) != NULL
    return False

cdef void ack_rows_add(AckCall* call, Table* taken, AckJob* j) noexcept nogil:
    # Makes rows of the job's pending items. taken: rows of all calls in flight, and of this one. An item stays pending
    # if its (partition, group) is in another row, with another lease or for another job. An unknown group has no cursor
    # that could be in two rows; its items share a row while they follow each other.
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
            key = table_pair(it.partition.id, it.group.id)
            row = <AckRow*>table_get(taken, key)
            if row != NULL and not ack_row_takes(row, j, it):
                continue
        elif call.n_rows and ack_row_takes(&call.rows[call.n_rows - 1], j, it):
            row = &call.rows[call.n_rows - 1]
        if row == NULL:
            row = &call.rows[call.n_rows]
            call.n_rows += 1
            memset(row, 0, sizeof(AckRow))
            row.job = j
            row.partition = it.partition
            row.group = it.group
            if key and not table_put(taken, key, row):
                call.n_rows -= 1
                continue      # waits for the next call
        link_append(<void**>&row.first, it)
        row.n += 1

cdef inline bint ack_row_takes(AckRow* row, AckJob* j, AckItem* it) noexcept nogil:
    # Returns True if an item may be in a row: it is of the same request, cursor and lease.
    return (row.job is j and row.partition is it.partition and row.group is it.group
            and not row.first.window and not it.window and row.first.has_lease == it.has_lease
            and (not it.has_lease or memcmp(row.first.lease, it.lease, 16) == 0))

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
        pgarray_uuid(&a.lease, &row.first.lease[0] if row.first.has_lease else NULL)
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

# ---- results ---------------------------------------------------------------------------------------------------------

cdef void ack_call_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef AckCall* call = <AckCall*>c
    cdef Engine* e = c.engine
    cdef AckJob* j
    cdef int i
    e.acks_in_flight -= call.n_records
    for i in range(call.n_rows):          # requests that wait for these cursors go on
        if call.rows[i].group != NULL:
            table_del(&e.ack_rows, table_pair(call.rows[i].partition.id, call.rows[i].group.id))
    if outcome != SLOT_OK and outcome < SLOT_UNSENT and res == NULL:
        ack_uncertain(e, call.rows, call.n_rows)
    if jobs_back(c, res, outcome, &e.acks.jobs, &ACK_TEXTS):
        return
    if PQntuples(res) and pg_int4(res, 0, ACK_ORD) < 0:
        while c.jobs.first != NULL:
            j = <AckJob*>joblist_take(&c.jobs)
            ack_ask_anew(j)
            joblist_add(&e.wait_reload, &j.job)
        catalog_want_reload(e.worker)
        return
    ack_take(call, res)
    while c.jobs.first != NULL:
        j = <AckJob*>joblist_take(&c.jobs)
        if j.pending <= 0:
            ack_answer(j)
        else:
            job_queue_first(&j.job, &e.acks.jobs)

cdef void ack_uncertain(Engine* e, AckRow* rows, int n) noexcept nogil:
    # Marks the leases of these rows as uncertain: without an answer they may have ended or not.
    cdef int i
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    for i in range(n):
        if rows[i].group != NULL:
            index_ack_lost(rows[i].group, rows[i].partition, &wake)
    index_unlock(e.worker, wake)

cdef void ack_take(AckCall* call, PGresult* res) noexcept nogil:
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
                ack_take_window(it, codes, pg_bool(res, row, ACK_RELEASED))
            else:
                it.code = <uint8_t>codes.p[k] if <size_t>k < codes.n else ACKED_OK
            any_ = any_ or it.code & ACKED_OK
            if it.code & ACKED_DLQ:
                call.base.engine.worker.counters.dead_lettered += <uint64_t>req_ack_count(it)
            a.job.pending -= 1
            k += 1
            it = it.next
        if a.group != NULL and pg_int2(res, row, ACK_STATUS) == ACK_ROW_DONE:
            index_acked(a.group, a.partition, &call.base, pg_bool(res, row, ACK_RELEASED),
                        pg_int8_or(res, row, ACK_COMMITTED, -1), pg_int8_or(res, row, ACK_HEAD, 0),
                        pg_int8_or(res, row, ACK_RETRY_UNTIL, 0), &wake)
            if any_:          # the remaining records may have gaps
                unacked_end(table_pair(a.partition.id, a.group.id))
    index_unlock(call.base.engine.worker, wake)

cdef void ack_take_window(AckItem* it, Slice codes, bint released) noexcept nogil:
    # Sets the result of a window from its codes: all messages of a window have the same result.
    cdef size_t i
    it.code = ACKED_RELEASED if released else ACKED_NOT
    for i in range(codes.n):
        it.code |= <uint8_t>codes.p[i]
    it.window_n = <int>codes.n if it.code & ACKED_OK else 0

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void ack_answer(AckJob* j) noexcept nogil:
    # Answers the request, and adds its acknowledgments to the counts of their queues.
    cdef Request* r = j.job.r
    cdef Queue* queue = NULL
    cdef Tally* t = NULL
    cdef int i
    cdef int n = 0            # messages
    cdef AckItem* it
    for i in range(j.req.n):
        it = &j.req.items[i]
        n += req_ack_count(it)
        if it.partition == NULL:
            continue
        it.partition_name = it.partition.name
        if it.partition.queue is not queue:
            queue = it.partition.queue
            t = &queue.tally[r.worker.index]
            t.ack_requests += 1
        it.queue_name = queue.name
        if it.code & ACKED_OK:
            t.ack_done += <uint64_t>req_ack_count(it)
        else:
            t.ack_failed += 1
    job_end(&j.job)
    r.worker.counters.op[OP_ACK].items += <uint64_t>n
    if r.worker.spans.every and r.asks & ASK_TRACE:
        ack_span(r, &j.req, n)
    ackbody_reply(reply_begin(r, 200, JSON_TYPE), &j.req)
    reply_end(r)

cdef void ack_span(Request* r, AckReq* q, int n) noexcept nogil:
    # Writes the span of the acknowledgments, in the trace that the consumer continues.
    cdef Slice parent, state
    cdef Slice none = slice_of(NULL, 0)
    if trace_request(r.headers_raw, &r.arena, &parent, &state):
        span_put(r.worker, SPAN_SETTLE, parent, span_began(r), 200, n,
                 q.items[0].queue_name if q.n else none, q.items[0].partition_name if q.n else none, q.group, -1)
