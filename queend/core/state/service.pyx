# Calls from the rooms of sockets to rooms below them. Service tells the engine of requests and turns. HotRoute says
# which requests the engine takes itself. Written before the threads start.

# Results of Service.early, for a request whose body was not read yet.
cdef enum Early:
    EARLY_REFUSED = -1
    EARLY_VERIFY = 0          # the token must be verified first
    EARLY_PASSED = 1          # the body may be read, and the gate is passed with it

cdef struct Service:
    # Functions of rooms below; run/service fills the struct in.
    bint (*boot)(Process* p) noexcept nogil             # before the workers start; returns False if they must not
    void (*halt)(Process* p) noexcept nogil             # after the workers ended
    void (*connect)(Worker* w, InboxMsg* m) noexcept nogil      # the database fits this program
    bint (*open)(Worker* w) noexcept nogil
    void (*turn)(Worker* w) noexcept nogil              # end of a turn: batches leave
    void (*dig)(Worker* w) noexcept nogil               # before the loop may sleep, if the worker's `digs` is set
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
    ROUTES_MOST = 16

cdef struct HotRoute:
    # A request served without the interpreter: one row per route (run/kinds).
    const char* name
    int methods               # bits, 1 << METHOD_*
    const char* path          # `:name` is a segment, `:name?` a segment that may be empty
    size_t fixed              # bytes before the first such segment
    int level                 # GRANT_* that the token must have
    int verb                  # VERB_* that the token must have for some queue; 0: none
    int route                 # ROUTE_* for `submit`
    const char* query         # allowed names in the query, as in route/stray; NULL: the route checks them itself
    bint tells                # about the daemon: answered in any state, without a token
    bint delivers             # is not begun while answers are not taken
    bint buffered             # may go into the failover buffer
    bint streams              # the token may be given without a header, for clients that cannot set one (auth/ticket)
    bint small                # the body is bounded as for the control plane
    void (*submit)(Worker* w, Request* r, int route) noexcept nogil

cdef HotRoute[ROUTES_MOST] hot_routes
cdef int n_hot_routes
