# What the rooms of sockets call of those below them: how the engine is told of requests and turns (Service), and which
# requests it takes itself (HotRoute). Written before the threads start.

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
    void (*left)(Worker* w) noexcept nogil              # the log is told what is, as the grace is over
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
