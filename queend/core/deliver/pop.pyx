# The way of a pop. In: a request. Out: a call, a parked pop, or an answer. Owner: the pop's worker. Its states are
# places (JobAt): PENDING → RESOLVING, ASKING (names, group) → LEASING (candidates) → FETCHING → its answer (completed,
# empty or failed). In FETCHING one statement claims and reads for many pops (deliver/popcall), or claims records in
# memory (settle/claimcall). A long poll that is empty goes to PARKED in the book, then to WOKEN and RETRYING. Locks:
# catalog.lock, then book.lock.

cdef JobKind POP_JOB
POP_JOB.op = OP_POP
POP_JOB.ask = pop_ask
POP_JOB.name_refused = pop_name_refused
POP_JOB.retry = pop_retry
POP_JOB.refuse = popend_refuse
POP_JOB.until = popend_until
POP_JOB.expire = popend_expire

cdef enum:
    POP_TRIES = 20            # look-ups of names since the pop was last woken

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void pop_submit(Worker* w, Request* r, int route) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef PopJob* j = <PopJob*>arena_zero(&r.arena, sizeof(PopJob))
    cdef ApiError err
    r.op = OP_POP
    if j == NULL:
        reply_error(r, 503, "Out of memory")
        return
    if not popquery_parse(route, r.path, r.query, &r.arena, e.settings, &j.req, &err):
        reply_error(r, err.status, err.text)
        return
    if r.asks & ASK_EVENTS and not j.req.frames:
        # At equal weights JSON: clients made by openapi-generator list every type that an answer may have.
        j.req.events = (j.req.events or header_accept(r.headers_raw, EVENTS_TYPE)
                        > header_accept(r.headers_raw, JSON_TYPE))
    if r.grant != NULL and j.req.route != ROUTE_POP_ANY and not gate_pops(r, j.req.queue, j.req.group):
        gate_refuse(r, b"pop", j.req.queue, j.req.group)
        return
    pop_begin(w, r, j)

cdef void pop_begin(Worker* w, Request* r, PopJob* j) noexcept nogil:
    # Begins a pop whose parameters are read and allowed.
    job_open(&j.job, r, &POP_JOB, r.body.n)
    j.deadline.owner = j
    j.any_queue = j.req.route == ROUTE_POP_ANY
    if req_has_partition(j.req.route):
        j.want_partition = j.req.partition
    if j.req.wait and j.req.timeout_ms > 0 and not r.conn.half:
        # 50 ms early (timeouts of at least 1 s), so that the answer reaches clients that count to the same number
        j.until_us = r.started_us + j.req.timeout_ms * <int64_t>1000 - (50000 if j.req.timeout_ms >= 1000 else 0)
        if r.grant != NULL:
            j.until_us = gate_until(r, j.until_us)
    if j.req.autopilot and not j.req.partitions_given:
        j.req.partitions = PILOT_PARTITIONS
    j.width = 1 if j.want_partition.p != NULL else j.req.partitions
    r.on_gone = popend_client_gone
    if j.until_us:
        r.on_end = popend_eof
    if pops_paused:
        popend_pause(w, j)
    else:
        pop_try(w, j)

# ---- one attempt -----------------------------------------------------------------------------------------------------

cdef void pop_try(Worker* w, PopJob* j) noexcept nogil:
    # Makes one attempt: looks up names, then chooses candidates. The pop ends in a call, in a look-up, parked, or
    # answered.
    cdef Engine* e = engine_of(w)
    j.rate_limited = False
    if j.client_gone:
        pop_pass(w, j)
        popend_forget(j)
        return
    if e.stopping:
        popend_empty(j, WHY_NO_PARTITION)
        return
    if popend_token_over(j):
        pop_pass(w, j)
        popend_verify(j)
        return
    if not pop_names(w, j):
        return
    if j.req.sub_new and (j.any_queue or j.queue == NULL):
        # its group begins `new`, and asks for a queue that does not exist, or for a namespace or task
        uv_mutex_lock(&book.lock)
        waiters_first_note(pop_awaited_key(j), j.job.r.started_us, clock_mono_us())
        uv_mutex_unlock(&book.lock)
    if j.group == NULL:
        pop_wait_or_answer(w, j, WHY_NOT_FOUND if j.want_partition.p != NULL else WHY_NO_PARTITION)
        return
    if j.req.feed and popjob_conflation(j) == CONFLATION_CONFLICT:
        # the events of a stream have no place for it
        job_refuse(&j.job, 400, b"The group does not conflate, because it began without conflation")
        return
    pop_claim(w, j)

