# Names to ids, in rounds. In: jobs in `resolving`, which miss names. Out: entries of the catalog (find/ask), and the
# jobs tried again. A round asks for what its jobs miss, a statement per kind. Each worker has one round at a time: a
# job that misses a name meanwhile joins the next one. A round has at most ROUND_NAMES, which clients share: a client
# that makes thousands of names delays others by one round. Owner: the worker. Locks: catalog.lock.

cdef enum:
    ASK_TRIES = 200           # tries of a statement whose connection was lost
    ROUND_NAMES = 500         # names of a round; making one takes 65 us
    ROUND_SHARE = 250         # names of one client, if several ask

cdef const char* NAMES_NOT = "The names could not be looked up"

cdef void lookup_drain(Engine* e) noexcept nogil:
    # Starts a round if there is something to ask, and sends what was not sent yet.
    cdef int64_t pause_until
    if not e.round.running:
        if e.resolving.first == NULL:
            return
        pause_until = e.round.pause_until
        memset(&e.round, 0, sizeof(Round))
        e.round.pause_until = pause_until
        e.round.running = True
        e.round.why = 503
        arena_open(&e.round.arena, &e.worker.chunks)
        uv_rwlock_rdlock(&catalog.lock)
        e.round.incarnation = catalog.incarnation
        lookup_gather(e)
        uv_rwlock_rdunlock(&catalog.lock)
    if e.round.incarnation != catalog.incarnation:
        e.round.waiting = NULL        # its ids mean other things now: all jobs ask anew
    while e.round.waiting != NULL and clock_mono_us() >= e.round.pause_until:
        if not lookup_send(e, e.round.waiting):
            break
    if not e.round.running:
        return                # a call ended inside slot_send and ended the round
    if e.round.waiting == NULL and e.round.flying == 0:
        lookup_end(e)
    elif e.round.flying == 0 and not slotpool_ready(e.slots):
        lookup_expire(e)

# ---- a round begins --------------------------------------------------------------------------------------------------

cdef void lookup_gather(Engine* e) noexcept nogil:
    # Lets jobs ask for what they miss, in the order they came, until the round has ROUND_NAMES. A job that goes alone
    # has a round of its own. If several clients ask, each asks for at most ROUND_SHARE names. A job that misses more
    # asks again in later rounds; clients that arrive meanwhile have their share before that. Requires catalog.lock.
    cdef Round* r = &e.round
    cdef Job* job = e.resolving.first
    cdef int share = ROUND_NAMES
    cdef int had
    cdef int room
    while job != NULL and share > ROUND_SHARE:
        if job.client != e.resolving.first.client:
            share = ROUND_SHARE
        job = job.next
    joblist_open(&r.passed, JOB_RESOLVING)
    joblist_open(&r.jobs, JOB_ASKING)
    while e.resolving.first != NULL and r.names < ROUND_NAMES and not (e.resolving.first.isolated and r.jobs.n):
        job = joblist_take(&e.resolving)
        had = <int><uintptr_t>table_get(&r.asked, job.client)
        if had >= share:
            joblist_add(&r.passed, job)
            continue
        room = min(share - had, ROUND_NAMES - r.names)
        r.room = room
        job.kind.ask(e, job)
        if r.room == 0 and job.tries:
            job.tries -= 1        # it did not ask for all it misses: this round is no try
        if r.room < room:
            r.names += room - r.room
            table_put(&r.asked, job.client, <void*><uintptr_t>(had + room - r.room))
        joblist_add(&r.jobs, job)
        if job.isolated:
            break
    table_free(&r.asked)

