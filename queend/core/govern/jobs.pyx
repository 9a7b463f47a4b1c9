# A job: one request on its way through the engine. In: requests, and outcomes of calls. Out: exactly one answer for
# each. Owner: the request's worker; no lock: what another thread does for a job comes back through the inbox. A job
# stands in its request's arena.

cdef enum:
    PARKED_UNIT = 16384       # a long poll counts as one more for each so many bytes

cdef int64_t jobs_long_polls    # long polls of all workers that were parked and are not answered yet

cdef inline void job_count(Job* j, int n) noexcept nogil:
    # Counts the job, or no longer, as waiting for PostgreSQL: for its worker, and for the address of its client.
    cdef Request* r = j.r
    engine_of(r.worker).queued_jobs += n
    r.queued = n > 0
    if r.conn != NULL:
        r.conn.address.jobs += n
    else:
        r.worker.jobs_gone += n

cdef inline bint job_full(Engine* e, const Conn* c) noexcept nogil:
    # Returns True if the connection may begin no further job: max_queued_jobs wait, and its address has its share of
    # them. Jobs whose clients have left may be of any address.
    return budget_over_share(e.queued_jobs + 1, e.settings.max_queued_jobs,
                             c.address.jobs + e.worker.jobs_gone + 1 if c != NULL else 0)

cdef void job_park(Job* j) noexcept nogil:
    # Counts a long poll as parked, until job_unpark.
    j.parked = True
    held_drop(j.r)            # long polls have a bound of their own
    j.r.worker.counters.parked += 1
    job_count(j, -1)

cdef inline void job_unpark(Job* j) noexcept nogil:
    if j.parked:
        j.parked = False
        held_count(j.r)
        j.r.worker.counters.parked -= 1
        job_count(j, 1)

