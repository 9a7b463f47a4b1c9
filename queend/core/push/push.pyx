# A push request on its way into the log, and its answer. In: the request's body; results of its items (push/results).
# Out: items with their partitions, sent to their appenders in parts. When the last part is finished by its appender or
# by the failover buffer: the answer, or the request sent to the failover buffer. Owner: the request's worker. Locks:
# catalog.lock while names are looked up.

cdef JobKind PUSH_JOB
PUSH_JOB.op = OP_PUSH
PUSH_JOB.ask = push_ask
PUSH_JOB.name_refused = push_name_refused
PUSH_JOB.retry = push_resolve
PUSH_JOB.refuse = push_refuse
PUSH_JOB.fails_fast = True

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void push_submit(Worker* w, Request* r, int route) noexcept nogil:
    r.op = OP_PUSH
    offload_job(w, r, sizeof(PushJob), push_read_body, push_taken)

cdef bint push_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    cdef PushReq* q = &(<PushJob*>job).req
    if r.route.route == ROUTE_EVENTS:
        if not eventitem_read(r.headers_raw, r.asks & ASK_TRACE, r.path, r.query, r.body, t, q):
            return False
    elif not pushitems_read(r.headers_raw, r.query, r.body, t, q):
        return False
    elif r.asks & ASK_TRACE:
        trace_items(r.headers_raw, &r.arena, q.items, q.n)
    return not r.asks & ASK_KEY or ident_key_apply(r.headers_raw, r.grant, r.subject, &r.arena, q, &t.error)

cdef void push_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef PushJob* j = <PushJob*>job
    cdef Slice lacks
    if not good:
        reply_error(r, e.status, e.text)
        return
    if gate_names(r) and not gate_push(r, &j.req, &lacks):
        gate_refuse(r, b"push", lacks, slice_of(NULL, 0))
        return
    if j.req.n == 0:
        pushreply_put(reply_begin(r, 201, JSON_TYPE), &j.req, 0)
        reply_end(r)
        return
    job_open(&j.job, r, &PUSH_JOB, r.body.n + j.req.unpacked)
    push_chain(j)
    if spool.gate:
        failover_hooks.send(w, j)
    else:
        push_resolve(engine_of(w), &j.job)

cdef void push_chain(PushJob* j) noexcept nogil:
    # Chains all items of a request as unresolved. Requires at least one item.
    cdef int i
    for i in range(j.req.n - 1):
        j.req.items[i].next = &j.req.items[i + 1]
    j.req.items[j.req.n - 1].next = NULL
    j.unresolved = j.req.items

# ---- names -----------------------------------------------------------------------------------------------------------

cdef void push_resolve(Engine* e, Job* job) noexcept nogil:
    # Looks up the partitions of unresolved items. Sends the items on their way once all are known, else asks the
    # database for the names.
    cdef PushJob* j = <PushJob*>job
    cdef PushItem* it = j.unresolved
    cdef Queue* q = NULL
    cdef Partition* p = NULL
    cdef PushItem* before = NULL
    cdef bint missing = False
    cdef bint follows
    cdef bint sealed = False
    cdef bint limited = False
    push_names(j, False)
    if it == NULL:
        push_decided(j)
        return
    follows = e.naming and push_follows(j)
    uv_rwlock_rdlock(&catalog.lock)
    if catalog.spreads:
        spread_push(j)
        it = j.unresolved     # a run may have been opened
    while it != NULL:
        # consecutive items of one partition cost one look-up
        if before == NULL or not slice_eq(before.part, it.part) or not slice_eq(before.queue, it.queue):
            p = catalog_place(it.queue, it.part, &q)
            missing = missing or p == NULL
            sealed = sealed or (q != NULL and q.sealed)
            limited = limited or (q != NULL and q.max_size > 0)
        it.partition = p
        before = it
        it = it.next
    uv_rwlock_rdunlock(&catalog.lock)
    if not missing and not follows:
        if (not limited or capacity_admit(e, j)) and (not sealed or sealing_push(e.worker, j, False)):
            push_dispatch(e.worker, j)
    elif missing and j.job.tries >= JOB_TRIES:
        push_give_up(e.worker, j, 503, b"The queue is being deleted; try again")
    else:
        j.job.tries += missing
        push_names(j, True)
        joblist_add(&e.resolving, &j.job)

