# Sockets, requests, threads. Everything on a connection and its requests belongs to its worker's thread; other threads
# reach a worker through its inbox only. Only conn_move writes the state of a connection.

cdef struct HotRoute
cdef struct Listener
cdef struct Process

cdef struct Inbox:
    uv_mutex_t lock
    InboxMsg* first
    InboxMsg* last
    uv_async_t wake
    bint closed               # nobody reads any more: the worker's loop has ended

cdef enum:
    BODY_PADDING = 80         # JSONWALK_ROOM
    REQUESTS_KEEP = 256       # free requests a worker keeps
    OUTS_KEEP = 64            # answers' memory a worker keeps: requests that wait for an answer hold none
    OUT_KEEP = 65536          # bytes of one of them at most

cdef struct Request:
    Request* next             # in its connection's order; in the worker's freelist
    Conn* conn
    Worker* worker
    Arena arena
    int method                # METHOD_*
    Slice target              # as sent
    Slice path                # raw, of the target
    Slice query               # raw, without the question mark
    Slice headers_raw         # lines with their CRLF
    Slice authority           # the value of Host
    const HotRoute* route     # NULL: the control plane's
    Slice body                # NUL-terminated, BODY_PADDING readable bytes after it
    uint8_t http10
    uint8_t keep_alive
    uint8_t replied
    uint8_t early             # its body was not read: it waits for its token (READ_LATER)
    uint8_t unanswerable      # its answer found no memory: a short one takes its place
    uint8_t asks              # bits of ASK_*
    uint8_t pin               # what it found may not be freed (base/era), 0: it looked nothing up
    int64_t started_us        # monotonic
    int op                    # OP_* it is counted under
    int status                # of the answer
    Buf out                   # the whole answer
    int64_t charged           # of it, in the budget (net/untaken)
    int64_t arriving          # bytes of its body, in the budget of what arrives (net/beside)
    size_t head_size          # of it: status line and headers
    Grant* grant              # what its token allows, NULL: nobody asks
    Feed* feed                # that it was made for: its answer is a part of that one's
    void* job                 # what it has become: a Job of the engine, or a call of the bridge
    void (*on_gone)(Request* r) noexcept nogil     # the client left before the answer; may be NULL
    # the client sends no more: it may have left, or wait for this answer; may be NULL
    void (*on_end)(Request* r) noexcept nogil
    void (*on_unsent)(Request* r) noexcept nogil   # the client left before the answer went out; may be NULL

cdef struct RequestPool:
    Request* free_list
    int kept
    Buf[OUTS_KEEP] outs
    int outs_kept

cdef enum:                    # which timeout runs; one list per state, oldest first
    CONN_IDLE = 0             # between requests
    CONN_HEAD = 1             # a head has begun
    CONN_BODY = 2             # a body has begun
    CONN_BUSY = 3             # answers are owed: no timeout
    CONN_STALLED = 4          # the client does not take its answers
    CONN_LINGER = 5           # everything is said: waits for the client to close
    CONN_CLOSING = 6          # the handle is closing
    CONN_STATES = 7

cdef enum ConnReading:
    READ_HEAD = 0
    READ_FIXED = 1            # a body of known length
    READ_CHUNKED = 2
    READ_NOTHING = 3          # nothing that may come is a request: after an error or `Connection: close`
    # a request with a large body waits for its token to be verified; it is read from its head on then
    READ_LATER = 4
    READ_GONE = 5             # it is closed, and freed when its turn comes
    READ_FRAMES = 6           # of a WebSocket

cdef enum:
    OUT_MAX = 1 << 20         # bytes of answers a client may leave untaken before it is no longer read
    LINGER_MS = 2000
    LINGER_BYTES = 4 << 20    # swallowed at most after the last answer

cdef struct Pace:             # net/arriving
    uint32_t since            # loop time (ms, its lower half) when it began
    uint32_t mark_since       # when it was last looked at
    int64_t bytes             # done when it began
    int64_t mark_bytes
    bint running              # False: it begins at the next look

cdef struct Conn:
    uv_tcp_t tcp              # first: a handle is its connection
    Conn* prev                # in the list of its state
    Conn* next
    Conn* next_dirty
    Conn* unread_prev         # in the worker's list of those that are not read
    Conn* unread_next
    # in a list of those that go on in a later turn (net/worker); of the last one itself; NULL: it does not wait
    Conn* wait_next
    Worker* worker
    Request* first            # answers owed, in order
    Request* last
    Request* reading          # head complete, body not
    Feed* feed                # what its last request has become
    Buf head                  # bytes that are not a complete request yet; answers owed may hold some back, too
    size_t body_got           # READ_FIXED
    Chunked* chunked          # READ_CHUNKED
    size_t out_pending        # bytes handed to the loop and not yet taken by the kernel
    size_t out_mark           # write queue when the stall was last looked at
    uint64_t since            # loop time (ms) of the last change of state, or of the last progress of a body
    uint64_t half_since       # loop time (ms) when the end of its input was noticed
    int owed                  # requests in first..last
    uint8_t state             # ConnState; only conn_move writes it
    uint8_t mode              # ConnReading
    uint8_t greedy            # has more answers than it may
    uint8_t large             # the last body was: the next one is read where it belongs, not with its head
    uint8_t dirty             # stands in the worker's list of connections to look at
    uint8_t paused            # not read: too many requests or answers in hand, or nothing more comes
    uint8_t half              # the client has ended its side: it left, or waits for its answers (net/leaving)
    uint8_t read_out          # and all it had sent was read
    uint8_t owes_continue     # 100, once all earlier answers are out
    uint8_t admitted          # the token of the next request was just verified
    uint8_t asked             # requests of it that were taken: none, one, more
    uint8_t ended             # after the last answer owed: no more requests, close
    uint8_t beside            # its last request is being read beside the loop (net/beside)
    uint64_t from_            # whose it is (address_key), 0: it was never admitted
    int64_t arriving          # bytes of the budget it has (net/arriving)
    int64_t most              # bytes of the body that is read
    int64_t untaken           # bytes of its answers in the budget (net/untaken)
    int64_t handed            # ever, to the loop, of what the kernel did not take at once
    Pace pace                 # of its body, or of its answers