cdef void pop_pass(Worker* w, PopJob* j) noexcept nogil:
    # Passes on the wake-up of a pop that will not take messages: wakes one waiter for each partition that it might have
    # had.
    cdef PopJob* wake = NULL
    cdef int n
    if j.group == NULL:
        return
    uv_mutex_lock(&book.lock)
    rate_settle(j, 0, &wake)
    if j.only != NULL and j.only.state == CURSOR_READY:
        waiters_wake_cursor(j.only, &wake)
    for n in range(min(j.width, j.group.n_ready) if not j.group.paused else 0):
        if j.group.wait_first != NULL:
            waiters_wake(j.group.wait_first, &wake)
    index_unlock(w, wake)

# ---- its names -------------------------------------------------------------------------------------------------------

cdef bint pop_names(Worker* w, PopJob* j) noexcept nogil:
    # Looks up queue, group and (for a specific pop) partition. Returns False if the pop waits for the database. If a
    # name is unknown, returns True with group NULL.
    cdef bint ask = False
    if j.reserved:
        return True           # woken with tokens: keeps its queue and group
    j.partition = NULL
    j.only = NULL
    j.group = NULL
    j.queue = NULL
    j.n_claims = 0
    j.known = False
    j.looked_up = True
    j.job.r.pin = <uint8_t>epoch_renew(j.job.r.worker.pins, j.job.r.pin)
    uv_rwlock_rdlock(&catalog.lock)
    if j.any_queue:
        ask = not pop_any_choose(j)
    else:
        j.queue = catalog_queue(j.req.queue)
        if j.queue != NULL:
            j.group = catalog_group(j.queue, j.req.group)
        if j.group != NULL and j.want_partition.p != NULL:
            j.partition = catalog_partition(j.queue, j.want_partition)
        j.known = j.queue != NULL
        if j.queue == NULL:
            # unknown names cause at most one reload every 200 ms, which answers for all of them
            ask = catalog.version == VERSION_NONE or (not j.asked and clock_mono_us() - reload_at > 200000)
        elif j.group == NULL:
            ask = True
        elif j.partition == NULL and j.want_partition.p != NULL:
            ask = not j.asked
            j.group = j.group if ask else NULL
    uv_rwlock_rdunlock(&catalog.lock)
    if not ask or j.job.tries >= POP_TRIES:
        return True
    j.job.tries += 1
    j.asked = True
    if j.queue == NULL:
        joblist_add(&engine_of(w).wait_reload, &j.job)
        catalog_want_reload(w)
    else:
        joblist_add(&engine_of(w).resolving, &j.job)
    return False

cdef inline uint64_t pop_awaited_key(PopJob* j) noexcept nogil:
    # Returns the key of what a pop waits for by name (ready/waiters).
    return waiters_first_key(j.any_queue, j.req.ns if j.any_queue else j.req.queue,
                             j.req.task if j.any_queue else slice_of(NULL, 0), j.req.group)

# ---- a namespace or task ---------------------------------------------------------------------------------------------
# Chooses the queue that is served. The group is made in each queue that matches, at most ANY_ASKS at a time. That is
# done before the first look, and again if no other queue has messages.

cdef enum:
    ANY_ASKS = 64             # queues in which a round of look-ups makes the group for such a pop

cdef bint pop_any_matches(PopJob* j, Queue* q) noexcept nogil:
    if q.dead:
        return False
    if j.req.ns.n and not slice_eq(j.req.ns, q.ns):
        return False
    if j.req.task.n and not slice_eq(j.req.task, q.task):
        return False
    return gate_pops(j.job.r, q.name, j.req.group)

