# A slot is one PostgreSQL connection on the worker's loop: its state, its socket, its end. It connects and prepares
# (pg/dial), runs statements (pg/serve), breaks (slot_break) and connects again after a jittered pause; slotpool_close
# closes it.
# Owner: the loop's thread. A pool's memory lives until `closed`.

cdef enum SlotState:
    SLOT_CLOSED
    SLOT_CONNECTING
    SLOT_PREPARING
    SLOT_IDLE
    SLOT_BUSY
    SLOT_BROKEN               # no connection; the timer runs until the next attempt

cdef enum:
    SLOT_OK = 0               # rows; the transaction has committed
    SLOT_ERROR = 1            # the server refused; the transaction was rolled back; the connection stays
    SLOT_LOST = 2             # the connection is gone. res NULL: whether it committed is unknown; res not NULL: the
                              # server gave the reason, and nothing was committed (shutdown, terminated)
    SLOT_DEADLINE = 3         # no answer in time; whether it committed, or will commit, is unknown
    SLOT_UNSENT = 4           # nothing was or will be sent: no connection was free
    SLOT_NO_MEMORY = 5
    SLOT_TOO_LARGE = 6        # the message is too large for PostgreSQL

cdef enum:
    SLOT_BACKOFF_MIN_MS = 50
    SLOT_BACKOFF_MAX_MS = 5000
    SLOT_CONNECT_MS = 10000   # if the connection string has no connect_timeout; libpq does not enforce it
    SLOT_REASON = 400

cdef struct Slot
cdef struct SlotPool
ctypedef void (*slot_done)(Slot*, void*, PGresult*, int) noexcept nogil

cdef enum:
    SLOT_TEXT = -1            # Slot.statement: a text that is not prepared

cdef struct Slot:
    SlotPool* pool
    Slot* next_idle
    int64_t server            # the incarnation that it is connected to
    int64_t served_us         # monotonic, when this connection was established
    int first                 # host with which the attempt began
    int64_t suspicions        # doubt.suspicions when it was connected
    int state
    int statement             # in flight, or SLOT_TEXT
    PGconn* conn
    uv_poll_t* poll           # belongs to the socket: a new socket gets a new poll
    int fd
    int events                # events that the poll waits for
    uv_timer_t timer
    uint64_t timer_at         # loop ms when the timer fires, 0: not running
    uint64_t due_at           # loop ms at which the present state has lasted too long
    int backoff_ms
    PGresult* result          # of the statement in flight, until its sync is answered
    int nulls                 # consecutive NULL results
    bint rows                 # its rows arrived: if the connection is lost now, the outcome is unknown
    slot_done done
    void* ctx
    int64_t sent_us           # monotonic, when the last statement was sent
    const char* refresh       # why to reconnect after the statement, NULL: no need
    int why                   # DOUBT_* of that reason
    char[SLOT_REASON] reason  # why the connection is about to end, if known early
    int64_t refusals          # edition.refusals when the statements were prepared
    bint unserved             # the database's functions do not serve this program; `reason` says why

cdef struct SlotPool:
    uv_loop_t* loop
    const char* session       # statement that configures the session, "": none
    Address address
    const StatementDef* statements
    int n_statements
    void* owner
    void (*on_idle)(void*) noexcept nogil
    # called before the first slot of another incarnation becomes idle; may be NULL
    void (*on_server)(void*) noexcept nogil
    int64_t server            # the incarnation that the owner knows
    Counters* counters
    Slot* slots
    int n
    int connect_ms            # from the first packet to the last PREPARE
    Slot* idle                # last in, first out: a few warm connections carry a light load
    int ready                 # slots idle or busy
    int busy
    int handles               # open libuv handles, and the running look-up
    bint closing
    void (*closed)(void*) noexcept nogil
    void* closed_ctx
    UuidGen random
    bint trouble              # a failure was logged, and not all slots have recovered
    uint64_t trouble_hash     # of the last logged reason
    uint64_t trouble_at

# -- state ------------------------------------------------------------------------------------------------------------

cdef void slot_move(Slot* s, int to) noexcept nogil:
    # Sets the state, and the lists and counts that follow from it. The only writer of `state`.
    cdef SlotPool* p = s.pool
    cdef Slot** at
    if s.state == SLOT_IDLE:
        at = &p.idle
        while at[0] != NULL and at[0] != s:
            at = &at[0].next_idle
        if at[0] == s:
            at[0] = s.next_idle
    if s.state == SLOT_IDLE or s.state == SLOT_BUSY:
        p.ready -= 1
    p.busy += (to == SLOT_BUSY) - (s.state == SLOT_BUSY)
    s.state = to
    if to == SLOT_IDLE:
        s.next_idle = p.idle
        p.idle = s
    if to == SLOT_IDLE or to == SLOT_BUSY:
        p.ready += 1
    atomic_set64(&p.counters.connected, p.ready)

