# Requests for ephemeral queues: push, pop, ack. In: requests. Out: their answers; pops that wait. Owns a pop until its
# answer. Owner: the request's worker. Locks: EphStripe.lock; the answer of a pop is written under it. A waiting pop is
# in the worker's heap of deadlines and in a list of its group (EphPop.group). The thread that takes it out of the list
# sends it to its worker.

cdef JobKind EPH_JOB
EPH_JOB.op = OP_EPHEMERAL
EPH_JOB.refuse = job_refuse

cdef const char* EPH_FULL = b"queue_full"

cdef enum:
    EPH_AROUND = 256          # most bytes of a message in an answer besides its payload and partition, and of the end

# ---- refusals --------------------------------------------------------------------------------------------------------

cdef void ephjob_refuse(Request* r, int status, const char* code, const char* text) noexcept nogil:
    # Answers {"error", "code"}.
    cdef Buf b
    buf_init(&b)
    member_text(&b, b'{"error":', slice_lit(text))
    member_text(&b, b',"code":', slice_lit(code))
    buf_byte(&b, b'}')
    if b.failed:
        reply_error(r, status, text)
    else:
        reply_raw(r, status, slice_lit(JSON_LINES), slice_of(b.data, b.len))
    buf_free(&b)

cdef bint ephjob_off(Request* r) noexcept nogil:
    # Refuses a request if this daemon has no ephemeral queues. Returns True if it did.
    r.op = OP_EPHEMERAL
    if eph_limits.bytes > 0 and not eph_limits.shared:
        return False
    if eph_limits.bytes == 0:
        ephjob_refuse(r, 503, b"ephemeral_disabled",
                      b"Ephemeral queues are switched off (QUEEND_EPHEMERAL_BYTES is 0)")
    else:
        ephjob_refuse(r, 503, b"ephemeral_unavailable",
                      b"Ephemeral queues need a daemon without peers: each lives in the memory of one daemon")
    return True

cdef void ephjob_refuse_name(Request* r, bint crowded) noexcept nogil:
    # Refuses a request that needs a queue, partition or group for which there is no room.
    atomic_add64(&eph_figures.refused, 1)
    if crowded:
        ephjob_refuse(r, 409, b"bound_reached",
                      b"There are too many ephemeral queues, or partitions or groups of this queue")
    else:
        ephjob_refuse(r, 429, EPH_FULL, b"The memory of all ephemeral queues is full (QUEEND_EPHEMERAL_BYTES)")

# ---- pushes ----------------------------------------------------------------------------------------------------------

cdef void ephjob_push(Worker* w, Request* r, int route) noexcept nogil:
    if not ephjob_off(r):
        offload_job(w, r, sizeof(EphPushReq), ephjob_push_read, ephjob_push_taken)

cdef bint ephjob_push_read(Request* r, void* job, Tools* t) noexcept nogil:
    return ephbody_push(r.body, t, <EphPushReq*>job)

cdef void ephjob_push_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef EphPushReq* q = <EphPushReq*>job
    cdef EphMessage* chain = NULL
    cdef EphPop* wake = NULL
    cdef int64_t bytes = q.n * <int64_t>sizeof(EphMessage) + q.bytes
    cdef int64_t now = clock_mono_us()
    if not good:
        reply_error(r, e.status, e.text)
        return
    if r.grant != NULL and not grant_allows(r.grant, q.queue, VERB_PUSH, slice_of(NULL, 0)):
        gate_refuse(r, b"push", q.queue, slice_of(NULL, 0))
        return
    if not ephjob_reserve(q, bytes, now, &wake):
        ephjob_send(w, wake)
        ephjob_refuse_name(r, False)
        return
    chain = ephjob_chain(q)
    if chain == NULL:
        ring_release(bytes)
        ephjob_send(w, wake)
        reply_error(r, 503, b"Out of memory")
        return
    ephjob_push_store(r, q, chain, bytes, now, &wake)
    ephjob_send(w, wake)

cdef bint ephjob_reserve(const EphPushReq* q, int64_t bytes, int64_t now, EphPop** wake) noexcept nogil:
    # Takes the memory of a push. A queue with dropOldest makes room by its own oldest messages.
    cdef EphStripe* s
    cdef EphQueue* known
    cdef bint good = ring_reserve(bytes)
    if good or bytes > eph_limits.bytes:
        return good
    s = stripe_of(q.queue)
    stripe_lock(s, now, wake)
    known = stripe_find(s, q.queue)
    good = ring_reserve(bytes)
    while not good and known != NULL and known.options.drops_oldest and ring_drop_oldest(known):
        good = ring_reserve(bytes)
    stripe_unlock(s)
    return good

