# Reports the work that a stop interrupts. In: a worker whose grace period is over. Out: a log line for each of its
# first unfinished requests, with what the request waits for (Job.at). Owns nothing. Locks: book.lock.

cdef enum:
    STOPREPORT_MOST = 16      # lines per worker

# Of each place (JobAt): how far a pop is there, and what a job waits for.
cdef const char* STOPREPORT_POP[JOB_PLACES]
cdef const char* STOPREPORT_AT[JOB_PLACES]

cdef void stopreport_open() noexcept nogil:
    stopreport_place(JOB_PENDING, b"pending", b"in no list and no statement")
    stopreport_place(JOB_RESOLVING, b"resolving", b"waits to ask for names")
    stopreport_place(JOB_ASKING, b"resolving", b"asks for names")
    stopreport_place(JOB_RELOADING, b"resolving", b"waits for the catalog")
    stopreport_place(JOB_PAUSED, b"resolving", b"waits for the end of maintenance")
    stopreport_place(JOB_FLUSHING, b"", b"waits for the end of a lease")
    stopreport_place(JOB_RETRYING, b"leasing", b"is tried next")
    stopreport_place(JOB_LEASING, b"leasing", b"waits for a statement")
    stopreport_place(JOB_FETCHING, b"fetching", b"in a statement")
    stopreport_place(JOB_PUSHING, b"", b"in a push stream")
    stopreport_place(JOB_HELD, b"", b"waits behind what the failover buffer holds")
    stopreport_place(JOB_BUFFERING, b"", b"is written to the failover buffer")
    stopreport_place(JOB_PARKED_GROUP, b"parked", b"parked at its group")
    stopreport_place(JOB_PARKED_CURSOR, b"parked", b"parked at its partition")
    stopreport_place(JOB_PARKED_NAME, b"parked", b"parked by name")
    stopreport_place(JOB_PARKED_RATE, b"parked", b"waits for tokens of a rate")
    stopreport_place(JOB_PARKED_MEMORY, b"parked", b"waits for a message of an ephemeral queue")
    stopreport_place(JOB_WOKEN, b"fetching", b"in a push, or on its way to its worker")

cdef void stopreport_place(JobAt at, const char* pop, const char* what) noexcept nogil:
    STOPREPORT_POP[<int>at] = pop
    STOPREPORT_AT[<int>at] = what

stopreport_open()

cdef void stopreport_write(Worker* w) noexcept nogil:
    # Reports the requests of the worker's connections, then those without a client.
    cdef Buf text
    cdef Conn* c
    cdef Request* r
    cdef int state
    cdef int64_t seen = 0
    cdef int reported = 0
    buf_init(&text)
    for state in range(CONN_LINGER):
        c = w.conns[state].first
        while c != NULL:
            seen += c.reading != NULL
            if reported < STOPREPORT_MOST and stopreport_conn(c, &text):
                reported += stopreport_log(&text)
            r = c.first
            while r != NULL:
                stopreport_one(r, &seen, &reported, &text)
                if c.feed != NULL and r is c.feed.r:
                    stopreport_feed(c.feed, &seen, &reported, &text)
                r = r.next
            c = c.next
    r = w.clientless
    while r != NULL:
        stopreport_one(r, &seen, &reported, &text)
        r = r.next
    if stopreport_rest(engine_of(w), w.counters.live_requests - seen, &text):
        stopreport_log(&text)
    if seen > STOPREPORT_MOST:
        stopreport_number(&text, b"requests in all: ", seen, b"")
        stopreport_log(&text)
    buf_free(&text)

cdef void stopreport_one(Request* r, int64_t* seen, int* reported, Buf* text) noexcept nogil:
    # Counts a request, and reports it if there is a line left.
    seen[0] += 1
    if reported[0] < STOPREPORT_MOST:
        stopreport_request(r, text)
        reported[0] += stopreport_log(text)

cdef int stopreport_log(Buf* text) noexcept nogil:
    # Logs one line and empties the text. Returns 1.
    cdef const char* detail = b"out of memory"
    buf_byte(text, 0)
    if not text.failed:
        detail = text.data
    log_line(b"warn", b"left_undone", detail)
    buf_clear(text)
    return 1

cdef void stopreport_number(Buf* text, const char* before, int64_t n, const char* behind) noexcept nogil:
    buf_text(text, before)
    buf_int(text, n)
    buf_text(text, behind)

cdef inline void stopreport_name(Buf* text, const char* what, Slice name) noexcept nogil:
    if name.n:
        buf_text(text, what)
        buf_slice(text, name)

# ---- owners of the work ----------------------------------------------------------------------------------------------

cdef bint stopreport_conn(Conn* c, Buf* text) noexcept nogil:
    # Describes a connection that delays the end without a complete request. Returns False if it does not.
    if c.reading != NULL or c.head.len and c.state == CONN_HEAD:
        buf_text(text, b"an incomplete request")
    elif c.out_pending and c.first == NULL:
        stopreport_number(text, b"an answer, not taken by the client: ", <int64_t>c.out_pending, b" bytes")
    else:
        return False
    return True

cdef void stopreport_feed(Feed* f, int64_t* seen, int* reported, Buf* text) noexcept nogil:
    # Reports the internal requests of a stream.
    cdef Request* q = f.commands
    if f.pop != NULL:
        stopreport_one(f.pop, seen, reported, text)
    seen[0] += f.answer != NULL
    while q != NULL:
        stopreport_one(q, seen, reported, text)
        q = q.next

