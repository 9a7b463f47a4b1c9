# A job: one request on its way through the engine. It stands in its request's arena and ends with exactly one answer.
# Owner: its request's worker. Only job_move writes `state`.

cdef struct Engine
cdef struct Job
cdef struct JobKind
cdef struct Request
cdef struct Round
cdef struct Worker

cdef struct InboxMsg:
    InboxMsg* next
    void (*run)(Worker* w, InboxMsg* m) noexcept nogil     # on the receiver's thread

cdef enum JobState:
    JOB_LIVE = 0              # its names are looked up, it waits for a statement, or is in one
    JOB_PARKED = 1            # a long poll that waits for work
    JOB_DONE = 2

cdef struct Job:
    InboxMsg msg              # first: a job travels between workers as a message
    Request* r
    Job* next                 # in the list of those it waits with
    const JobKind* kind
    uint8_t state
    uint8_t tries             # how often it went back to resolve or was sent again
    int64_t server            # the incarnation whose names and numbers it has
    uint8_t errors            # of the server, since it last had none (pg/verdict)
    # a long poll that was parked, which may be again however many are: how many it counts as; 0: it was not
    int stands
    uint8_t bound             # a name it asked for may not be made (find/bounds)
    Slice bound_at            # and its queue
    bint alone                # an error that may be tied to it: it goes alone, so that only its own hits it
    int64_t born_us
    int64_t queued_us         # since when it waits for a statement
    size_t bytes
    uint64_t client           # which connection sent it, 1: none; a number, never looked at behind it

cdef struct JobList:
    Job* first
    Job* last
    int n

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

cdef struct JobKind:
    # What is done with a job by those who need not know its kind: each type's file has one. NULL: it does not happen.
    int op                    # OP_* it is counted under
    void (*ask)(Engine* e, Job* j) noexcept nogil           # asks for the names it misses; catalog.lock held
    # did it ask for a name that may not be made? Its `bound` says so
    bint (*barred)(Round* r, Job* j) noexcept nogil
    void (*retry)(Engine* e, Job* j) noexcept nogil         # what it waited for is there
    void (*refuse)(Job* j, int status, const char* text) noexcept nogil     # its answer is an error
    # it outlasts a database that is away until then (monotonic); 0: it does not
    int64_t (*until)(Job* j) noexcept nogil
    void (*expire)(Job* j) noexcept nogil       # that moment came
    bint reloads              # a queue it misses may be in the catalog: it waits for the reload
    bint hurries              # it does not wait for a database that is away: there is a failover buffer