cdef EphMessage* ephjob_chain(const EphPushReq* q) noexcept nogil:
    # Copies the payloads into messages, linked by `next` in their order. Returns NULL if memory ran out.
    cdef EphMessage* first = NULL
    cdef EphMessage* m
    cdef int i = q.n
    while i > 0:
        i -= 1
        m = <EphMessage*>malloc(sizeof(EphMessage) + q.payloads[i].n)
        if m == NULL:
            ephjob_unchain(first)
            return NULL
        m.n = q.payloads[i].n
        memcpy(m.payload, q.payloads[i].p, m.n)
        m.next = first
        first = m
    return first

cdef void ephjob_unchain(EphMessage* m) noexcept nogil:
    cdef EphMessage* following
    while m != NULL:
        following = m.next
        free(m)
        m = following

cdef void ephjob_push_store(Request* r, const EphPushReq* q, EphMessage* chain, int64_t bytes, int64_t now,
                            EphPop** wake) noexcept nogil:
    # Adds the messages to their queue, all or none, and answers.
    cdef EphStripe* s = stripe_of(q.queue)
    cdef EphPartition* p = NULL
    cdef EphQueue* found
    cdef EphMessage* m
    cdef const char* why = NULL
    cdef const char* code = EPH_FULL
    cdef int status = 429
    cdef bint crowded = False
    cdef Buf* b
    stripe_lock(s, now, wake)
    found = stripe_queue(s, q.queue, now)
    if found != NULL:
        p = ring_partition(found, q.partition, now)
    if p == NULL:
        crowded = stripe_crowded(found)
    elif q.n > found.options.max_length or q.bytes > found.options.max_bytes:
        status = 413
        code = b"push_too_large"
        why = b"The push is larger than the bounds of its queue (maxLength, maxBytes)"
    elif not found.options.drops_oldest and (found.n + q.n > found.options.max_length
                                             or found.bytes + q.bytes > found.options.max_bytes):
        why = b"The queue is full (maxLength, maxBytes; policy reject)"
    else:
        while found.n + q.n > found.options.max_length or found.bytes + q.bytes > found.options.max_bytes:
            ring_drop_oldest(found)
        while chain != NULL:
            m = chain
            chain = m.next
            ring_push(p, m, now)
        if found.ends.pos == 0:
            stripe_ends(found)
        ring_pushed(p, wake)
    stripe_unlock(s)
    if chain != NULL:
        ephjob_unchain(chain)
        ring_release(bytes)
        if why == NULL:
            ephjob_refuse_name(r, crowded)
            return
        atomic_add64(&eph_figures.refused, 1)
        ephjob_refuse(r, status, code, why)
        return
    atomic_add64(&eph_figures.pushed, q.n)
    r.worker.counters.op[OP_EPHEMERAL].items += q.n
    b = reply_begin_more(r, 201, JSON_TYPE, EPH_LINES)
    member_int(b, b'{"pushed":', q.n)
    buf_text(b, b',"durable":false}')
    reply_end(r)

# ---- acknowledgments -------------------------------------------------------------------------------------------------

cdef void ephjob_ack(Worker* w, Request* r, int route) noexcept nogil:
    if not ephjob_off(r):
        offload_job(w, r, sizeof(EphAckReq), ephjob_ack_read, ephjob_ack_taken)

cdef bint ephjob_ack_read(Request* r, void* job, Tools* t) noexcept nogil:
    return ephbody_ack(r.body, t, <EphAckReq*>job)

cdef void ephjob_ack_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef EphAckReq* q = <EphAckReq*>job
    cdef EphPop* wake = NULL
    cdef EphStripe* s
    cdef EphQueue* found
    cdef EphGroup* g = NULL
    cdef int i
    cdef int acked = 0
    cdef int again = 0
    if not good:
        reply_error(r, e.status, e.text)
        return
    if not gate_pops(r, q.queue, q.group):
        gate_refuse(r, b"pop", q.queue, q.group)
        return
    s = stripe_of(q.queue)
    stripe_lock(s, clock_mono_us(), &wake)
    found = stripe_find(s, q.queue)
    if found != NULL:
        stripe_used(found, clock_mono_us())
        g = ring_group_of(found, q.group)
    for i in range(q.n):
        ephjob_ack_one(found, g, &q.acks[i], &wake)
        acked += q.acks[i].outcome == EPH_ACKED
        again += q.acks[i].outcome == EPH_REDELIVERED
    stripe_unlock(s)
    ephjob_send(w, wake)
    atomic_add64(&eph_figures.acked, acked)
    atomic_add64(&eph_figures.redelivered, again)
    r.worker.counters.op[OP_EPHEMERAL].items += q.n
    ephbody_results(reply_begin_more(r, 200, JSON_TYPE, EPH_LINES), q)
    reply_end(r)

