# Threads: the workers, each with its loop and its state; the listener, the watchdog and the writer of the request log;
# the process. Also the calls from the rooms of sockets to rooms below them. Service tells the engine of requests and
# turns. HotRoute says which requests the engine takes itself.
# In and out: fields. Owner: each worker its own struct; other threads reach it only through its inbox. Locks: each
# struct's own, where it has one. service and hot_routes are written before the threads start.

cdef struct Listener
cdef struct Process

# ---- messages, and bodies read off the loop --------------------------------------------------------------------------

cdef struct Inbox:
    uv_mutex_t lock
    InboxMsg* first
    InboxMsg* last
    uv_async_t wake
    bint closed               # the worker's loop has ended: messages are refused

cdef struct Tools:            # what reading a body needs besides the request
    Arena* arena              # the request's
    Unzip* unzip
    UuidGen* uuids
    const Settings* settings
    const char* what          # the part that is read, as a refusal names it: its kind, and its number
    int index
    ApiError error            # reason of a refusal

ctypedef bint (*BodyRead)(Request* r, void* job, Tools* t) noexcept nogil
ctypedef void (*BodyTaken)(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil

cdef struct Offload:          # in the request's arena
    Offload* next
    uv_work_t work
    Request* r
    void* job
    BodyRead read
    BodyTaken taken
    Tools tools
    Unzip unzip
    UuidGen uuids
    bint good
    uint64_t answered         # the worker's count of answered requests at the begin

cdef struct BridgeCall:       # a request for the control plane (bridge)
    BridgeCall* next          # waiting to be taken, or for the next tick
    Request* r                # NULL: its client left before the tick
    ClientAddress* address    # counts the call; NULL: the client has left
    uint64_t token
    bint taken
    int64_t size              # of its body
    bint held                 # only its token is verified there, then it comes back to the engine
    char[64] client           # address:port

cdef enum WorkerPhase:
    WORKER_NEW = 0
    WORKER_RUNNING = 1
    WORKER_FAILED = 2         # the engine did not open
    WORKER_STOPPED = 3

# ---- request log and spans -------------------------------------------------------------------------------------------

cdef struct RequestLog:       # of a worker: net/requestlog
    uv_mutex_t lock           # between the worker's thread and the writer
    char* lines               # lines not written yet
    char* spare
    size_t used
    int every                 # logs one of this many requests, 0: off
    uint64_t number           # of answers

cdef enum SpanKind:
    SPAN_SEND = 0
    SPAN_DELIVER = 1
    SPAN_SETTLE = 2
    SPAN_CYCLE = 3

cdef enum:
    SPANS_MOST = 2048         # of a worker, not fetched yet
    SPAN_NAME = 256           # bytes of a name in a span; longer names are cut

cdef struct Span:             # net/spans
    uint8_t kind              # SpanKind
    char[32] trace            # hexadecimal, as in traceparent
    char[16] parent
    int64_t start_us          # wall
    int64_t end_us
    int status                # of the answer
    int count                 # messages
    int64_t offset            # of the message, -1: several messages or none
    char[SPAN_NAME] queue     # NUL-terminated
    char[SPAN_NAME] partition
    char[SPAN_NAME] group

cdef struct Spans:            # of a worker
    uv_mutex_t lock           # between the worker's thread and the one that fetches spans
    Span* all
    Span* spare
    int n
    int every                 # records one of this many traces, 0: off

# ---- workers ---------------------------------------------------------------------------------------------------------

cdef struct Routine:          # net/thread
    uv_thread_t thread
    uv_mutex_t lock
    uv_cond_t cond
    bint running
    bint ends

cdef struct Trim:             # net/held
    uv_work_t work
    uint64_t looked           # uv_now of the last look
    int64_t grown             # most bytes that were taken since memory was last returned; 0: less than TRIM_LEAST
    bint running

cdef struct Worker:
    Counters counters         # must stay first: the structure is aligned to a cache line
    uv_loop_t loop
    Inbox inbox
    uv_check_t after          # after I/O
    uv_prepare_t before       # before the loop may sleep
    uv_idle_t between         # keeps the loop from sleeping while connections wait for the next turn
    uv_timer_t tick
    int index
    Settings* settings
    HeadLimits limits
    ConnList[CONN_STATES] conns
    Conn* dirty               # connections to look at when this turn ends
    Conn* unread              # connections that are not read
    Conn* unread_last
    Waits waits               # connections that wait for their turn
    Waits waits_more          # connections with more large input
    Waits waits_pieces        # connections whose request comes in pieces
    Waits waits_shakes        # connections whose handshake goes on in a later turn (net/tls)
    int64_t turn_us           # moment of this turn's first request, 0: none yet
    int64_t taken_us          # moment of this turn's last request
    uint64_t turn_from        # counters.bytes_in when the turn began
    int turn_pieces           # reads of this turn that left a request incomplete
    int64_t turn_shake_us     # time that this turn has spent on handshakes
    int64_t shake_us          # mean time of a read that goes on with a handshake
    uint64_t turn_full        # value of counters.bytes_in at which the turn stops reading large input
    Offload* offloads         # large bodies read off the loop; the first one is being read
    Offload* beside_last
    RequestPool requests
    BridgeCall* without_room  # its requests for the control plane that wait for the next tick
    BridgeCall* without_room_last
    Request* clientless       # unfinished requests whose client left, or that never had one
    Request* clientless_last
    int64_t held_share        # its share of max_queued_bytes
    int64_t held_most         # most bytes that its unanswered requests may have, as of now
    int64_t held_gone         # part of counters.held whose clients have left
    int64_t jobs_gone         # queued jobs whose clients have left (govern/jobs)
    int64_t held_peak         # most bytes of clients since the last look (net/held)
    Trim trim
    Table addresses           # LocalAddress by its key
    LocalAddress* room_first  # addresses whose large requests wait for room, in turns (net/held)
    LocalAddress* room_last
    int64_t room_bytes        # of their complete requests
    bint unpacking            # a body is being unpacked off the loop (net/unpack)
    int64_t untaken           # bytes of unsent answers
    int64_t untaken_counted   # share of `untaken` that is counted in the budget of all
    ChunkPool chunks
    UuidGen uuids
    Secrets secrets           # for lease ids
    Unzip unzip               # for bodies that arrived or are stored compressed
    Tools tools               # for bodies that are read on the loop
    Seal seal                 # for payloads of encrypted queues
    HttpDate date
    RequestLog requestlog
    Spans spans
    char* input               # bytes of the last read
    TlsRoom* tls              # NULL: the port is plain
    Engine* engine
    Listener* listener        # reuseport: the first one
    Process* process
    bint stopping             # takes no new work: drains
    bint drained              # has reported the end of its drain
    bint halted               # was told to close everything
    bint ending               # everything closes
    int64_t watched_turns     # the watchdog's: turns at its last look
    int64_t watched_ms        # when the turns last changed
    bint watched_stuck        # whether the watchdog has reported a stuck worker
    int64_t turns             # turns of the loop; stays constant while a worker hangs
    int64_t[2] pins           # holders of deleted entries, counted by epoch (base/epoch)
    bint reclaims             # of the first worker: a deleted entry waits to be freed (find/reclaim)
    int64_t epoch_seen        # of the last move of the epoch: all work that this worker began before the move is over
    uv_thread_t thread
    uv_sem_t opened
    uint8_t phase
    InboxMsg epoch_msg        # in flight until the worker has seen the epoch
    InboxMsg listen_msg       # messages that a worker gets once in its life
    InboxMsg connect_msg
    InboxMsg stop_msg
    InboxMsg halt_msg

# ---- listeners, watchdog, process ------------------------------------------------------------------------------------

cdef struct Listener:
    uv_poll_t poll
    uv_timer_t timer
    uv_loop_t* loop
    int fd
    Process* process
    Worker* worker            # reuseport: the owner; NULL: connections are distributed round robin
    Listener* next            # next listener of the same loop
    unsigned int turn
    bint running

# Values of Watch.stuck besides workers.
cdef enum:
    STUCK_NONE = 0
    STUCK_CONTROL = -1        # the control plane

cdef struct Watch:
    Routine routine           # its lock guards the four fields below
    int period_ms             # of systemd's watchdog, 0: off
    sockaddr_un address
    socklen_t address_size
    int fd
    int64_t beat_ms           # last beat of the control plane; 0: none yet
    int64_t stuck             # 1 + number of the stuck worker, or STUCK_*
    bint control_reported

cdef struct Process:
    Settings settings
    Worker** workers
    int n
    int port                  # bound port
    char[64] address          # bound address, as in a URL
    bint loopback             # reachable from this machine only
    Listener* listener        # of the acceptor, the first one
    uv_loop_t loop            # the acceptor's
    uv_async_t stop
    uv_thread_t thread
    Watch watch
    Routine logwriter         # writes the lines of the request log
    bint accepting            # the acceptor runs
    bint listens              # some thread accepts connections
    uv_mutex_t lock
    uv_cond_t cond
    SharedFlag stopping       # the drain has begun
    int drained               # workers that have finished draining
    bint running
    bint connects             # connects to the database as soon as the workers start

# ---- calls to rooms below, and hot routes ----------------------------------------------------------------------------

# Results of Service.early, for a request whose body was not read yet.
cdef enum Early:
    EARLY_REFUSED = -1
    EARLY_VERIFY = 0          # the token must be verified first
    EARLY_PASSED = 1          # the body may be read, and the gate is passed with it

cdef struct Service:
    # Functions of rooms below; run/engine fills the struct in.
    bint (*boot)(Process* p) noexcept nogil             # before the workers start; returns False if they must not
    void (*halt)(Process* p) noexcept nogil             # after the workers ended
    void (*connect)(Worker* w, InboxMsg* m) noexcept nogil      # the database fits this program
    bint (*open)(Worker* w) noexcept nogil
    void (*turn)(Worker* w) noexcept nogil              # end of a turn: batches leave
    void (*reclaim)(Worker* w) noexcept nogil           # before the loop may sleep, if the worker's `reclaims` is set
    void (*tick)(Worker* w) noexcept nogil              # twice a second
    void (*stop)(Worker* w) noexcept nogil              # stops taking new work
    bint (*idle)(Worker* w) noexcept nogil              # returns True if no work is left
    void (*left)(Worker* w) noexcept nogil              # logs the remaining work when the grace period ends
    void (*close)(Worker* w) noexcept nogil
    void (*forsake)(Worker* w) noexcept nogil  # gives up the worker's requests at the control plane
    void (*request)(Worker* w, Request* r) noexcept nogil       # takes a complete request
    bint guarded              # requests need a token
    bint (*open_to_all)(Slice path) noexcept nogil      # returns True if this path needs no token
    int (*early)(Request* r) noexcept nogil             # returns EARLY_*: whether the body may be read
    void (*refuse)(Request* r) noexcept nogil           # answers a request whose body may not be read
    void (*fed)(Request* r) noexcept nogil              # takes the answer of a feed's internal request
    # reads the frame at the begin of the bytes; returns its size, 0: incomplete
    size_t (*heard)(Conn* c, const char* data, size_t n) noexcept nogil
    bint (*flow)(Conn* c) noexcept nogil  # end of a turn, for a feed; returns False if its connection is broken
    void (*verify)(Request* r, bint token) noexcept nogil

cdef Service service

cdef enum:
    ROUTES_MOST = 18

cdef struct HotRoute:
    # A request served without the interpreter: one row per route (run/jobtypes).
    const char* name
    int methods               # bits, 1 << METHOD_*
    const char* path          # `:name` is a segment, `:name?` a segment that may be empty
    size_t fixed              # bytes before the first such segment
    int level                 # GRANT_* that the token must have
    int verb                  # VERB_* that the token must have for some queue; 0: none
    int route                 # ROUTE_* for `submit`
    const char* query         # allowed names in the query, as in route/typos; NULL: the route checks them itself
    bint tells                # about the daemon: answered in any state, without a token
    bint delivers             # is not begun while answers are not taken
    bint buffered             # may go into the failover buffer
    bint streams              # the token may be given without a header, for clients that cannot set one (auth/grants)
    bint small                # the body is bounded as for the control plane
    void (*submit)(Worker* w, Request* r, int route) noexcept nogil

cdef HotRoute[ROUTES_MOST] hot_routes
cdef int n_hot_routes