cdef inline bint job_crowded(Job* j) noexcept nogil:
    # Returns True if a long poll may not park: max_parked are parked, and its address has its share of them. All but
    # an eighth are kept for connections with one request in hand.
    cdef Conn* c = j.r.conn
    cdef int64_t n = atomic_get64(&jobs_long_polls)
    cdef int64_t most = j.r.worker.settings.max_parked
    return (budget_over_share(n + 1, most, atomic_get64(&c.address.client.long_polls) + 1 if c != NULL else 0)
            or n >= (most + 7) // 8 and c != NULL and c.owed > 1)

cdef void job_set_polls(Job* j, int polls) noexcept nogil:
    # Sets as how many long polls the job counts.
    cdef Conn* c = j.r.conn
    atomic_add64(&jobs_long_polls, polls - j.long_polls)
    if c != NULL:
        atomic_add64(&c.address.client.long_polls, polls - j.long_polls)
        c.long_polls += polls - j.long_polls
    j.long_polls = polls

cdef bint job_may_retry(Job* j, int blame, int64_t now) noexcept nogil:
    # Returns True if a job is tried once more after an error that was not its own.
    j.errors += 1 if j.errors < 255 else 0
    return sqlstate_retries(blame, j.errors, now - j.born_us, engine_of(j.r.worker).patience_us)

cdef void job_open(Job* j, Request* r, const JobKind* kind, size_t bytes) noexcept nogil:
    # Opens a job, which counts as waiting until it is parked or ends. bytes: of its body, unpacked.
    memset(j, 0, sizeof(Job))
    j.r = r
    j.kind = kind
    j.born_us = r.started_us
    j.bytes = bytes
    j.client = <uint64_t>r.conn if r.conn != NULL else CLIENT_NONE
    if r.arriving:
        request_settle(r)
    if r.pin == 0:
        r.pin = <uint8_t>epoch_pin(r.worker.pins)
    r.job = j
    r.op = kind.op
    r.worker.counters.live_jobs += 1
    job_count(j, 1)
    held_count(r)

cdef inline void job_queue(Job* j, JobList* list) noexcept nogil:
    # Lets a job wait for a statement, or to be tried next.
    job_unpark(j)
    j.queued_us = clock_mono_us()
    joblist_add(list, j)

cdef inline void job_queue_first(Job* j, JobList* list) noexcept nogil:
    j.queued_us = clock_mono_us()
    j.at = list.at
    j.next = list.first
    list.first = j
    if list.last == NULL:
        list.last = j
    list.n += 1

cdef void jobs_queue_first(JobList* jobs, JobList* list) noexcept nogil:
    # Puts jobs that were not sent back in front of the list, in their order. They keep the time they have waited.
    cdef Job* j = jobs.first
    if j == NULL:
        return
    while j != NULL:
        j.at = list.at
        j = j.next
    jobs.last.next = list.first
    if list.last == NULL:
        list.last = jobs.last
    list.first = jobs.first
    list.n += jobs.n
    joblist_open(jobs, <JobAt>jobs.at)

cdef void job_done(Job* j) noexcept nogil:
    # Takes a job out of the counts.
    job_unpark(j)
    if j.long_polls:
        job_set_polls(j, 0)
    j.r.worker.counters.live_jobs -= 1
    job_count(j, -1)

cdef Request* job_end(Job* j) noexcept nogil:
    # Ends a job. Returns its request, which is answered next, or leaves the engine.
    cdef Request* r = j.r
    job_done(j)
    r.job = NULL
    r.on_gone = NULL
    return r

cdef void job_refuse(Job* j, int status, const char* text) noexcept nogil:
    reply_error(job_end(j), status, text)

cdef void job_resolve(Job* j, const char* text) noexcept nogil:
    # Lets a job wait for a round of look-ups. Refuses it if that was in vain JOB_TRIES times.
    if j.tries >= JOB_TRIES:
        job_refuse(j, 503, text)
        return
    j.tries += 1
    joblist_add(&engine_of(j.r.worker).resolving, j)

cdef void jobs_failed(Call* c, PGresult* res, JobList* list, const CallTexts* texts) noexcept nogil:
    # Puts each job of a failed call back into its list, or refuses it.
    cdef Engine* e = c.engine
    cdef const Verdict* v = sqlstate_of(res)
    cdef bint shared = c.jobs.n > 1 and sqlstate_isolates(v.error_class)
    cdef Job* job
    cdef bint refused
    cdef char[VERDICT_TEXT] text
    e.want_reload = e.want_reload or v.reload
    if res != NULL:
        e.pause_until = c.ended_us + TROUBLE_PAUSE_US
    while c.jobs.first != NULL:
        job = joblist_take(&c.jobs)
        if res == NULL:
            job_refuse(job, 503, texts.unknown)
        elif job_may_retry(job, v.error_class, c.ended_us) or shared and not job.isolated:
            job.isolated = job.isolated or sqlstate_isolates(v.error_class)
            job_queue(job, list)
        else:
            log_line(b"error", texts.event, pg_error(res))
            refused = v.error_class == ERROR_DATA and texts.refused != NULL
            sqlstate_text(text, texts.refused if refused else texts.put_off, v)
            job_refuse(job, 500 if refused else 503, text)

cdef bint job_unsent(Job* job, JobList* list, int outcome, const char* large) noexcept nogil:
    # Puts the job of a call that was not sent back into its list, or refuses it. Returns False if the call was sent.
    # large: the answer if PostgreSQL takes no message of that size.
    if outcome == SLOT_UNSENT:
        job_queue_first(job, list)
    elif outcome == SLOT_TOO_LARGE:
        job.kind.refuse(job, 413, large)
    elif outcome == SLOT_NO_MEMORY:
        job.kind.refuse(job, 503, b"Out of memory")
    return outcome >= SLOT_UNSENT

cdef bint jobs_back(Call* c, PGresult* res, int outcome, JobList* list, const CallTexts* texts) noexcept nogil:
    # Puts each job of a call that was not sent, or failed, back into its list or refuses it. Returns False if it was
    # answered. Jobs too large for a statement, or for the memory, go alone the next time, and then are refused.
    cdef bint refuses = outcome > SLOT_UNSENT and (c.jobs.n == 1 or c.jobs.first.isolated)
    cdef Job* job = c.jobs.first
    if refuses:
        while c.jobs.first != NULL:
            job_unsent(joblist_take(&c.jobs), list, outcome, b"The request is too large for PostgreSQL")
    elif outcome >= SLOT_UNSENT:
        while job != NULL:
            job.isolated = job.isolated or outcome > SLOT_UNSENT
            job = job.next
        jobs_queue_first(&c.jobs, list)
    elif outcome != SLOT_OK:
        jobs_failed(c, res, list, texts)
    return outcome != SLOT_OK

cdef bint job_outlasts(Job* job, JobList* list, int64_t now) noexcept nogil:
    # Lets a long poll outlast a database that is away: it waits on in the list until its own deadline. Returns False
    # for any other job.
    cdef const JobKind* t = job.kind
    cdef int64_t until = t.until(job) if t.until != NULL else 0
    if until == 0:
        return False
    if now < until:
        joblist_add(list, job)
    else:
        t.expire(job)
    return True

cdef void jobs_expire(Engine* e, JobList* list) noexcept nogil:
    # Refuses jobs of a list that waited for a connection for longer than the patience.
    cdef int n = list.n
    cdef Job* job
    cdef int64_t now
    if slotpool_ready(e.slots):
        return
    now = clock_mono_us()
    while n > 0:
        n -= 1
        job = joblist_take(list)
        if now - job.born_us > e.patience_us:
            job.kind.refuse(job, 503, health_why())
        else:
            joblist_add(list, job)