cdef bint pop_any_choose(PopJob* j) noexcept nogil:
    # Chooses a matching queue that has something ready, or may have: the one of the highest priority. Among equals the
    # queue that was passed over most often is chosen. One pop in QUEEND_PRIORITY_SHARE goes to the most passed-over
    # queue of a lower priority. Returns False if the group has to be made first (j.queue: a queue without it). Requires
    # catalog.lock.
    cdef uint32_t share = engine_of(j.job.r.worker).settings.priority_share
    cdef Queue* q = catalog.list
    cdef Group* g
    cdef Group* top = NULL
    cdef Group* low = NULL
    cdef int missing = 0
    while q != NULL:
        if pop_any_matches(j, q):
            j.known = True
            if catalog_group(q, j.req.group) == NULL:
                j.queue = q
                missing += 1
        q = q.next
    if missing < j.missing:
        j.job.tries = 0       # more queues know the group now: tries begin anew
    j.missing = missing
    if missing and not j.asked:
        return False
    uv_mutex_lock(&book.lock)
    q = catalog.list
    while q != NULL:
        g = pop_any_ready_group(j, q)
        if g != NULL and (top == NULL or q.priority > top.queue.priority
                          or (q.priority == top.queue.priority and g.passed > top.passed)):
            top = g
        q = q.next
    q = catalog.list if top != NULL else NULL
    while q != NULL:
        g = pop_any_ready_group(j, q)
        if g != NULL:
            g.passed += 1
            if q.priority < top.queue.priority and (low == NULL or g.passed > low.passed):
                low = g
        q = q.next
    if low != NULL:
        top.favoured += 1
        if share and top.favoured >= share:
            top.favoured = 0
            top = low
    if top != NULL:
        top.passed = 0
        j.queue = top.queue
        j.group = top
    uv_mutex_unlock(&book.lock)
    return top != NULL or missing == 0

cdef inline Group* pop_any_ready_group(PopJob* j, Queue* q) noexcept nogil:
    # Returns the pop's group of a queue if it has something ready, or was not scanned yet; else NULL. Requires
    # catalog.lock and book.lock.
    cdef Group* g
    if not pop_any_matches(j, q):
        return NULL
    g = catalog_group(q, j.req.group)
    if g == NULL or g.paused:
        return NULL
    group_used(g)
    if q.shared and rate_empty(g):
        rates_look(rate_next(g), True)        # the pop is woken when there are tokens again
        return NULL
    return g if g.n_ready or g.scan != SCAN_DONE else NULL

cdef bint pop_any_leased(PopJob* j) noexcept nogil:
    # Returns True if the pop's group has leases in a matching queue. Takes catalog.lock and book.lock.
    cdef Queue* q
    cdef Group* g
    cdef bint held = False
    index_lock_all()
    q = catalog.list
    while q != NULL and not held:
        if pop_any_matches(j, q):
            g = catalog_group(q, j.req.group)
            held = g != NULL and g.n_leased > 0
        q = q.next
    index_unlock_all(NULL, NULL)
    return held

cdef void pop_any_ask(Engine* e, PopJob* j) noexcept nogil:
    # Asks for the group in at most ANY_ASKS matching queues without it. Requires catalog.lock.
    cdef Queue* q = catalog.list
    cdef int n = 0
    while q != NULL and n < ANY_ASKS:
        if pop_any_matches(j, q) and catalog_group(q, j.req.group) == NULL:
            pop_ask_group(e, j, q)
            n += 1
        q = q.next

# ---- its candidates --------------------------------------------------------------------------------------------------

cdef void pop_claim(Worker* w, PopJob* j) noexcept nogil:
    # Takes candidates from the book. If there is none, the pop parks or is answered. This is decided under the same
    # lock, so no wake-up is missed.
    cdef Engine* e = engine_of(w)
    cdef int take
    cdef bint parked = False
    cdef bint looks_on = False
    cdef const char* refused = NULL
    cdef bint cached = False
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    if j.req.autopilot and not j.group.conflates:
        pop_choose(j)
    take = index_take(j)
    if j.n_claims == 0:
        rate_settle(j, 0, &wake)
    if j.n_claims:
        cached = pop_take_cached(j, &wake)
    elif take == TAKE_DONE or take == TAKE_PAUSED or take == TAKE_RATE:
        if take == TAKE_RATE:
            # Parks until the database has said whether there are tokens. If there are none, a long poll parks until
            # there are, or by name if another queue may have messages.
            j.rate_limited = not rate_empty(j.group) or not j.any_queue
            parked = not rate_empty(j.group) or j.until_us > clock_mono_us()
        elif j.only == NULL and j.group.scan != SCAN_DONE and take == TAKE_DONE:
            parked = True         # not scanned yet: the scan wakes it, even if it finds nothing
        elif j.until_us > clock_mono_us():
            parked = not j.any_queue
            looks_on = j.any_queue
        else:
            book.missed_us = clock_mono_us()
        refused = pop_park(e, j) if parked else NULL
    index_unlock(w, wake)
    if take == TAKE_SHORT:
        refused = "Out of memory"
    if refused != NULL:
        job_refuse(&j.job, 503, refused)
    elif looks_on:
        pop_wait_or_answer(w, j, j.why)       # another queue may have something
    elif parked:
        return                    # another thread may have taken it out of the book: no field may be read
    elif j.n_claims:
        job_queue(&j.job, &e.claims.jobs if cached else &e.pops.jobs)
    elif take == TAKE_STALE:
        job_queue(&j.job, &e.woken)
    else:
        popend_empty(j, j.why)