cdef void ephjob_ack_one(EphQueue* q, EphGroup* g, EphAck* x, EphPop** wake) noexcept nogil:
    # Applies one acknowledgment. Requires the stripe's lock. q, g: NULL if unknown.
    cdef EphFlight* f
    cdef EphCursor* c
    cdef EphMessage* m
    if not x.known:
        return
    if not x.ours or q == NULL or x.life != q.life:
        x.outcome = EPH_STALE
        return
    f = ring_flight(g, x.message) if g != NULL else NULL
    if f == NULL:
        return
    if not f.leased or f.attempts != x.attempts:
        x.outcome = EPH_STALE
        return
    if x.fails:
        x.dropped = ring_failed(f, wake)
        x.outcome = EPH_ACKED if x.dropped else EPH_REDELIVERED
        return
    c = f.cursor
    m = f.message
    ring_land(f)
    ring_complete(c, m)
    x.outcome = EPH_ACKED

# ---- pops ------------------------------------------------------------------------------------------------------------

cdef void ephjob_pop(Worker* w, Request* r, int route) noexcept nogil:
    cdef EphPop* j
    cdef ApiError e
    if ephjob_off(r):
        return
    j = <EphPop*>arena_zero(&r.arena, sizeof(EphPop))
    if j == NULL:
        reply_error(r, 503, b"Out of memory")
        return
    if not ephbody_pop(r.query, &r.arena, w.settings, &j.req, &e):
        reply_error(r, e.status, e.text)
        return
    if not gate_pops(r, j.req.queue, j.req.group):
        gate_refuse(r, b"pop", j.req.queue, j.req.group)
        return
    job_open(&j.job, r, &EPH_JOB, 0)
    epoch_unpin(w.pins, r.pin)        # it holds no entry of the catalog
    r.pin = 0
    j.deadline.owner = j
    if j.req.wait and j.req.timeout_ms > 0 and not r.conn.half:
        j.until_us = r.started_us + j.req.timeout_ms * <int64_t>1000 - (50000 if j.req.timeout_ms >= 1000 else 0)
        if r.grant != NULL:
            j.until_us = gate_until(r, j.until_us)
        r.on_end = ephjob_eof
    r.on_gone = ephjob_client_gone
    ephjob_try(w, j)

