# Reports the work that a stop interrupts. In: a worker whose grace period is over. Out: a log line for each of its
# first unfinished requests, with what the request waits for. It searches every place where a job may be; jobs keep no
# record of their place.

cdef enum:
    LEFT_MOST = 16            # lines per worker

cdef const char* LEFT_POP[8]
LEFT_POP[<int>POP_PENDING] = b"pending"
LEFT_POP[<int>POP_RESOLVING] = b"resolving"
LEFT_POP[<int>POP_LEASING] = b"leasing"
LEFT_POP[<int>POP_FETCHING] = b"fetching"
LEFT_POP[<int>POP_COMPLETED] = b"completed"
LEFT_POP[<int>POP_EMPTY] = b"empty"
LEFT_POP[<int>POP_FAILED] = b"failed"
LEFT_POP[<int>POP_PARKED] = b"parked"

cdef const char* LEFT_PARKED[5]
LEFT_PARKED[<int>PARKED_NOT] = b""
LEFT_PARKED[<int>PARKED_GROUP] = b"parked at its group"
LEFT_PARKED[<int>PARKED_CURSOR] = b"parked at its partition"
LEFT_PARKED[<int>PARKED_STRANGER] = b"parked by name"
LEFT_PARKED[<int>PARKED_PACED] = b"waits for tokens of a rate"

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
        left_job(engine_of(r.worker), <Job*>r.job, now, text)
    left_number(text, b"; ", (now - r.started_us) // 1000, b" ms old; ")
    if r.feed != NULL:
        buf_text(text, b"of a stream")
    else:
        buf_text(text, b"its client waits" if r.conn != NULL else b"it has no client")

# ---- jobs and their places -----------------------------------------------------------------------------------------

cdef void left_job(Engine* e, Job* j, int64_t now, Buf* text) noexcept nogil:
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
    left_place(e, j, now, text)
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
    buf_text(text, LEFT_POP[j.state])
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

cdef bint chain_has(Job* first, Job* j) noexcept nogil:
    while first != NULL and first is not j:
        first = first.next
    return first != NULL

cdef const char* left_list(Engine* e, Job* j) noexcept nogil:
    # Returns the list that holds the job; NULL if none of these lists does.
    if chain_has(e.resolving.first, j):
        return b"waits to ask for names"
    if chain_has(e.round.jobs, j):
        return b"asks for names"
    if chain_has(e.wait_reload.first, j):
        return b"waits for the catalog"
    if chain_has(e.woken.first, j):
        return b"is tried next"
    if chain_has(e.paused.first, j):
        return b"waits for the end of maintenance"
    if chain_has(e.flushes.first, j):
        return b"waits for the end of a lease"
    if (chain_has(e.pops.jobs.first, j) or chain_has(e.claims.jobs.first, j) or chain_has(e.leased.first, j)
            or chain_has(e.acks.jobs.first, j) or chain_has(e.txs.jobs.first, j) or chain_has(e.leases.jobs.first, j)
            or chain_has(e.lease_asks.jobs.first, j) or chain_has(e.cycles.jobs.first, j)):
        return b"waits for a statement"
    if e.worker is boss and chain_has(spill_held.first, j):
        return b"waits behind what the failover buffer holds"
    if e.worker is boss and (chain_has(spool.gather_jobs.first, j) or chain_has(spool.write.jobs.first, j)):
        return b"is written to the failover buffer"
    return NULL

cdef void left_place(Engine* e, Job* j, int64_t now, Buf* text) noexcept nogil:
    cdef const char* place = left_list(e, j)
    cdef Call* call
    cdef int i
    if place == NULL and j.kind == &POP_JOB and (<PopJob*>j).parked_at != PARKED_NOT:
        place = LEFT_PARKED[(<PopJob*>j).parked_at]
    if place == NULL:
        place = left_stream(e, j)
    if place != NULL:
        buf_text(text, place)
        return
    for i in range(e.slots.n):
        call = left_call(&e.slots.slots[i], j)
        if call != NULL:
            buf_text(text, b"in the statement ")
            buf_text(text, STATEMENTS[call.statement].name)
            left_number(text, b", sent ", (now - call.sent_us) // 1000, b" ms ago")
            return
    if j.kind == &PUSH_JOB and n_streams and e.settings.workers > 1:
        buf_text(text, b"with another worker")
    else:
        buf_text(text, b"in no list and no statement")

cdef Call* left_call(Slot* s, Job* j) noexcept nogil:
    # Returns the slot's call in flight if it serves this job.
    cdef Call* c = <Call*>s.ctx if s.state == SLOT_BUSY and s.done == call_answered else NULL
    if c == NULL:
        return NULL
    if (chain_has(c.jobs.first, j) or c.done == claimcall_done and chain_has((<PopCall*>c).acks.first, j)
            or c.done == txcall_done and &(<TxCall*>c).job.job is j
            or c.done == cyclecall_done and &(<CycleCall*>c).job.job is j):
        return c
    return NULL

cdef const char* left_stream(Engine* e, Job* j) noexcept nogil:
    # Returns where this worker's push streams hold the job; NULL if they do not hold it.
    cdef PushStream* s
    cdef PushBatch* b
    cdef PushPart* part
    cdef Pusher* pusher
    cdef int i
    for i in range(streams_all):
        s = &streams[i]
        if s.worker is not e.worker:
            continue
        if batch_has(s.flying, j):
            return b"in a push in flight"
        b = s.again
        while b != NULL:
            if batch_has(b, j):
                return b"in a batch that is sent again"
            b = b.next
        if batch_has(s.gather, j):
            return b"in a batch that gathers"
        pusher = s.pushers
        while pusher != NULL:
            part = pusher.first
            while part != NULL:
                if &part.job.job is j:
                    return b"behind a full batch"
                part = <PushPart*>part.msg.next
            pusher = pusher.next
    return NULL

cdef bint batch_has(PushBatch* b, Job* j) noexcept nogil:
    # Returns True if the batch holds an item of the job, or a claim for it.
    cdef PushGroup* g = b.first if b != NULL else NULL
    cdef int i
    while g != NULL:
        if chain_of(g.first, j) or chain_of(g.dups, j):
            return True
        g = g.next
    for i in range(b.n_claims if b != NULL else 0):
        if &b.claims[i].job.job is j:
            return True
    return False

cdef bint chain_of(PushItem* it, Job* j) noexcept nogil:
    while it != NULL and &it.of_part.job.job is not j:
        it = it.next
    return it != NULL