cdef bint stopreport_rest(Engine* e, int64_t lost, Buf* text) noexcept nogil:
    # Describes what delays the end besides the requests found. lost: requests that were not found. Returns False if
    # nothing does.
    if lost > 0:
        stopreport_number(text, b"requests in no list: ", lost, b"; ")
    if e.releases.first != NULL or e.releases.limit.in_flight:
        buf_text(text, b"leases are given back; ")
    if e.takebacks.first != NULL or e.takebacks.limit.in_flight:
        buf_text(text, b"messages consumed for clients that left are taken back; ")
    if e.worker is leader and spill_busy():
        buf_text(text, b"the failover buffer is at work; ")
    if text.len == 0:
        return False
    text.len -= 2
    return True

cdef void stopreport_request(Request* r, Buf* text) noexcept nogil:
    cdef int64_t now = clock_mono_us()
    if r.replied:
        buf_text(text, b"an answer that waits for earlier ones")
    elif r.on_gone == feed_client_gone:
        buf_text(text, b"a stream")
    elif r.on_gone == bridge_gone:
        stopreport_name(text, b"with the control plane: ", r.path)
    elif r.job == NULL:
        stopreport_name(text, b"its body is read: ", r.path)
    else:
        uv_mutex_lock(&book.lock)
        stopreport_job(engine_of(r.worker), <Job*>r.job, now, text)
        uv_mutex_unlock(&book.lock)
    stopreport_number(text, b"; ", (now - r.started_us) // 1000, b" ms old; ")
    if r.feed != NULL:
        buf_text(text, b"of a stream")
    else:
        buf_text(text, b"client connected" if r.conn != NULL else b"client gone")

# ---- jobs and their places -------------------------------------------------------------------------------------------

cdef void stopreport_job(Engine* e, Job* j, int64_t now, Buf* text) noexcept nogil:
    # Requires book.lock: another worker may take a parked pop out of the book.
    cdef Partition* p
    if j.kind == &POP_JOB:
        stopreport_pop(<PopJob*>j, now, text)
    elif j.kind == &PUSH_JOB:
        stopreport_push(<PushJob*>j, text)
    elif j.kind == &ACK_JOB:
        buf_text(text, b"ack")
        p = (<AckJob*>j).req.items.partition
        if p != NULL:
            stopreport_name(text, b", queue ", p.queue.name)
            stopreport_name(text, b", partition ", p.name)
        stopreport_name(text, b", group ", (<AckJob*>j).req.group)
    elif j.kind == &TX_JOB:
        stopreport_number(text, b"transaction, operations: ", (<TxJob*>j).req.n, b"")
    elif j.kind == &CYCLE_JOB:
        buf_text(text, b"cycle")
        stopreport_name(text, b", group ", (<CycleJob*>j).req.group)
    else:
        buf_text(text, b"lease")
    buf_text(text, b"; ")
    stopreport_waits(e, j, now, text)
    if j.tries:
        stopreport_number(text, b", tries: ", j.tries, b"")
    if j.errors:
        stopreport_number(text, b", errors: ", j.errors, b"")

cdef void stopreport_pop(PopJob* j, int64_t now, Buf* text) noexcept nogil:
    buf_text(text, b"pop, ")
    buf_text(text, STOPREPORT_POP[j.job.at])
    if j.any_queue:
        stopreport_name(text, b", namespace ", j.req.ns)
        stopreport_name(text, b", task ", j.req.task)
    stopreport_name(text, b", queue ", j.req.queue)
    stopreport_name(text, b", partition ", j.want_partition)
    stopreport_name(text, b", group ", j.req.group)
    stopreport_number(text, b", candidates: ", j.n_claims, b"")
    if j.until_us:
        stopreport_number(text, b", waits for ", (j.until_us - now) // 1000, b" ms")
    if j.client_gone:
        buf_text(text, b", client gone")

cdef void stopreport_push(PushJob* j, Buf* text) noexcept nogil:
    buf_text(text, b"push of the failover buffer" if j.drain else b"push")
    stopreport_name(text, b", queue ", j.req.items[0].queue)
    stopreport_name(text, b", partition ", j.req.items[0].part)
    stopreport_number(text, b", parts in flight: ", j.parts_left, b"")
    if j.held:
        buf_text(text, b", items returned")
    if j.spilled:
        buf_text(text, b", to the failover buffer")

cdef void stopreport_waits(Engine* e, Job* j, int64_t now, Buf* text) noexcept nogil:
    # Says what a job waits for; of a statement its name and age.
    cdef Call* call
    cdef int i
    for i in range(e.slots.n if j.at == JOB_FETCHING else 0):
        call = stopreport_call(&e.slots.slots[i], j)
        if call != NULL:
            buf_text(text, b"in the statement ")
            buf_text(text, STATEMENTS[call.statement].name)
            stopreport_number(text, b", sent ", (now - call.sent_us) // 1000, b" ms ago")
            return
    buf_text(text, STOPREPORT_AT[j.at])

cdef Call* stopreport_call(Slot* s, Job* j) noexcept nogil:
    # Returns the slot's call in flight if it serves this job.
    cdef Call* c = <Call*>s.ctx if s.state == SLOT_BUSY and s.done == call_answered else NULL
    if c == NULL:
        return NULL
    if stopreport_has(c.jobs.first, j) or c.done == claimcall_done and stopreport_has((<PopCall*>c).acks.first, j):
        return c
    return NULL

cdef bint stopreport_has(Job* first, Job* j) noexcept nogil:
    while first != NULL and first is not j:
        first = first.next
    return first != NULL
