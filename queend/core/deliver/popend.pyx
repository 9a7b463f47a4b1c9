# The end of a pop that delivers nothing. In: a pop whose time is over, that finds nothing, that is refused, that pop
# maintenance holds up, or whose client leaves. Out: its answer. If it was parked, it leaves the book; what was claimed
# for it is given back. Owner: the pop's worker. Locks: book.lock.

cdef enum:
    PAUSE_US = 1000000
    RENEWED = 1000            # long polls of a worker that popend_renew takes in half a second

cdef SharedFlag pops_paused         # process-wide; written by the control plane

# ---- pop maintenance -------------------------------------------------------------------------------------------------
# A pop finds nothing, and its answer says `paused`. A long poll is held for PAUSE_US (1 s), at most as long as it would
# have waited. So clients that ask again at once do not spin. It goes on when maintenance ends. Pops that were parked
# before stay parked.

cdef void popend_pause(Worker* w, PopJob* j) noexcept nogil:
    cdef int64_t until
    if j.until_us == 0:
        popend_paused(j)
        return
    until = clock_mono_us() + PAUSE_US
    j.paused_until = until if until < j.until_us and not j.req.feed else j.until_us      # a feed has no answer for it
    joblist_add(&engine_of(w).paused, &j.job)

cdef void popend_pauses_drain(Engine* e) noexcept nogil:
    cdef int n = e.paused.n
    cdef int64_t now = clock_mono_us()
    cdef Job* job
    while n:
        n -= 1
        job = joblist_take(&e.paused)
        if (<PopJob*>job).client_gone or not pops_paused:
            pop_try(e.worker, <PopJob*>job)
        elif e.stopping or now >= (<PopJob*>job).paused_until:
            popend_paused(<PopJob*>job)
        else:
            joblist_add(&e.paused, job)

cdef void popend_paused(PopJob* j) noexcept nogil:
    cdef Request* r = job_end(&j.job)
    cdef Buf* out = reply_begin(r, 200, JSON_TYPE)
    r.worker.counters.empty_pops += 1
    buf_text(out, b'{"messages":[],"paused":true')
    j.req.autopilot = False       # nothing was chosen
    popreply_end(out, &j.req, popend_conflation(j))
    reply_end(r)

# ---- deadlines -------------------------------------------------------------------------------------------------------

cdef bint popend_unpark(Worker* w, PopJob* j) noexcept nogil:
    # Takes a pop out of the book. Returns False if it was not parked: another thread or a call has it.
    cdef bint mine
    uv_mutex_lock(&book.lock)
    mine = waiters_has(j)
    waiters_unpark(j)
    uv_mutex_unlock(&book.lock)
    if mine:
        heap_del(&engine_of(w).deadlines, &j.deadline)
    return mine

cdef void popend_deadline(Worker* w, PopJob* j) noexcept nogil:
    # Handles the deadline of a parked pop. A long poll has run out, or a pop has waited for a scan or for tokens as
    # long as the patience lasts. If the pop was woken at the same moment, that attempt is its last.
    if not popend_unpark(w, j):
        return
    if popend_token_stale(j):
        popend_verify(j)
    elif j.until_us > clock_mono_us() and not j.client_gone:
        job_queue(&j.job, &engine_of(w).woken)
    elif j.until_us or j.client_gone:
        popend_empty(j, WHY_EXPIRED)
    else:
        popend_fail_unknown(j)

cdef int64_t popend_until(Job* job) noexcept nogil:
    # Returns the deadline of a long poll; 1, which has passed, if the daemon stops or the token has to be verified
    # again.
    cdef PopJob* j = <PopJob*>job
    if popend_token_stale(j) or j.until_us and not j.client_gone and engine_of(job.r.worker).stopping:
        return 1
    return j.until_us if not j.client_gone else 0

cdef void popend_expire(Job* job) noexcept nogil:
    if popend_token_stale(<PopJob*>job):
        popend_verify(<PopJob*>job)
    else:
        popend_empty(<PopJob*>job, WHY_EXPIRED)

# ---- tokens and epochs -----------------------------------------------------------------------------------------------

cdef inline bint popend_token_stale(PopJob* j) noexcept nogil:
    # Returns True if the token of a pop has to be verified again. A stream verifies its own (feed/feed).
    return req_grant_stale(j.job.r.grant) and j.job.r.feed == NULL and not j.client_gone

cdef inline bint popend_token_over(PopJob* j) noexcept nogil:
    # Returns True if the token is stale, or has expired by the wall clock. The pop's deadline, which is monotonic, may
    # come later: the clock was set, or the machine slept.
    cdef Grant* g = j.job.r.grant
    return (g != NULL and j.job.r.feed == NULL and not j.client_gone
            and (req_grant_stale(g) or g.expires_us <= clock_wall_us()))

cdef void popend_verify(PopJob* j) noexcept nogil:
    # Takes a pop out of the engine and lets its request come in again. A token that is still good gets a new pop with
    # the same deadline. Requires that the pop is neither parked nor in a list, and has no candidates.
    cdef Request* r = job_end(&j.job)
    r.on_end = NULL
    r.grant = NULL
    service.request(r.worker, r)

cdef void popend_verify_all(Engine* e) noexcept nogil:
    # Lets the deadline of each parked pop fire whose token has expired, or has to be verified again.
    cdef PopJob* j
    cdef int i
    cdef bint found = False
    for i in range(1, e.deadlines.n + 1):
        j = <PopJob*>e.deadlines.nodes[i].owner
        if popend_token_over(j):
            j.deadline.at = 0
            found = True
    if found:
        heap_order(&e.deadlines)