cdef inline void push_names(PushJob* j, bint naming) noexcept nogil:
    # Sets PushJob.naming. No other function changes it.
    engine_of(j.job.r.worker).naming += naming - j.naming
    j.naming = naming

cdef bint push_follows(PushJob* j) noexcept nogil:
    # Returns True if an earlier push of its connection waits for names: it waits too, so that both keep their order.
    cdef Request* r = j.job.r.conn.first if j.job.r.conn != NULL else NULL
    while r != NULL and r is not j.job.r:
        if r.op == OP_PUSH and r.job != NULL and (<PushJob*>r.job).naming:
            return True
        r = r.next
    return False

# ---- rounds of look-ups ----------------------------------------------------------------------------------------------

cdef void push_ask(Engine* e, Job* job) noexcept nogil:
    cdef PushJob* j = <PushJob*>job
    cdef PushItem* it = j.unresolved
    while it != NULL:
        if it.partition == NULL:
            ask_names(e, ASK_DRAINED if j.drain else ASK_RESOLVE, it.queue, it.part, 0)
        elif it.partition.queue.capacity.wanted:
            ask_names(e, ASK_SIZE, it.queue, it.queue, it.partition.queue.id)
        it = it.next
    if j.doubts:
        capacity_ask(e, j)

cdef void push_name_refused(Round* r, Job* job) noexcept nogil:
    # Records of the failover buffer were accepted before: they are bound by nothing.
    cdef PushItem* it = (<PushJob*>job).unresolved if not (<PushJob*>job).drain else NULL
    while it != NULL and not (it.partition == NULL and ask_is_refused(r, job, False, it.queue, it.part)):
        it = it.next

cdef void push_refuse(Job* job, int status, const char* text) noexcept nogil:
    # Handles a look-up that failed, or a name that may not be made (409): nothing of the push is stored. If other items
    # are in flight already, as the queue was deleted meanwhile, the remaining items count as not reached.
    cdef PushJob* j = <PushJob*>job
    push_names(j, False)
    if j.unresolved == NULL:
        push_decided(j)
    elif spool.on and status == 503 and not j.held and not j.drain:
        capacity_give_back(j)
        j.unreached = True
        failover_hooks.send(job.r.worker, j)
    else:
        push_give_up(job.r.worker, j, status, text)

# ---- items that cannot be sent ---------------------------------------------------------------------------------------

cdef void push_decided(PushJob* j) noexcept nogil:
    # Ends the look-up of a job that has no items left to send.
    if j.held:
        push_release(j)
    else:
        push_answer(j)

cdef void push_give_up(Worker* w, PushJob* j, int status, const char* why) noexcept nogil:
    # Gives up a push before it reached an appender. It is refused, memory ran out, or its names did not become
    # partitions in JOB_TRIES tries. The last happens if a client deletes the queue as fast as it is made.
    capacity_give_back(j)
    if j.held:
        # Other items of the job are in flight: the unresolved ones will not reach the database now.
        if not spool.on or j.drain or sealing_push(w, j, True):
            push_end_items(j, ITEM_UNREACHED, FAILED_UNREACHED)
    elif j.drain:
        failover_hooks.retry(spool.pause_us)
    else:
        job_refuse(&j.job, status, why)

cdef void push_end_items(PushJob* j, uint8_t status, int failed) noexcept nogil:
    # Ends the unresolved items with this status. Other items of the job are in flight.
    cdef PushItem* it = j.unresolved
    j.failed = max(j.failed, failed)
    j.unresolved = NULL
    while it != NULL:
        it.status = status
        it = it.next
    push_release(j)

# ---- parts -----------------------------------------------------------------------------------------------------------