cdef void slot_due(Slot* s, uint64_t in_ms) noexcept nogil:
    # Ends the present state after at most in_ms. A running timer that fires earlier is kept: it re-arms itself, so
    # ordinary statements do not touch the timer.
    s.due_at = uv_now(s.pool.loop) + in_ms
    if s.timer_at == 0 or s.due_at < s.timer_at:
        s.timer_at = s.due_at
        uv_timer_start(&s.timer, slot_on_timer, in_ms, 0)

cdef void slot_on_timer(uv_timer_t* handle) noexcept nogil:
    cdef Slot* s = <Slot*>handle.data
    cdef uint64_t now = uv_now(s.pool.loop)
    s.timer_at = 0
    if s.state == SLOT_IDLE or s.state == SLOT_CLOSED:
        return
    if now < s.due_at:
        slot_due(s, s.due_at - now)
    elif s.state == SLOT_BROKEN:
        slot_connect(s)
    elif s.state == SLOT_BUSY:
        slot_break(s, b"no answer before the deadline", SLOT_DEADLINE)
    else:
        address_silent(&s.pool.address, s.first)
        slot_break(s, b"connecting takes too long", SLOT_LOST)

# -- socket -----------------------------------------------------------------------------------------------------------

cdef void slot_on_poll_closed(uv_handle_t* handle) noexcept nogil:
    cdef SlotPool* p = <SlotPool*>handle.data
    free(handle)
    slotpool_handle_closed(p)

cdef void slot_unwatch(Slot* s) noexcept nogil:
    if s.poll != NULL:
        uv_poll_stop(s.poll)
        s.poll.data = s.pool
        uv_close(<uv_handle_t*>s.poll, slot_on_poll_closed)
        s.poll = NULL
    s.events = 0

cdef void slot_watch(Slot* s, int events) noexcept nogil:
    # Waits for events on the connection's socket, which libpq may have replaced since the last call.
    cdef int fd = PQsocket(s.conn)
    cdef uv_poll_t* poll
    if s.poll != NULL and fd != s.fd:
        slot_unwatch(s)
    if s.poll == NULL:
        poll = <uv_poll_t*>malloc(sizeof(uv_poll_t))
        if poll == NULL or uv_poll_init(s.pool.loop, poll, fd) != 0:
            free(poll)
            slot_break(s, b"the socket cannot be watched", SLOT_LOST)
            return
        poll.data = s
        s.poll = poll
        s.fd = fd
        s.events = 0
        slotpool_handle_opened(s.pool)
    if events != s.events:
        s.events = events
        uv_poll_start(s.poll, events, slot_on_poll)

cdef void slot_on_poll(uv_poll_t* handle, int status, int events) noexcept nogil:
    cdef Slot* s = <Slot*>handle.data
    if status < 0:
        s.events = 0          # libuv stopped the poll; the next call of libpq finds out why
    if s.state == SLOT_CONNECTING:
        slot_handshake(s)
    else:
        slot_serve(s, status < 0 or events & UV_READABLE != 0)

cdef void slot_flush(Slot* s) noexcept nogil:
    # Sends buffered data, and keeps waiting for input: so a connection that dies while idle is replaced before it is
    # needed.
    cdef int left = PQflush(s.conn)
    if left < 0:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
    else:
        slot_watch(s, UV_READABLE | UV_WRITABLE if left else UV_READABLE)

cdef void slot_break(Slot* s, const char* reason, int outcome) noexcept nogil:
    # Drops the connection, ends the statement in flight with the outcome, and connects again after a pause. The pause
    # is between half of backoff_ms and backoff_ms, so that slots spread out.
    cdef PGresult* res = NULL
    cdef slot_done done = NULL
    if s.state == SLOT_BUSY:
        done = s.done
        s.done = NULL
        if outcome == SLOT_LOST and not s.rows and slot_explained(s.result):
            res = s.result
            s.result = NULL
            reason = pg_error(res)
            s.reason[0] = 0
    if s.reason[0]:
        reason = s.reason
    if not s.pool.closing:
        slotpool_complain(s.pool, reason, s.why)
    slot_drop(s)
    slot_move(s, SLOT_BROKEN)
    if not s.pool.closing:
        slot_due(s, s.backoff_ms // 2 + uuidgen_random(&s.pool.random) % (s.backoff_ms // 2 + 1))
        s.backoff_ms = s.backoff_ms * 2 if s.backoff_ms * 2 < SLOT_BACKOFF_MAX_MS else SLOT_BACKOFF_MAX_MS
    if done != NULL:
        s.pool.counters.db_errors += 1
        done(s, s.ctx, res, outcome)
    PQclear(res)

cdef void slot_drop(Slot* s) noexcept nogil:
    # Frees the connection and its results.
    slot_unwatch(s)
    PQclear(s.result)
    s.result = NULL
    if s.conn != NULL:
        PQfinish(s.conn)
        s.conn = NULL
        s.pool.counters.live_slots -= 1