cdef bint lookup_send(Engine* e, Ask* a) noexcept nogil:
    # Statements of a round do not come before other work: half of the slots are left to that.
    if e.round.flying >= max(e.slots.ready // 2, 1) or slotpool_take_shared(e.slots) == NULL:
        return False
    a.finds = a.kind == ASK_GROUP and atomic_get64(&doubt.commits) != 0
    call_begin(&a.base, e, STMT_GROUPS_FIND if a.finds else ASK_STATEMENTS[a.kind], lookup_done)
    if STATEMENTS[a.base.statement].fenced and not a.unhurried:
        a.base.deadline_ms = min(a.base.deadline_ms, ANSWER_MS)
    ask_write(e, a)
    a.cleanings = catalog.cleanings
    if a.first_us == 0:
        a.first_us = clock_mono_us()
    e.round.waiting = a.next
    e.round.flying += 1
    return call_send(&a.base)

# ---- an answer -------------------------------------------------------------------------------------------------------

cdef void lookup_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Ask* a = <Ask*>c
    cdef Engine* e = c.engine
    cdef const Verdict* v = sqlstate_of(res)
    e.round.flying -= 1
    if outcome >= SLOT_UNSENT:
        lookup_requeue(e, a)
        return
    if outcome == SLOT_OK:
        ask_take(a, res)
    elif lookup_retries(a, v, outcome):
        # Every slot may have lost its connection at once: more tries than slots, and a pause of 20 ms from the third
        # try on.
        a.tries += 1
        lookup_requeue(e, a)
        if a.tries > 2:
            e.round.pause_until = c.ended_us + 20000
    else:
        e.round.failures += 1
        e.round.apart = res != NULL and sqlstate_isolates(v.error_class)
        e.round.server_error = v if res != NULL else NULL
        if v.error_class == ERROR_DATA:
            e.round.why = 500
        log_line(b"error", b"lookup_refused", pg_error(res))
    lookup_drain(e)

cdef bint lookup_retries(Ask* a, const Verdict* v, int outcome) noexcept nogil:
    # Returns True if a statement that failed, or had no answer, is sent again.
    cdef Call* c = &a.base
    if outcome == SLOT_ERROR:
        return sqlstate_retries(v.error_class, a.tries + 1, c.ended_us - a.first_us, c.engine.patience_us)
    if outcome == SLOT_DEADLINE and STATEMENTS[c.statement].fenced:
        return lookup_overdue(a, c.ended_us)
    return a.tries < ASK_TRIES

cdef bint lookup_overdue(Ask* a, int64_t now) noexcept nogil:
    # Returns True if a statement that makes names, and had no answer before its deadline, is sent again. While commits
    # hang, a group may be found, but nothing can be made. If there is a failover buffer and the database stored nothing
    # for others either, pushes go into the buffer.
    cdef Call* c = &a.base
    if c.deadline_ms >= ANSWER_MS:
        health_check_commits(c.sent_us, now)
    if atomic_get64(&doubt.commits):
        return a.kind == ASK_GROUP
    if spool.on and a.kind != ASK_GROUP and not a.unhurried and not health_others_store(c.sent_us, now):
        spool.doubt = True
        return False
    a.unhurried = True
    return now - a.first_us <= c.engine.patience_us

cdef inline void lookup_requeue(Engine* e, Ask* a) noexcept nogil:
    a.next = e.round.waiting
    e.round.waiting = a

# ---- a round ends ----------------------------------------------------------------------------------------------------

cdef void lookup_end(Engine* e) noexcept nogil:
    # Ends a round: its jobs try again. A job that misses the same name too often gives up by itself.
    cdef JobList jobs = e.round.jobs
    cdef Job* job = jobs.first
    cdef bint failed = e.round.failures > 0
    cdef char[VERDICT_TEXT] text
    cdef bint apart = failed and e.round.apart and jobs.n > 1
    while e.round.refused.used and job != NULL:
        if job.kind.name_refused != NULL:
            job.kind.name_refused(&e.round, job)
        job = job.next
    table_free(&e.round.refused)
    e.round.running = False
    arena_close(&e.round.arena)
    if failed and e.round.server_error != NULL:
        sqlstate_text(text, NAMES_NOT, e.round.server_error)
    elif failed:
        snprintf(text, sizeof(text), b"%s: the database %s; try again", NAMES_NOT,
                 b"commits nothing" if atomic_get64(&doubt.commits) else b"did not answer in time")
    if failed and spool.on and (spool.doubt or atomic_get64(&doubt.commits)):
        lookup_fail_fast(e, text)
    while jobs.first != NULL:
        job = joblist_take(&jobs)
        if apart:
            job.isolated = True
        if job.bound:
            ask_answer_refused(e, job)
        elif failed and not apart:
            job.kind.refuse(job, e.round.why, text)
        elif e.round.reload and e.want_reload and job.kind.reloads:
            joblist_add(&e.wait_reload, job)
        else:
            job.kind.retry(e, job)
    while e.round.passed.first != NULL:
        joblist_add(&e.resolving, joblist_take(&e.round.passed))

cdef void lookup_fail_fast(Engine* e, const char* text) noexcept nogil:
    # Refuses jobs that have the failover buffer and would wait for the next round.
    cdef int n
    cdef Job* job
    while e.round.passed.first != NULL:
        joblist_add(&e.resolving, joblist_take(&e.round.passed))
    n = e.resolving.n
    while n > 0:
        n -= 1
        job = joblist_take(&e.resolving)
        if job.kind.fails_fast:
            job.kind.refuse(job, 503, text)
        else:
            joblist_add(&e.resolving, job)

cdef void lookup_expire(Engine* e) noexcept nogil:
    # Ends a round if there was no connection for longer than the patience: long polls wait on (job_outlasts), other
    # jobs are refused. If a job hurries to the failover buffer, ends the round earlier. Then only such jobs are
    # refused; other jobs wait for the next round.
    cdef JobList jobs = e.round.jobs
    cdef Job* job
    cdef int64_t now = clock_mono_us()
    cdef bint lost = e.unready_since != 0 and now - e.unready_since >= e.patience_us
    if jobs.n == 0 or e.unready_since == 0 or not (lost or (spool_fails_fast() and lookup_has_fast_job(jobs.first))):
        return
    e.round.running = False
    e.round.waiting = NULL
    table_free(&e.round.refused)
    arena_close(&e.round.arena)
    while jobs.first != NULL:
        job = joblist_take(&jobs)
        if not job_outlasts(job, &e.resolving, now):
            if job.kind.fails_fast or lost:
                job.kind.refuse(job, 503, health_why())
            else:
                joblist_add(&e.resolving, job)
    while e.round.passed.first != NULL:
        joblist_add(&e.resolving, joblist_take(&e.round.passed))

cdef bint lookup_has_fast_job(Job* job) noexcept nogil:
    while job != NULL and not job.kind.fails_fast:
        job = job.next
    return job != NULL