cdef struct ConnList:
    Conn* first
    Conn* last
    int n

cdef enum:
    INPUT_SIZE = 256 << 10    # bytes read at once
    INPUT_LARGE = 32 << 10    # a body from which on bytes are better not copied
    INPUT_HEAD = 2048         # read at once before such a body
    INPUT_LITTLE = 8192       # read at once in a turn that has read very much
    TICK_MS = 500             # timeouts are looked at

cdef struct Waits:            # net/worker
    Conn* first
    Conn* last

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

cdef struct LogWriter:        # the thread that writes them
    uv_thread_t thread
    uv_mutex_t lock
    uv_cond_t told
    bint running
    bint ends

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
    uv_thread_t thread
    uv_mutex_t lock
    uv_cond_t told
    bint running
    bint ends
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
    LogWriter logwriter
    bint accepting            # the acceptor runs
    bint listens              # connections are accepted, by whomever
    uv_mutex_t lock
    uv_cond_t told
    int drained               # workers that have nothing left to say
    bint running
    bint connects             # to the database, as soon as the workers start

cdef enum:
    ARRIVING_FREE = 4096      # of an incomplete head, not counted
    PACE_ALL_MS = 30000       # for a whole body, or all answers, while room is short
    PACE_GRACE_MS = 2000

cdef enum Admission:
    ADMITTED = 0
    CROWDED = 1               # as many connections as there may be
    CROWDED_ADDRESS = 2       # of one address

cdef struct Budget:
    int64_t connections
    int64_t arriving          # bytes held for requests that are not complete
    int64_t untaken           # bytes of answers that have not gone
    int64_t expected          # bytes that large pops are about to bring
    int64_t short_ms          # loop time when something found no room, 0: never
    uint64_t refused          # connections
    int most                  # connections
    int most_of_one           # of one address; 0: no bound
    int64_t most_arriving
    int64_t most_untaken
    uv_mutex_t lock           # for what stands below
    Table addresses           # connections of each
    int64_t told_us           # when the log was told of a refusal

cdef struct Service:
    # What these rooms call of those below them; run/service fills it in.
    bint (*boot)(Process* p) noexcept nogil             # before the workers start; False: they do not
    void (*halt)(Process* p) noexcept nogil             # after they have ended
    void (*connect)(Worker* w, InboxMsg* m) noexcept nogil      # the database is as this program needs it
    bint (*open)(Worker* w) noexcept nogil
    void (*turn)(Worker* w) noexcept nogil              # the end of a turn: batches fire
    void (*dig)(Worker* w) noexcept nogil               # before the loop may sleep, if it `digs`
    void (*tick)(Worker* w) noexcept nogil              # twice a second
    void (*stop)(Worker* w) noexcept nogil              # no new work
    bint (*idle)(Worker* w) noexcept nogil              # nothing is left to be done
    void (*close)(Worker* w) noexcept nogil
    void (*forsake)(Worker* w) noexcept nogil           # the control plane's answers come too late
    void (*request)(Worker* w, Request* r) noexcept nogil       # it is complete
    bint guarded              # tokens are asked for
    bint (*open_to_all)(Slice path) noexcept nogil      # this path needs none
    # may its body be read? 1: yes; 0: once its token is verified; -1: no
    int (*early)(Request* r) noexcept nogil
    void (*refuse)(Request* r) noexcept nogil           # it may not
    void (*fed)(Request* r) noexcept nogil              # what was made for a feed is answered
    # the frame these bytes begin with; how many it has, 0: it is not complete
    size_t (*heard)(Conn* c, const char* data, size_t n) noexcept nogil
    bint (*flow)(Conn* c) noexcept nogil                # the end of a turn, for a feed. False: its connection is broken
    void (*verify)(Request* r, bint token) noexcept nogil

cdef Service service

cdef enum:
    ROUTES_MOST = 16

cdef struct HotRoute:
    # A request that needs no interpreter: one row each (run/kinds).
    const char* name
    int methods               # bits, 1 << METHOD_*
    const char* path          # `:name` is a segment, `:name?` one that may be empty
    size_t fixed              # bytes before the first of these
    int level                 # GRANT_* its token must have
    int verb                  # VERB_* its token must have for some queue; 0: none
    int route                 # ROUTE_* for `submit`
    const char* query         # the names its query may have, as route/stray has them; NULL: it looks at them itself
    bint tells                # of the daemon: in any state, to whoever asks
    bint delivers             # it is not begun while answers are not taken
    bint buffered             # it may go into the failover buffer
    bint streams              # what cannot set a header may say its token otherwise (auth/ticket)
    bint small                # its body is no larger than one for the control plane
    void (*submit)(Worker* w, Request* r, int route) noexcept nogil

cdef HotRoute[ROUTES_MOST] hot_routes
cdef int n_hot_routes