cdef void push_dispatch(Worker* w, PushJob* j) noexcept nogil:
    # Cuts the resolved items into parts, one per appender that takes parts, and sends them there.
    cdef PushItem* it = j.unresolved
    cdef PushItem* following
    cdef PushPart* parts = <PushPart*>arena_zero(&j.job.r.arena, n_appenders * sizeof(PushPart))
    cdef PushPart* part
    cdef int i
    if parts == NULL:
        push_give_up(w, j, 503, b"Out of memory")
        return
    j.unresolved = NULL
    j.job.at = JOB_PUSHING
    while it != NULL:
        following = it.next
        i = ((it.partition.id) & (LANES - 1)) % n_appenders
        part = &parts[i]
        if part.left == 0:
            part.job = j
            part.stream = &appenders[i]
            part.check_ids = j.check_ids
            j.parts_left += 1
        link_append(<void**>&part.items, it)
        it.of_part = part
        part.left += 1
        it = following
    if not j.held:
        # a part that has no memory ends at once: the job has to outlast this loop, which reads its memory
        j.held = True
        j.parts_left += 1
    for i in range(n_appenders):
        if parts[i].left == 0:
            continue
        if appenders[i].worker is w:
            pusher_gather(&appenders[i], &parts[i])
        else:
            parts[i].msg.run = push_part_arrive
            worker_post(appenders[i].worker, &parts[i].msg)
    push_release(j)

cdef void push_part_arrive(Worker* w, InboxMsg* m) noexcept nogil:
    cdef PushPart* part = <PushPart*>m
    pusher_gather(part.stream, part)

cdef void push_release(PushJob* j) noexcept nogil:
    j.held = False
    j.parts_left -= 1
    if j.parts_left == 0:
        push_answer(j)

cdef void push_part_return(Worker* w, InboxMsg* m) noexcept nogil:
    push_part_done(<PushPart*>m)

cdef void push_part_done(PushPart* part) noexcept nogil:
    cdef PushJob* j = part.job
    if part.failed > j.failed:
        j.failed = part.failed
        j.server_error = part.server_error
    j.parts_left -= 1
    if j.parts_left == 0:
        push_answer(j)

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void push_answer(PushJob* j) noexcept nogil:
    # Finishes a push whose parts are all finished: answers it, or sends it to the failover buffer.
    if j.drain:
        failover_hooks.answered(j)
    elif j.failed == FAILED_UNREACHED and spool.on:
        j.spilled = True
        failover_hooks.send(j.job.r.worker, j)
    else:
        push_respond(j)

cdef void push_spilled(Worker* w, InboxMsg* m) noexcept nogil:
    # Answers a push that comes back from the failover buffer.
    cdef PushJob* j = <PushJob*>m
    if j.spill_why == SPILL_KEPT:
        w.counters.buffered += push_mark(j, ITEM_UNREACHED, ITEM_BUFFERED)
    push_respond(j)

cdef int push_mark(PushJob* j, uint8_t of, uint8_t to) noexcept nogil:
    # Changes status `of` of records to status `to`. Returns the number of records changed.
    cdef EachItem at
    cdef PushItem* it = runitem_first(&at, &j.req)
    cdef int n = 0
    while it != NULL:
        if it.status == of:
            it.status = to
            n += req_item_count(it)
        it = runitem_next(&at)
    return n

