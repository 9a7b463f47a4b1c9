# Reports the work that a stop interrupts. In: a worker whose grace period is over. Out: a log line for each of its
# first unfinished requests, with what the request waits for (Job.at). Locks: book.lock.

cdef enum:
    LEFT_MOST = 16            # lines per worker

# Of each place (JobAt): how far a pop is there, and what a job waits for.
cdef const char* LEFT_POP[JOB_PLACES]
cdef const char* LEFT_AT[JOB_PLACES]

cdef void left_open() noexcept nogil:
    left_place(JOB_PENDING, b"pending", b"in no list and no statement")
    left_place(JOB_RESOLVING, b"resolving", b"waits to ask for names")
    left_place(JOB_ASKING, b"resolving", b"asks for names")
    left_place(JOB_RELOADING, b"resolving", b"waits for the catalog")
    left_place(JOB_PAUSED, b"resolving", b"waits for the end of maintenance")
    left_place(JOB_FLUSHING, b"", b"waits for the end of a lease")
    left_place(JOB_RETRYING, b"leasing", b"is tried next")
    left_place(JOB_LEASING, b"leasing", b"waits for a statement")
    left_place(JOB_FETCHING, b"fetching", b"in a statement")
    left_place(JOB_PUSHING, b"", b"in a push stream")
    left_place(JOB_HELD, b"", b"waits behind what the failover buffer holds")
    left_place(JOB_BUFFERING, b"", b"is written to the failover buffer")
    left_place(JOB_PARKED_GROUP, b"parked", b"parked at its group")
    left_place(JOB_PARKED_CURSOR, b"parked", b"parked at its partition")
    left_place(JOB_PARKED_NAME, b"parked", b"parked by name")
    left_place(JOB_PARKED_RATE, b"parked", b"waits for tokens of a rate")
    left_place(JOB_WOKEN, b"fetching", b"in a push, or on its way to its worker")

cdef void left_place(JobAt at, const char* pop, const char* what) noexcept nogil:
    LEFT_POP[<int>at] = pop
    LEFT_AT[<int>at] = what

left_open()

cdef void engine_left(Worker* w) noexcept nogil:
    # Reports the requests of the worker's connections, then those without a client.
    cdef Buf text
    cdef Conn* c
    cdef Request* r
    cdef int state
    cdef int64_t seen = 0
    cdef int told = 0
    buf_init(&text)
    for state in range(CONN_LINGER):
        c = w.conns[state].first
        while c != NULL:
            seen += c.reading != NULL
            if told < LEFT_MOST and left_conn(c, &text):
                told += left_say(&text)
            r = c.first
            while r != NULL:
                seen += 1
                if told < LEFT_MOST:
                    left_request(r, &text)
                    told += left_say(&text)
                if c.feed != NULL and r is c.feed.r:
                    told += left_feed(c.feed, &seen, LEFT_MOST - told, &text)
                r = r.next
            c = c.next
    r = w.alone
    while r != NULL:
        seen += 1
        if told < LEFT_MOST:
            left_request(r, &text)
            told += left_say(&text)
        r = r.next
    if left_rest(engine_of(w), w.counters.live_requests - seen, &text):
        left_say(&text)
    if seen > LEFT_MOST:
        left_number(&text, b"requests in all: ", seen, b"")
        left_say(&text)
    buf_free(&text)

cdef int left_say(Buf* text) noexcept nogil:
    # Logs one line and empties the text. Returns 1.
    cdef const char* detail = b"out of memory"
    buf_byte(text, 0)
    if not text.failed:
        detail = text.data
    log_line(b"warn", b"left_undone", detail)
    buf_clear(text)
    return 1

cdef void left_number(Buf* text, const char* before, int64_t n, const char* behind) noexcept nogil:
    buf_text(text, before)
    buf_int(text, n)
    buf_text(text, behind)

cdef inline void left_name(Buf* text, const char* what, Slice name) noexcept nogil:
    if name.n:
        buf_text(text, what)
        buf_slice(text, name)

# ---- owners of the work --------------------------------------------------------------------------------------------

cdef bint left_conn(Conn* c, Buf* text) noexcept nogil:
    # Describes a connection that delays the end without a complete request. Returns False if it does not.
    if c.reading != NULL or c.head.len and c.state == CONN_HEAD:
        buf_text(text, b"a request that has not arrived in whole")
    elif c.out_pending and c.first == NULL:
        left_number(text, b"an answer: its client has not taken ", <int64_t>c.out_pending, b" bytes")
    else:
        return False
    return True

cdef int left_feed(Feed* f, int64_t* seen, int room, Buf* text) noexcept nogil:
    # Reports the internal requests of a stream. Returns the number of lines.
    cdef Request* q = f.commands
    cdef int told = 0
    if f.pop != NULL:
        seen[0] += 1
        if told < room:
            left_request(f.pop, text)
            told += left_say(text)
    seen[0] += f.answer != NULL
    while q != NULL:
        seen[0] += 1
        if told < room:
            left_request(q, text)
            told += left_say(text)
        q = q.next
    return told

