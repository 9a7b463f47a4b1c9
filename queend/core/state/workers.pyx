# Threads: the workers, each with its loop and all that belongs to it; what listens, watches and writes the request log;
# the process. Other threads reach a worker through its inbox only.

cdef struct Listener
cdef struct Process

cdef struct Inbox:
    uv_mutex_t lock
    InboxMsg* first
    InboxMsg* last
    uv_async_t wake
    bint closed               # nobody reads any more: the worker's loop has ended

cdef struct Tools:            # what reading takes besides the request
    Unzip* unzip
    UuidGen* uuids
    const Settings* settings
    ApiError error            # why it is refused

ctypedef bint (*BodyRead)(Request* r, void* job, Tools* t) noexcept nogil
ctypedef void (*BodyTaken)(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil

cdef struct Beside:           # in the request's arena
    uv_work_t work
    Beside* next
    Request* r
    void* job
    BodyRead read
    BodyTaken taken
    Tools tools
    Unzip unzip
    UuidGen uuids
    bint good
    uint64_t answered         # requests of this worker, when it began

cdef enum WorkerPhase:
    WORKER_NEW = 0
    WORKER_RUNNING = 1
    WORKER_FAILED = 2         # the engine did not open
    WORKER_STOPPED = 3

cdef struct RequestLog:       # of a worker: net/requestlog
    uv_mutex_t lock           # the worker's thread and the one that writes
    char* lines               # those that are not written yet
    char* spare
    size_t used
    int every                 # one line for so many requests, 0: none
    uint64_t number           # of answers

cdef enum SpanKind:
    SPAN_SEND = 0
    SPAN_DELIVER = 1
    SPAN_SETTLE = 2
    SPAN_CYCLE = 3

cdef enum:
    SPANS_MOST = 2048         # of a worker that were not fetched yet
    SPAN_NAME = 256           # bytes of a name in one; longer ones are cut

cdef struct Span:             # net/spans
    uint8_t kind              # SpanKind
    char[32] trace            # hexadecimal, as in traceparent
    char[16] parent
    int64_t start_us          # wall
    int64_t end_us
    int status                # of the answer
    int count                 # messages
    int64_t offset            # of the message, -1: of several or none
    char[SPAN_NAME] queue     # with a NUL behind it
    char[SPAN_NAME] partition
    char[SPAN_NAME] group

cdef struct Spans:            # of a worker
    uv_mutex_t lock           # the worker's thread and the one that fetches them
    Span* all
    Span* spare
    int n
    int every                 # one of so many traces, 0: none

cdef struct Routine:          # net/routine
    uv_thread_t thread
    uv_mutex_t lock
    uv_cond_t told
    bint running
    bint ends

cdef struct Trim:             # net/trim
    uv_work_t work
    uint64_t looked           # uv_now of the last look
    int64_t grown             # most bytes in hand since memory was given back last; 0: less than TRIM_LEAST
    bint running

cdef struct Worker:
    Counters counters         # first: the structure is aligned to a cache line
    uv_loop_t loop
    Inbox inbox
    uv_check_t after          # after I/O
    uv_prepare_t before       # before the loop may sleep
    uv_idle_t between         # two turns, while somebody waits for the next
    uv_timer_t tick
    int index
    Settings* settings
    HeadLimits limits
    ConnList[CONN_STATES] conns
    Conn* dirty               # connections to look at when this turn ends
    Conn* unread              # connections that are not read
    Waits waits               # connections that wait for their turn
    Waits waits_more          # and those with more of what is large
    int64_t turn_us           # this one's first request, 0: none yet
    int64_t taken_us          # its last one
    uint64_t turn_from        # counters.bytes_in when it began
    uint64_t turn_full        # and from which on it has read enough of what is large
    Beside* beside            # large bodies that are read beside the loop, the first one now
    Beside* beside_last
    RequestPool requests
    Request* alone            # requests that are not done and have no client (any more)
    int64_t held_most         # bytes that its requests in hand may have
    int64_t held_peak         # most bytes in hand since the last look (net/trim)
    Trim trim
    Conn* room_first          # connections whose large requests wait for room (net/held)
    Conn* room_last
    bint unpacking            # a body of a request is unpacked beside the loop (net/unpack)
    int64_t untaken           # bytes of answers that have not gone
    int64_t untaken_told      # of them, in the budget of all
    ChunkPool chunks
    UuidGen uuids
    Secrets secrets           # for lease ids
    Unzip unzip               # for bodies that came or lie compressed
    Tools tools               # for bodies that are read at once
    Seal seal                 # for payloads of encrypted queues
    HttpDate date
    RequestLog requestlog
    Spans spans
    char* input               # what was read last
    Engine* engine
    Listener* listener        # reuseport: the first one
    Process* process
    bint stopping             # no new work: drains
    bint drained              # has told so
    bint halted               # told to close everything
    bint ending               # everything closes
    int64_t watched_turns     # the watch's: turns at its last look,
    int64_t watched_ms        # when they were other ones before,
    bint watched_stuck        # and whether it has told of it
    int64_t turns             # of the loop; a worker that hangs turns no more
    int64_t[2] pins           # who may hold what was deleted, by era (base/era)
    bint digs                 # the first one: something that was deleted is to be given back (find/grave)
    int64_t era_seen          # of the last move of the era, all that this worker did before it is over
    uv_thread_t thread
    uv_sem_t opened
    uint8_t phase
    InboxMsg told_era         # on its way while it has not seen the era
    InboxMsg told_listen      # what it is told once in its life
    InboxMsg told_connect
    InboxMsg told_stop
    InboxMsg told_halt

cdef struct Listener:
    uv_poll_t poll
    uv_timer_t timer
    uv_loop_t* loop
    int fd
    Process* process
    Worker* worker            # reuseport: the owner; NULL: round robin
    Listener* next            # the others of the same loop
    unsigned int turn
    bint running

cdef struct Watch:
    Routine routine           # its lock guards the next four
    int period_ms             # of the watchdog, 0: nobody wants to hear of us
    sockaddr_un address
    socklen_t address_size
    int fd
    int64_t beat_ms           # of the control plane; 0: it does not beat yet
    int64_t stuck             # a worker (its number and one), or -1 the control plane; 0: none
    bint control_told

cdef struct Process:
    Settings settings
    Worker** workers
    int n
    int port                  # really bound
    char[64] address          # really bound, as in a URL
    bint loopback             # only this machine can reach it
    Listener* listener        # of the acceptor, the first one
    uv_loop_t loop            # the acceptor's
    uv_async_t stop
    uv_thread_t thread
    Watch watch
    Routine logwriter         # writes the lines of the request log
    bint accepting            # the acceptor runs
    bint listens              # connections are accepted, by whomever
    uv_mutex_t lock
    uv_cond_t told
    SharedFlag stopping       # the drain begins
    int drained               # workers that have nothing left to say
    bint running
    bint connects             # to the database, as soon as the workers start