cdef void pop_choose(PopJob* j) noexcept nogil:
    # Chooses batch and partitions that the client left to the daemon. If nothing is ready, the pop waits for as many
    # partitions as fill its batch. Requires book.lock.
    cdef Handling* seen = &j.group.handling
    if not j.req.batch_given:
        j.req.batch = autopilot_batch(seen, j.req.lease_s * <int64_t>1000000 if j.req.lease_s else j.queue.lease_us)
    if not j.req.partitions_given and j.group.n_ready:
        j.req.partitions = autopilot_width(seen, j.req.batch, j.group.n_ready, j.group.n_wait)
    elif not j.req.partitions_given:
        j.req.partitions = autopilot_fills(seen, j.req.batch)

cdef bint pop_take_cached(PopJob* j, PopJob** wake) noexcept nogil:
    # Chooses rows in memory for the candidates. Returns False if they cannot answer all of them. The rows are
    # referenced until the claim is made and the answer is written (settle/claimcall). Candidates beyond the pop's
    # budget become ready again. Requires book.lock.
    cdef int64_t now
    cdef int got
    cdef int left = j.req.batch
    cdef size_t bytes = 0
    cdef int i
    cdef int n = 0
    cdef CachedRow* r
    cdef Claim* c
    if (j.job.isolated or rowcache.first == NULL or queue_holds_back(j.queue) or j.queue.ttl_us
            or j.group.conflates):
        return False
    now = clock_mono_us()
    for i in range(j.n_claims):
        c = &j.claims[i]
        if c.cursor.partly_acked or rowcache_find(c.cursor.partition, c.cursor.next_offset, now) == NULL:
            return False
    while n < j.n_claims and left and bytes < CLAIM_BYTES:
        c = &j.claims[n]
        c.first = c.cursor.next_offset
        r = rowcache_find(c.cursor.partition, c.first, now)
        c.cached = r
        while r != NULL and left and bytes < CLAIM_BYTES:
            got = <int>min(r.base + r.n - c.first - c.take, left)
            c.take += got
            left -= got
            bytes += r.bytes
            r.refs += 1
            r = r.newer
        n += 1
    for i in range(n, j.n_claims):
        claim_undo(engine_of(j.job.r.worker), &j.claims[i], False, wake)
    j.n_claims = n
    return True

# ---- parked or answered ----------------------------------------------------------------------------------------------