cdef void popend_renew(Engine* e) noexcept nogil:
    # Lets the deadlines of at most RENEWED long polls fire that are pinned to another epoch than the current one. They
    # look up their names in the current epoch and park again. This frees memory of deleted objects, which would be kept
    # for as long as they wait.
    cdef PopJob* j
    cdef int i
    cdef int n = 0
    for i in range(1, e.deadlines.n + 1):
        j = <PopJob*>e.deadlines.nodes[i].owner
        if j.until_us and j.job.r.pin and j.job.r.pin != 1 + <int>(epoch_now & 1):
            j.deadline.at = 0
            n += 1
            if n == RENEWED:
                break
    if n:
        heap_order(&e.deadlines)

# ---- the client leaves -----------------------------------------------------------------------------------------------

cdef void popend_client_gone(Request* r) noexcept nogil:
    # Handles a client that left. A parked pop is forgotten; what a pop in flight claims is given back.
    cdef PopJob* j = <PopJob*>r.job
    if j == NULL:
        return
    j.client_gone = True
    if popend_unpark(r.worker, j):
        popend_forget(j)

cdef void popend_eof(Request* r) noexcept nogil:
    # Handles a client that sends no more: the long poll is over, as most such clients have left.
    cdef PopJob* j = <PopJob*>r.job
    if r.replied:
        # the answer waits for answers before it, and can be taken back
        popend_unsent(r)
        reply_begin(r, 204, NULL)
        return
    j.client_gone = True             # in flight: what it claims is given back
    popend_deadline(r.worker, j)

cdef void popend_unsent(Request* r) noexcept nogil:
    # Gives back what was claimed for an answer that did not go out.
    r.on_unsent = NULL
    r.on_end = NULL
    claim_give_back(engine_of(r.worker), <PopJob*>r.job)
    r.job = NULL

cdef void popend_forget(PopJob* j) noexcept nogil:
    reply_empty(job_end(&j.job))

# ---- the answer ------------------------------------------------------------------------------------------------------
# A row of queend.paused, which comes with the catalog, pauses a queue or a group (Group.paused). A pop of a paused
# group finds nothing (reason: paused); a long poll is parked, and the reload that ends the pause wakes it. A claim sent
# before the pause was known is refused: it carries an older catalog version.

cdef void popend_empty(PopJob* j, int why) noexcept nogil:
    cdef Request* r = job_end(&j.job)
    cdef Buf* out
    r.worker.counters.empty_pops += 1
    if j.queue != NULL:
        j.queue.tally[r.worker.index].pop_requests += 1
        j.queue.tally[r.worker.index].pop_empty += 1
    out = reply_begin(r, 200, EVENTS_TYPE if j.req.events else JSON_TYPE)
    popreply_empty(out, &j.req, why, j.only.partition.uuid if j.only != NULL else NULL, popend_reason(j),
                   popend_conflation(j))
    reply_end(r)

cdef const char* popend_reason(PopJob* j) noexcept nogil:
    # Returns why the pop is empty, in the same words whether it waited or not.
    if j.looked_up and not j.known:
        return b"queue_not_found"
    if j.looked_up and j.want_partition.p != NULL and j.only == NULL:
        return b"partition_not_found"
    if j.group != NULL and j.group.paused:
        return b"paused"
    return b"leased" if j.looked_up and j.known and popend_leased(j) else b"empty"

cdef int popend_conflation(PopJob* j) noexcept nogil:
    # Returns what an answer without messages says about conflation, CONFLATION_*. A group that is not known yet will
    # conflate if the pop asks for it. A pop of a namespace or task conflicts if none of its groups conflates.
    cdef Queue* q
    cdef Group* g
    cdef int found = CONFLATION_NONE
    if not j.any_queue and j.group != NULL:
        return popjob_conflation(j)
    if not j.req.conflation:
        return CONFLATION_NONE
    uv_rwlock_rdlock(&catalog.lock)
    q = catalog.list if j.any_queue else catalog_queue(j.req.queue)
    while q != NULL and found != CONFLATION_ON:
        g = catalog_group(q, j.req.group) if not j.any_queue or pop_any_matches(j, q) else NULL
        if g != NULL:
            found = CONFLATION_ON if g.conflates else CONFLATION_CONFLICT
        q = q.next if j.any_queue else NULL
    uv_rwlock_rdunlock(&catalog.lock)
    return found if found != CONFLATION_NONE else CONFLATION_ON

cdef bint popend_leased(PopJob* j) noexcept nogil:
    # Returns True if a lease of the group holds messages that the pop asks for.
    cdef bint held = False
    if j.any_queue:
        return pop_any_leased(j)
    uv_mutex_lock(&book.lock)
    if j.only != NULL:
        held = j.only.state == CURSOR_LEASED or j.only.state == CURSOR_BUSY
    elif j.group != NULL:
        held = j.group.n_leased > 0
    uv_mutex_unlock(&book.lock)
    return held

cdef void popend_fail_unknown(PopJob* j) noexcept nogil:
    cdef char[VERDICT_TEXT] text
    cdef const char* why = b"What this group has to consume is not known yet; try again"
    cdef const Verdict* verdict
    uv_mutex_lock(&book.lock)
    verdict = book.scan_error
    uv_mutex_unlock(&book.lock)
    if verdict != NULL:
        why = sqlstate_text(text, b"What this group has to consume is not known yet", verdict)
    job_refuse(&j.job, 503, why)

cdef void popend_refuse(Job* job, int status, const char* text) noexcept nogil:
    if (<PopJob*>job).client_gone:
        popend_forget(<PopJob*>job)
    else:
        job_refuse(job, status, text)