cdef bint left_rest(Engine* e, int64_t lost, Buf* text) noexcept nogil:
    # Describes what delays the end besides the requests found. lost: requests that were not found. Returns False if
    # nothing does.
    if lost > 0:
        left_number(text, b"requests that nobody holds: ", lost, b"; ")
    if e.releases != NULL or e.release_limit.in_flight:
        buf_text(text, b"leases are given back; ")
    if e.takebacks != NULL or e.takeback_limit.in_flight:
        buf_text(text, b"what was consumed for nobody is taken back; ")
    if e.worker is boss and spill_works():
        buf_text(text, b"the failover buffer is at work; ")
    if text.len == 0:
        return False
    text.len -= 2
    return True

cdef void left_request(Request* r, Buf* text) noexcept nogil:
    cdef int64_t now = clock_mono_us()
    if r.replied:
        buf_text(text, b"an answer that waits for those before it")
    elif r.on_gone == feed_gone:
        buf_text(text, b"a stream")
    elif r.on_gone == bridge_gone:
        left_name(text, b"with the control plane: ", r.path)
    elif r.job == NULL:
        left_name(text, b"its body is read: ", r.path)
    else:
        uv_mutex_lock(&book.lock)
        left_job(engine_of(r.worker), <Job*>r.job, now, text)
        uv_mutex_unlock(&book.lock)
    left_number(text, b"; ", (now - r.started_us) // 1000, b" ms old; ")
    if r.feed != NULL:
        buf_text(text, b"of a stream")
    else:
        buf_text(text, b"its client waits" if r.conn != NULL else b"it has no client")

# ---- jobs and their places -----------------------------------------------------------------------------------------

cdef void left_job(Engine* e, Job* j, int64_t now, Buf* text) noexcept nogil:
    # Requires book.lock: another worker may take a parked pop out of the book.
    if j.kind == &POP_JOB:
        left_pop(<PopJob*>j, now, text)
    elif j.kind == &PUSH_JOB:
        left_push(<PushJob*>j, text)
    elif j.kind == &ACK_JOB:
        buf_text(text, b"ack")
        left_acked((<AckJob*>j).req.items, text)
        left_name(text, b", group ", (<AckJob*>j).req.group)
    elif j.kind == &TX_JOB:
        left_number(text, b"transaction, operations: ", (<TxJob*>j).req.n, b"")
    elif j.kind == &CYCLE_JOB:
        buf_text(text, b"cycle")
        left_name(text, b", group ", (<CycleJob*>j).req.group)
    else:
        buf_text(text, b"lease")
    buf_text(text, b"; ")
    left_waits(e, j, now, text)
    if j.tries:
        left_number(text, b", tries: ", j.tries, b"")
    if j.errors:
        left_number(text, b", errors: ", j.errors, b"")

cdef void left_acked(AckItem* it, Buf* text) noexcept nogil:
    if it.partition != NULL:
        left_name(text, b", queue ", it.partition.queue.name)
        left_name(text, b", partition ", it.partition.name)

cdef void left_pop(PopJob* j, int64_t now, Buf* text) noexcept nogil:
    buf_text(text, b"pop, ")
    buf_text(text, LEFT_POP[j.job.at])
    if j.any_queue:
        left_name(text, b", namespace ", j.req.ns)
        left_name(text, b", task ", j.req.task)
    left_name(text, b", queue ", j.req.queue)
    left_name(text, b", partition ", j.want_partition)
    left_name(text, b", group ", j.req.group)
    left_number(text, b", candidates: ", j.n_cursors, b"")
    if j.until_us:
        left_number(text, b", waits for ", (j.until_us - now) // 1000, b" ms")
    if j.gone:
        buf_text(text, b", for nobody")

cdef void left_push(PushJob* j, Buf* text) noexcept nogil:
    buf_text(text, b"push of the failover buffer" if j.drain else b"push")
    left_name(text, b", queue ", j.req.items[0].queue)
    left_name(text, b", partition ", j.req.items[0].part)
    left_number(text, b", parts on their way: ", j.parts_left, b"")
    if j.held:
        buf_text(text, b", items came home")
    if j.spilled:
        buf_text(text, b", to the failover buffer")

cdef void left_waits(Engine* e, Job* j, int64_t now, Buf* text) noexcept nogil:
    # Says what a job waits for; of a statement its name and age.
    cdef Call* call
    cdef int i
    for i in range(e.slots.n if j.at == JOB_FETCHING else 0):
        call = left_call(&e.slots.slots[i], j)
        if call != NULL:
            buf_text(text, b"in the statement ")
            buf_text(text, STATEMENTS[call.statement].name)
            left_number(text, b", sent ", (now - call.sent_us) // 1000, b" ms ago")
            return
    buf_text(text, LEFT_AT[j.at])

cdef Call* left_call(Slot* s, Job* j) noexcept nogil:
    # Returns the slot's call in flight if it serves this job.
    cdef Call* c = <Call*>s.ctx if s.state == SLOT_BUSY and s.done == call_answered else NULL
    if c == NULL:
        return NULL
    if (left_has(c.jobs.first, j) or c.done == claimcall_done and left_has((<PopCall*>c).acks.first, j)
            or c.done == txcall_done and &(<TxCall*>c).job.job is j
            or c.done == cyclecall_done and &(<CycleCall*>c).job.job is j):
        return c
    return NULL

cdef bint left_has(Job* first, Job* j) noexcept nogil:
    while first != NULL and first is not j:
        first = first.next
    return first != NULL