cdef void ephjob_try(Worker* w, EphPop* j) noexcept nogil:
    # Makes one attempt. The pop ends answered or waits. Requires that it is in no list.
    cdef Request* r = j.job.r
    cdef EphPop* wake = NULL
    cdef EphStripe* s = stripe_of(j.req.queue)
    cdef EphQueue* q
    cdef EphGroup* g = NULL
    cdef EphPartition* p = NULL
    cdef EphCursor* c = NULL
    cdef int64_t now = clock_mono_us()
    cdef const char* why = NULL
    cdef bint crowded
    cdef bint waits = False
    cdef int n
    if j.client_gone or j.queue_gone or engine_of(w).stopping or ephjob_token_over(j):
        ephjob_pass(w, j)
        if j.client_gone:
            reply_empty(job_end(&j.job))
        elif ephjob_token_over(j):
            ephjob_verify(j)
        else:
            ephjob_empty(j)
        return
    stripe_lock(s, now, &wake)
    q = stripe_queue(s, j.req.queue, now)
    if q != NULL:
        g = ring_group(q, j.req.group, now)
        if g != NULL and not j.req.any_partition:
            p = ring_partition(q, j.req.partition, now)
            c = ring_cursor(g, p) if p != NULL else NULL
    if g == NULL or c == NULL and not j.req.any_partition:
        crowded = stripe_crowded(q)
        stripe_unlock(s)
        ephjob_send(w, wake)
        ephjob_refuse_name(job_end(&j.job), crowded)
        return
    if not ephjob_gathers(j, g, c, now):
        n = ephjob_deliver(j, g, c, now, &wake)
        if n != 0:
            stripe_unlock(s)
            ephjob_send(w, wake)
            if n > 0:
                ephjob_delivered(j)
            else:
                ephjob_refuse_name(job_end(&j.job), False)
            return
    if j.until_us > now:
        why = ephjob_park(engine_of(w), j, g, c)
        waits = why == NULL
    stripe_unlock(s)
    ephjob_send(w, wake)
    if waits:
        if not j.job.long_polls:
            job_set_polls(&j.job, 1 + <int>(r.arena.size // PARKED_UNIT))
        job_park(&j.job)
    elif why != NULL:
        job_refuse(&j.job, 503, why)
    else:
        ephjob_empty(j)

cdef bint ephjob_gathers(EphPop* j, EphGroup* g, EphCursor* c, int64_t now) noexcept nogil:
    # Returns True if a waiting pop of a queue with a windowBuffer waits for more messages than it has found.
    cdef EphQueue* q = g.queue
    cdef int64_t n = ring_deliverable(c) if c != NULL else g.pending - g.leased
    if q.options.window_ms == 0 or j.until_us <= now or n == 0 or not ring_gathers(j, q, n):
        return False
    if j.window_us == 0:
        j.window_us = min(now + q.options.window_ms * <int64_t>1000, j.until_us)
    return now < j.window_us

cdef int ephjob_deliver(EphPop* j, EphGroup* g, EphCursor* only, int64_t now, EphPop** wake) noexcept nogil:
    # Writes an answer with the messages that are ready. Returns their number. 0: nothing is ready, no answer was
    # written. -1: there was no memory to lease a message.
    cdef Request* r = j.job.r
    cdef EphQueue* q = g.queue
    cdef EphCursor* c = only if only != NULL else g.ready
    cdef int64_t bytes = 0
    cdef int64_t until = now + q.options.lease_us
    cdef int n = 0
    cdef bint full = False
    cdef Buf* b
    j.window_us = 0
    if c == NULL or not c.is_ready:
        return 0
    j.taken = NULL
    if not j.req.auto_ack:
        j.taken = <EphTaken*>arena_alloc(&r.arena, <size_t>min(
            <int64_t>j.req.batch, ring_deliverable(c) if only != NULL else g.pending - g.leased) * sizeof(EphTaken))
        if j.taken == NULL:
            return -1
    j.n_taken = 0
    j.life = q.life
    b = reply_begin_more(r, 200, JSON_TYPE, EPH_LINES)
    member_text(b, b'{"queue":', q.name)
    buf_text(b, b',"messages":[')
    while c != NULL and n < j.req.batch and not full:
        while c.is_ready and n < j.req.batch and not full:
            full = not ephjob_take(j, c, b, n, until, &bytes)
            n += not full
        if c.is_ready:
            ring_wake(g, c, wake)
        c = g.ready if only == NULL else NULL
    if only == NULL and g.ready != NULL:
        ring_next(g)
        ring_wake(g, NULL, wake)
    buf_text(b, b'],"durable":false}')
    atomic_add64(&eph_figures.popped, n)
    r.worker.counters.op[OP_EPHEMERAL].items += n
    return n if n else -1

cdef bint ephjob_take(EphPop* j, EphCursor* c, Buf* b, int n, int64_t until, int64_t* bytes) noexcept nogil:
    # Writes the cursor's next message, which the pop leases or consumes. Returns False if the answer is full or memory
    # is short.
    cdef int attempts
    cdef EphMessage* m = ring_peek(c, &attempts)
    cdef EphFlight* f
    if m == NULL or b.failed or n and bytes[0] + <int64_t>m.n > EPH_ANSWER_MOST:
        return False
    if not buf_room(b, m.n + 6 * m.partition.name.n + EPH_AROUND):
        b.failed = False      # what is written so far can be sent
        return False
    if j.req.auto_ack:
        ephbody_message(b, m, c.group.queue.life, attempts, n == 0)
        bytes[0] += <int64_t>m.n
        ring_consume(c)
        return True
    f = ring_take(c, until)
    if f == NULL:
        return False
    j.taken[n].message = m.id
    j.taken[n].attempts = attempts
    j.n_taken = n + 1
    bytes[0] += <int64_t>m.n
    ephbody_message(b, m, c.group.queue.life, attempts, n == 0)
    return True

cdef void ephjob_delivered(EphPop* j) noexcept nogil:
    # Sends the answer. If memory ran out, its leases are given back.
    cdef Request* r = j.job.r
    if r.out.failed:
        ephjob_give_back(r.worker, j)
        job_refuse(&j.job, 503, b"Out of memory")
        return
    job_done(&j.job)
    if j.n_taken:
        r.on_unsent = ephjob_unsent
    reply_end(r)

cdef void ephjob_empty(EphPop* j) noexcept nogil:
    cdef Request* r = job_end(&j.job)
    cdef Buf* b = reply_begin_more(r, 200, JSON_TYPE, EPH_LINES)
    r.worker.counters.empty_pops += 1
    member_text(b, b'{"queue":', j.req.queue)
    buf_text(b, b',"messages":[],"durable":false}')
    reply_end(r)

# ---- waiting ---------------------------------------------------------------------------------------------------------

cdef const char* ephjob_park(Engine* e, EphPop* j, EphGroup* g, EphCursor* c) noexcept nogil:
    # Lets a pop wait: other threads may wake it from now on. Returns NULL, or why it does not wait. Requires the lock
    # of the stripe. The caller counts it as parked.
    if not j.job.long_polls and job_crowded(&j.job):
        e.worker.counters.not_parked += 1
        return b"Too many pops are waiting; try again"
    if not heap_add(&e.memory_deadlines, &j.deadline, j.window_us if j.window_us else j.until_us):
        return b"Out of memory"
    j.job.at = JOB_PARKED_MEMORY
    ring_wait(j, g, c)
    return NULL

cdef bint ephjob_unpark(Worker* w, EphPop* j) noexcept nogil:
    # Takes a pop out of its list. Returns False if it was in none: it is on its way to its worker, or in its list of
    # woken pops.
    cdef EphStripe* s = stripe_of(j.req.queue)
    cdef bint mine
    uv_mutex_lock(&s.lock)
    mine = j.group != NULL
    ring_unwait(j)
    uv_mutex_unlock(&s.lock)
    if mine:
        heap_del(&engine_of(w).memory_deadlines, &j.deadline)
    return mine

cdef void ephjob_send(Worker* w, EphPop* wake) noexcept nogil:
    # Sends woken pops to their workers, the oldest first. w: the worker of the caller's thread, NULL if it has none.
    # Requires that no stripe is locked.
    cdef EphPop* j = NULL
    cdef EphPop* following
    while wake != NULL:
        following = wake.next
        wake.next = j
        j = wake
        wake = following
    while j != NULL:
        following = j.next
        if j.job.r.worker is w:
            ephjob_woken(w, &j.job.msg)
        else:
            j.job.msg.run = ephjob_woken
            worker_post(j.job.r.worker, &j.job.msg)
        j = following

cdef void ephjob_woken(Worker* w, InboxMsg* m) noexcept nogil:
    cdef EphPop* j = <EphPop*>m
    heap_del(&engine_of(w).memory_deadlines, &j.deadline)
    job_queue(&j.job, &engine_of(w).memory_woken)

cdef void ephjob_drain(Engine* e) noexcept nogil:
    # Tries the woken pops. Pops that are woken meanwhile follow in the next turn.
    cdef int n = e.memory_woken.n
    while n > 0:
        n -= 1
        ephjob_try(e.worker, <EphPop*>joblist_take(&e.memory_woken))

cdef void ephjob_deadline(Worker* w, EphPop* j) noexcept nogil:
    # Handles the end of a long poll, or of the gathering of messages.
    if ephjob_unpark(w, j):
        job_unpark(&j.job)
        ephjob_try(w, j)

cdef void ephjob_tick(Worker* w, int64_t now) noexcept nogil:
    # Handles deadlines of the worker's pops. The first worker also ends leases and messages.
    cdef Engine* e = engine_of(w)
    cdef EphPop* wake = NULL
    cdef HeapNode* top = heap_top(&e.memory_deadlines)
    while top != NULL and top.at <= now:
        heap_del(&e.memory_deadlines, top)
        ephjob_deadline(w, <EphPop*>top.owner)
        top = heap_top(&e.memory_deadlines)
    if w.index == 0:
        stripe_tick(now, &wake)
        ephjob_send(w, wake)

cdef void ephjob_sweep(Worker* w) noexcept nogil:
    # Forgets unused names of one stripe after the other, twice a second.
    cdef EphPop* wake = NULL
    cdef int64_t now = clock_mono_us()
    if atomic_get64(&eph_figures.queues):
        stripe_sweep(&eph_stripes[now // 500000 % EPH_STRIPES], now, &wake)
        ephjob_send(w, wake)

cdef void ephjob_stop(Worker* w) noexcept nogil:
    # Answers all waiting pops of a worker that stops.
    cdef Engine* e = engine_of(w)
    cdef EphPop* j
    while e.memory_deadlines.n:
        j = <EphPop*>heap_top(&e.memory_deadlines).owner
        heap_del(&e.memory_deadlines, &j.deadline)
        ephjob_deadline(w, j)

# ---- tokens and clients ----------------------------------------------------------------------------------------------

cdef bint ephjob_token_over(EphPop* j) noexcept nogil:
    # Returns True if the token of a pop has expired or has to be verified again.
    cdef Grant* g = j.job.r.grant
    return g != NULL and not j.client_gone and (req_grant_stale(g) or g.expires_us <= clock_wall_us())

cdef void ephjob_verify(EphPop* j) noexcept nogil:
    # Lets the request of a pop come in again, so that its token is verified. Requires that the pop is in no list.
    cdef Request* r = job_end(&j.job)
    r.on_end = NULL
    r.grant = NULL
    service.request(r.worker, r)

cdef void ephjob_verify_all(Engine* e) noexcept nogil:
    # Lets the deadlines of waiting pops fire whose token is over.
    cdef bint found = False
    cdef int i
    for i in range(1, e.memory_deadlines.n + 1):
        if ephjob_token_over(<EphPop*>e.memory_deadlines.nodes[i].owner):
            e.memory_deadlines.nodes[i].at = 0
            found = True
    if found:
        heap_order(&e.memory_deadlines)

cdef void ephjob_pass(Worker* w, EphPop* j) noexcept nogil:
    # Passes on the wake-up of a pop that takes no messages.
    cdef EphStripe* s = stripe_of(j.req.queue)
    cdef EphPop* wake = NULL
    cdef EphQueue* q
    cdef EphGroup* g = NULL
    cdef EphPartition* p
    stripe_lock(s, clock_mono_us(), &wake)
    q = stripe_find(s, j.req.queue)
    if q != NULL:
        g = ring_group_of(q, j.req.group)
    if g != NULL and g.n_wait:
        p = <EphPartition*>table_get(&q.named, ring_key(j.req.partition)) if not j.req.any_partition else NULL
        ring_wake(g, ring_cursor(g, p) if p != NULL else NULL, &wake)
    stripe_unlock(s)
    ephjob_send(w, wake)

cdef void ephjob_client_gone(Request* r) noexcept nogil:
    # Handles a client that left: its waiting pop is forgotten.
    cdef EphPop* j = <EphPop*>r.job
    if j == NULL:
        return
    j.client_gone = True
    if ephjob_unpark(r.worker, j):
        reply_empty(job_end(&j.job))

cdef void ephjob_eof(Request* r) noexcept nogil:
    # Handles a client that sends no more, as most such clients have left: its long poll ends without messages.
    cdef EphPop* j = <EphPop*>r.job
    if r.replied:
        # the answer waits for answers before it, and can be taken back
        if r.on_unsent != NULL:
            ephjob_unsent(r)
            reply_begin(r, 204, NULL)
        return
    j.client_gone = True
    if ephjob_unpark(r.worker, j):
        reply_empty(job_end(&j.job))

cdef void ephjob_unsent(Request* r) noexcept nogil:
    # Gives back what was leased for an answer that did not leave.
    r.on_unsent = NULL
    r.on_end = NULL
    ephjob_give_back(r.worker, <EphPop*>r.job)
    r.job = NULL

cdef void ephjob_give_back(Worker* w, EphPop* j) noexcept nogil:
    # Makes the messages of an answer ready again, as if they had not been delivered.
    cdef EphStripe* s = stripe_of(j.req.queue)
    cdef EphPop* wake = NULL
    cdef EphQueue* q
    cdef EphGroup* g = NULL
    cdef EphFlight* f
    cdef int i
    stripe_lock(s, clock_mono_us(), &wake)
    q = stripe_find(s, j.req.queue)
    if q != NULL and q.life == j.life:
        g = ring_group_of(q, j.req.group)
    for i in range(j.n_taken if g != NULL else 0):
        f = ring_flight(g, j.taken[i].message)
        if f != NULL and f.leased and f.attempts == j.taken[i].attempts:
            ring_again(f, &wake)
    stripe_unlock(s)
    ephjob_send(w, wake)