cdef void push_respond(PushJob* j) noexcept nogil:
    cdef Request* r = j.job.r
    cdef Counters* counters = &r.worker.counters
    cdef Buf* out
    cdef EachItem at
    cdef PushItem* it
    cdef Queue* queue = NULL
    cdef Tally* tally = NULL
    cdef int64_t bytes = 0
    cdef int counted = 0
    cdef int n = 0
    cdef bint kept = j.spilled and j.spill_why == SPILL_KEPT
    cdef bint stored = kept
    if j.limited:
        capacity_settle(j)
    it = runitem_first(&at, &j.req)
    while it != NULL:
        if it.partition != NULL and it.status <= ITEM_DUPLICATE:
            if it.partition.queue is not queue:
                if counted:
                    queue_measure(&queue.message_bytes, bytes // counted)
                queue = it.partition.queue
                bytes = 0
                counted = 0
                tally = &queue.tally[r.worker.index]
                tally.push_requests += 1
            tally.push_messages += req_item_count(it)
            bytes += <int64_t>req_item_bytes(it)
            counted += req_item_count(it)
        n += req_item_count(it)
        stored = result_answer(it, &j.req, counters) or stored
        it = runitem_next(&at)
    if counted:
        queue_measure(&queue.message_bytes, bytes // counted)
    if r.worker.spans.every:
        push_spans(r, &j.req, 201 if stored else 503)
    job_end(&j.job)
    counters.op[OP_PUSH].items += n
    if not stored and j.unsealed:
        sealing_refuse(r)
        return
    if not stored and j.spilled:
        push_respond_unkept(j)
        return
    if not stored and j.failed > FAILED_REFUSED:
        push_respond_none(j)
        return
    out = reply_begin_more(r, 201, JSON_TYPE, b"Idempotency-Replayed: true\r\n" if j.req.replayed else b"")
    pushreply_put(out, &j.req, n)
    reply_end(r)

cdef void push_respond_none(PushJob* j) noexcept nogil:
    # Refuses a push of which no record is known to be stored.
    cdef char[VERDICT_TEXT] text
    cdef Request* r = j.job.r
    cdef const char* why = b"The database did not answer in time"
    if j.server_error != NULL:
        sqlstate_text(text, b"Nothing is known to be stored", j.server_error)
    else:
        if not slotpool_ready(engine_of(r.worker).slots):
            why = health_why()
        snprintf(text, sizeof(text), b"%s; nothing is known to be stored, try again", why)
    reply_error(r, 503, text)

cdef void push_respond_unkept(PushJob* j) noexcept nogil:
    # Refuses a push that the failover buffer did not take. Names the reason for the buffer and that for the refusal.
    cdef char[2 * VERDICT_TEXT] text
    cdef char[VERDICT_TEXT] refused
    cdef Request* r = j.job.r
    cdef const char* why = b"Earlier messages of its partitions wait in the failover buffer"
    # A statement without an answer may have taken effect.
    cdef const char* known = b"known to be " if j.failed == FAILED_UNREACHED else b""
    if j.server_error != NULL:
        snprintf(refused, sizeof(refused), b"The database cannot store it (%s)", j.server_error.meaning)
        why = refused
    elif spool.paused:
        why = b"Push maintenance is on"
    elif not slotpool_ready(engine_of(r.worker).slots):
        why = health_why()
    elif j.failed == FAILED_UNREACHED or j.unreached or spool.gate == GATE_SHUT:
        why = b"The database does not answer"
        if atomic_get64(&doubt.disk_us):
            why = b"The database has no space on its disk"
    if j.spill_why == SPILL_FULL:
        snprintf(text, sizeof(text), b"%s and the failover buffer is full; nothing is %sstored, try again", why, known)
    elif j.spill_why == SPILL_SHARE:
        snprintf(text, sizeof(text), b"%s and the failover buffer keeps its last quarter for clients of other "
                 b"addresses; nothing is %sstored, try again", why, known)
    else:
        snprintf(text, sizeof(text),
                 b"%s and the failover buffer cannot be written (%s); nothing is %sstored, try again", why,
                 strerror(j.spill_error), known)
    reply_error(r, 503, text)

cdef void push_spans(Request* r, PushReq* q, int status) noexcept nogil:
    # Writes one span for consecutive items that share their headers, as items of a request without own traceparents do.
    cdef PushItem* it
    cdef PushItem* first = NULL
    cdef int64_t began = span_began(r)
    cdef int n = 0
    cdef int i
    for i in range(q.n):
        it = &q.items[i]
        if it.more == NULL or it.more.headers.n == 0:
            continue
        if first == NULL or it.more.headers.p != first.more.headers.p or not slice_eq(it.queue, first.queue):
            push_span(r, first, began, status, n)
            first = it
            n = 0
        n += req_item_count(it)
    push_span(r, first, began, status, n)

cdef void push_span(Request* r, PushItem* it, int64_t began, int status, int n) noexcept nogil:
    cdef Slice parent = span_parent(it.more.headers) if it != NULL else slice_of(NULL, 0)
    if parent.p != NULL:
        span_put(r.worker, SPAN_SEND, parent, began, status, n, it.queue, it.part, slice_of(NULL, 0),
                 it.offset if n == 1 and it.status <= ITEM_DUPLICATE else -1)