cdef const char* pop_park(Engine* e, PopJob* j) noexcept nogil:
    # Parks a pop: other threads may take it out of the book from now on. Returns NULL, or why it does not wait.
    # Requires book.lock.
    cdef int64_t until = j.until_us
    if j.until_us and not j.job.long_polls and job_crowded(&j.job):
        e.worker.counters.not_parked += 1
        return "Too many pops are waiting; try again"
    if popend_token_stale(j):
        until = 0             # popend_deadline lets its token be verified
    elif not until:
        until = clock_mono_us() + e.patience_us
    if not heap_add(&e.deadlines, &j.deadline, until):
        return "Out of memory"
    if not waiters_park(j):
        heap_del(&e.deadlines, &j.deadline)
        return "Out of memory"
    if j.until_us and not j.job.long_polls:
        job_set_polls(&j.job, 1 + <int>(j.job.r.arena.size // PARKED_UNIT))
    job_park(&j.job)
    return NULL

cdef void pop_wait_or_answer(Worker* w, PopJob* j, int why) noexcept nogil:
    # Parks or answers a pop without a group to wait in: an unknown name, or a namespace without work. Also a specific
    # pop whose statement found nothing: it waits for its cursor to become ready. Another worker may have made what it
    # waits for since it looked, so it looks again under the locks under which it parks.
    cdef Engine* e = engine_of(w)
    cdef const char* refused = NULL
    cdef bint again
    cdef bint named = j.only == NULL
    if j.until_us <= clock_mono_us() or e.stopping:       # at a stop no event would wake it
        if named:
            uv_mutex_lock(&book.lock)
            book.missed_us = clock_mono_us()
            uv_mutex_unlock(&book.lock)
        popend_empty(j, why)
        return
    if named:
        uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    if named:
        again = j.job.tries < POP_TRIES and pop_exists_now(j)
    else:
        again = j.only.state == CURSOR_READY or index_pop_stale(j)
    if not again:
        refused = pop_park(e, j)
    uv_mutex_unlock(&book.lock)
    if named:
        uv_rwlock_rdunlock(&catalog.lock)
    if again:
        job_queue(&j.job, &e.woken)
    elif refused != NULL:
        job_refuse(&j.job, 503, refused)

cdef bint pop_exists_now(PopJob* j) noexcept nogil:
    # Returns True if what the pop did not find exists now. Requires catalog.lock and book.lock.
    cdef Queue* q
    if j.any_queue:
        q = catalog.list
        while q != NULL and not (pop_any_matches(j, q) and (catalog_group(q, j.req.group) == NULL
                                                            or pop_any_ready_group(j, q) != NULL)):
            q = q.next
        return q != NULL
    q = catalog_queue(j.req.queue)
    return q != NULL and (j.queue == NULL or j.want_partition.p != NULL
                          and catalog_partition(q, j.want_partition) != NULL)

# ---- missing names ---------------------------------------------------------------------------------------------------

cdef void pop_ask(Engine* e, Job* job) noexcept nogil:
    cdef PopJob* j = <PopJob*>job
    if j.queue == NULL or j.queue.dead:
        return
    if j.any_queue:
        pop_any_ask(e, j)
    elif catalog_group(j.queue, j.req.group) == NULL:
        pop_ask_group(e, j, j.queue)
    if j.want_partition.p != NULL and catalog_partition(j.queue, j.want_partition) == NULL:
        ask_names(e, ASK_PARTITION, j.queue.name, j.want_partition, j.queue.id)

cdef void pop_ask_group(Engine* e, PopJob* j, Queue* q) noexcept nogil:
    # Asks for the pop's group in a queue, with the start that it requests. If a group with start `new` had to wait for
    # the queue, it begins with its first request (pop_first_us). Requires catalog.lock.
    cdef int64_t first_us = pop_first_us(j, q) if j.req.sub_new and clock_db_known() else 0
    if first_us:
        ask_group(e, q, j.req.group, slice_lit(b"waited"), True, clock_db_at(first_us), j.req.conflation)
    else:
        ask_group(e, q, j.req.group, slice_lit(b"new") if j.req.sub_new else slice_lit(b"all"), j.req.sub_from_valid,
                  j.req.sub_from_us, j.req.conflation)

cdef int64_t pop_first_us(PopJob* j, Queue* q) noexcept nogil:
    # Returns when the pop's group first asked for the queue by name, or by namespace and task (monotonic). Returns 0 if
    # it did not ask before the queue was there, or a group of the queue was deleted or moved since. Requires
    # catalog.lock.
    cdef int64_t now = clock_mono_us()
    cdef int64_t first_us = 0
    cdef Awaited* a
    uv_mutex_lock(&book.lock)
    a = waiters_first(waiters_first_key(False, q.name, slice_of(NULL, 0), j.req.group), now)
    if a != NULL:
        first_us = a.first_us
    a = waiters_first(pop_awaited_key(j), now) if j.any_queue else NULL
    if a != NULL and (first_us == 0 or a.first_us < first_us):
        first_us = a.first_us
    uv_mutex_unlock(&book.lock)
    return first_us if first_us > q.moved_us else 0

cdef void pop_name_refused(Round* r, Job* job) noexcept nogil:
    cdef PopJob* j = <PopJob*>job
    if j.queue != NULL:
        ask_is_refused(r, job, True, j.queue.name, j.req.group)

cdef void pop_retry(Engine* e, Job* job) noexcept nogil:
    job_queue(job, &e.woken)
