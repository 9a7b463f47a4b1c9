# A job is one request on its way through the engine. It stands in its request's arena and ends with exactly one answer.
# Everything on it happens on its request's worker; what another thread does for it comes back through the inbox.

cdef inline void joblist_add(JobList* l, Job* j) noexcept nogil:
    j.next = NULL
    if l.last != NULL:
        l.last.next = j
    else:
        l.first = j
    l.last = j
    l.n += 1

cdef inline void joblist_front(JobList* l, Job* j) noexcept nogil:
    j.next = l.first
    l.first = j
    if l.last == NULL:
        l.last = j
    l.n += 1

cdef inline Job* joblist_take(JobList* l) noexcept nogil:
    cdef Job* j = l.first
    if j != NULL:
        l.first = j.next
        if l.first == NULL:
            l.last = NULL
        l.n -= 1
        j.next = NULL
    return j

cdef int64_t jobs_standing      # long polls that were parked, until they are answered, of all workers

cdef void job_move(Job* j, int state) noexcept nogil:
    # The one place where a job changes state; live counts are kept here.
    if j.state == state:
        return
    if j.state == JOB_NEW:
        j.r.worker.counters.live_jobs += 1
        engine_of(j.r.worker).queued_bytes += <int64_t>j.bytes
    if j.state == JOB_PARKED:
        j.r.worker.counters.parked -= 1
        engine_of(j.r.worker).queued_jobs += 1
    elif j.state == JOB_NEW:
        engine_of(j.r.worker).queued_jobs += 1
    j.state = state
    if state == JOB_QUEUED:
        j.queued_us = clock_mono_us()
    if state == JOB_PARKED:
        j.r.worker.counters.parked += 1
        engine_of(j.r.worker).queued_jobs -= 1
    elif state == JOB_DONE:
        if j.stands:
            j.stands = False
            atomic_add64(&jobs_standing, -1)
        j.r.worker.counters.live_jobs -= 1
        engine_of(j.r.worker).queued_jobs -= 1
        engine_of(j.r.worker).queued_bytes -= <int64_t>j.bytes

cdef bint job_again(Job* j, int blame, int64_t now) noexcept nogil:
    # It met an error that was not its own. Once more?
    j.errors += 1 if j.errors < 255 else 0
    return blame_again(blame, j.errors, now - j.born_us, engine_of(j.r.worker).patience_us)

cdef void job_open(Job* j, Request* r, int op) noexcept nogil:
    memset(j, 0, sizeof(Job))
    j.r = r
    j.op = op
    j.born_us = r.started_us
    j.bytes = r.body.n
    request_settle(r)
    request_pin(r)
    r.job = j
    r.op = op

cdef void job_refuse(Job* j, int status, const char* text) noexcept nogil:
    cdef Request* r = j.r
    job_move(j, JOB_DONE)
    r.job = NULL
    reply_error(r, status, text)
