# A job: one request on its way through the engine, and lists of jobs. In: a request's job. Out: the same, answered
# once. A job stands in its request's arena. Owner: the request's worker. Locks: none, except book.lock for `at` of a
# parked pop.

cdef struct Engine
cdef struct Job
cdef struct JobKind
cdef struct Request
cdef struct Round
cdef struct Worker

cdef struct InboxMsg:
    InboxMsg* next
    void (*run)(Worker* w, InboxMsg* m) noexcept nogil     # on the receiver's thread

cdef enum:
    CLIENT_NONE = 1           # Job.client of a job that no connection sent
    JOB_TRIES = 10            # rounds of look-ups after which a job is given up

cdef enum JobAt:
    # Where a job is: what it waits for. A list gives its own value to each job that enters it. Besides, it is written
    # by push_dispatch, under book.lock by waiters_park and waiters_unpark, and under EphStripe.lock by ephjob_park and
    # ring_wake_one.
    JOB_PENDING               # has just come
    JOB_RESOLVING             # waits to ask for names
    JOB_ASKING                # in a round of look-ups
    JOB_RELOADING             # waits for the catalog
    JOB_PAUSED                # waits for the end of pop maintenance
    JOB_FLUSHING              # waits for the end of a lease
    JOB_RETRYING              # is tried next
    JOB_LEASING               # waits for a statement; a pop: with its candidates
    JOB_FETCHING              # in a statement
    JOB_PUSHING               # parts of it are at appenders
    JOB_HELD                  # waits behind what the failover buffer holds
    JOB_BUFFERING             # is written to the failover buffer
    JOB_PARKED_GROUP          # a long poll, which waits for its group
    JOB_PARKED_CURSOR         # for a partition
    JOB_PARKED_NAME           # for a name
    JOB_PARKED_RATE           # for tokens of a rate
    JOB_PARKED_MEMORY         # for a message of an ephemeral queue
    JOB_WOKEN                 # taken out of the book: on its way to its worker, or in a push
    JOB_PLACES

cdef struct Job:
    InboxMsg msg              # first: a job travels between workers as a message
    Request* r
    Job* next                 # in the list that holds the job
    const JobKind* kind
    uint8_t at                # JOB_*
    bint parked               # counted as a parked long poll (job_park)
    uint8_t tries             # how often it returned to name resolution or was sent again
    int64_t incarnation       # the incarnation whose names and numbers the job holds
    uint8_t errors            # server errors since the last success (pg/sqlstate)
    # a long poll that was parked once may park again despite the bound; its weight in that bound, 0: never parked
    int long_polls
    uint8_t bound             # a name that the job asked for may not be created (find/ask)
    Slice bound_at            # queue of that name
    bint isolated  # goes alone after an error that the job may have caused, so that a repeated error hits only this job
    int64_t born_us
    int64_t queued_us         # when it began to wait for a statement
    size_t bytes
    uint64_t client           # connection that sent the job, or CLIENT_NONE; an identity only, never dereferenced

cdef struct JobList:
    Job* first
    Job* last
    int n
    uint8_t at                # what the jobs of this list wait for

cdef inline void joblist_open(JobList* l, JobAt at) noexcept nogil:
    # Opens an empty list of jobs that wait for `at`.
    memset(l, 0, sizeof(JobList))
    l.at = at

cdef inline void joblist_add(JobList* l, Job* j) noexcept nogil:
    j.at = l.at
    j.next = NULL
    if l.last != NULL:
        l.last.next = j
    else:
        l.first = j
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

cdef struct JobKind:
    # Operations of a job type, for callers that do not know the type. Each type's file fills one in; NULL: not
    # supported.
    int op                    # OP_* that counts the job
    void (*ask)(Engine* e, Job* j) noexcept nogil           # asks for the missing names; catalog.lock held
    # sets the job's `bound` if it asked for a name that may not be created
    void (*name_refused)(Round* r, Job* j) noexcept nogil
    void (*retry)(Engine* e, Job* j) noexcept nogil         # goes on once what the job waited for exists
    void (*refuse)(Job* j, int status, const char* text) noexcept nogil     # answers with an error
    # returns the job's own deadline while the database is unavailable (monotonic); 0: the patience applies
    int64_t (*until)(Job* j) noexcept nogil
    void (*expire)(Job* j) noexcept nogil       # called at that deadline
    bint reloads              # a missing queue may be in the catalog: the job waits for the reload
    bint fails_fast           # does not wait for an unavailable database if there is a failover buffer
