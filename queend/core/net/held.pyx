# Bounds the requests in hand: complete, and not answered. Gives memory back to the system after they have fallen. In:
# complete requests. Out: requests to `service`, in order; refusals (503) after the patience. Owns the list of
# connections that wait for room, one per worker. Takes no lock: a worker has its share of QUEEND_MAX_QUEUED_BYTES. No
# request is refused at once for what other clients hold.

cdef enum:
    HELD_OF_ONE = 1 << 20
    HELD_LITTLE = 8192
    HELD_FREED = 8 << 20      # bytes still to be given back above which nothing is unpacked
    HELD_GO_US = 2000         # time a turn spends on requests that waited
    HELD_GO_HEADS = 4         # connections per turn that may read a body that waited

# ---- bytes in hand ---------------------------------------------------------------------------------------------------
# A request counts with the blocks of its arena: when it is complete, when its body is unpacked, and when it has become
# a job. Closing or parking a request gives its bytes back. Large blocks, whose pages go back to the system a slice per
# turn, count until they are gone.

cdef inline bint held_over(Worker* w) noexcept nogil:
    return held_bytes(w) >= w.held_most

cdef inline int64_t held_bytes(Worker* w) noexcept nogil:
    # Returns the bytes in hand, with those of large blocks whose pages are given back in the next turns.
    return w.counters.held + w.chunks.freed_bytes

cdef inline bint held_quarter(Worker* w) noexcept nogil:
    # Returns True if there is no room for a request that unpacks. Each turn gives back pages of the body before it; these
    # make room first.
    return w.chunks.freed_bytes > HELD_FREED or held_bytes(w) > w.held_share // 4

cdef inline int64_t held_limit(Worker* w, int64_t own) noexcept nogil:
    # Sets what the worker may have in hand. Incomplete requests and unsent answers (net/budget) take their part of its
    # share, of which a quarter is left always. Complete requests that wait for room do not, nor does one of `own`
    # bytes. Returns the bytes of clients that all workers hold besides requests in hand.
    cdef int64_t all_ = budget_arrives() + budget_leaves()
    w.held_most = max(w.held_share // 4, w.held_share - (all_ - w.room_bytes - own) // w.settings.workers)
    return all_

cdef void held_turn(Worker* w) noexcept nogil:
    # Sets what the worker may have in hand, and notes its peak. Called once per turn of the loop.
    cdef int64_t bytes = w.counters.held + held_limit(w, 0)
    if bytes > w.held_peak:
        w.held_peak = bytes

cdef void held_count(Request* r) noexcept nogil:
    # Counts what the request's arena took since it was counted last.
    cdef int64_t more = <int64_t>r.arena.size - r.held
    r.held += more
    r.worker.counters.held += more
    if r.conn != NULL:
        r.conn.held += more

cdef void held_drop(Request* r) noexcept nogil:
    # Gives back all the request was counted with.
    r.worker.counters.held -= r.held
    if r.conn != NULL:
        r.conn.held -= r.held
    r.held = 0

# ---- requests that wait for room -------------------------------------------------------------------------------------
# A connection with HELD_OF_ONE in hand is not read. While a worker is over its share, HELD_LITTLE is enough for that,
# and a request with a body of HELD_LITTLE waits. One that unpacks waits from a quarter of the share on. One request of
# each connection waits, unread or read (it then keeps its place in net/budget). A request that is alone has room.

cdef inline bint held_full(Conn* c) noexcept nogil:
    # Returns True if the connection has as many bytes in hand as it may.
    return c.held > HELD_LITTLE and (c.held > HELD_OF_ONE or held_over(c.worker))

cdef bint held_waits(Conn* c, int64_t size) noexcept nogil:
    # Returns True if a request of the connection with a body of `size` bytes has to wait. A connection that waited is
    # not sent behind the others again.
    cdef Worker* w = c.worker
    return size >= HELD_LITTLE and (held_over(w) or w.room_first != NULL and not c.has_room)

cdef inline bint held_unpacks(Request* r) noexcept nogil:
    # Returns True if a few bytes of the request's body may become many.
    cdef int form
    if r.unpacks_to:
        return True
    if r.route == NULL or r.body.n == 0:
        return False
    form = pushitems_form(r.headers_raw, r.body)
    return form == PUSH_FRAMES or form == PUSH_ARROW

cdef void held_take(Conn* c, Request* r) noexcept nogil:
    # Sends a complete request, the last one owed, to the engine, or has it wait for room.
    cdef Worker* w = c.worker
    cdef bint waits
    if r.body.n >= HELD_LITTLE:
        held_limit(w, c.arriving)
    waits = held_waits(c, <int64_t>r.body.n) or r.unpacks_to and w.unpacking
    if not waits and held_quarter(w):
        waits = held_unpacks(r)
    c.has_room = False
    if not waits:
        held_pass(w, r)
        return
    atomic_add64(&budget.arriving, <int64_t>r.arena.size - r.arriving - c.arriving)
    r.arriving = <int64_t>r.arena.size
    budget_set_share(&c.arriving, &c.address.arriving, 0)
    r.on_gone = held_gone
    held_wait(c, r)

cdef void held_pass(Worker* w, Request* r) noexcept nogil:
    held_count(r)
    if r.unpacks_to:
        unpack_offload(w, r)
    else:
        service.request(w, r)

cdef void held_wait(Conn* c, Request* r) noexcept nogil:
    # Adds the connection to those that wait for room. r: its complete request; NULL: its next head or frame waits. The
    # caller takes nothing more from the connection.
    cdef Worker* w = c.worker
    w.counters.waited_room += 1
    c.unread_request = r
    w.room_bytes += r.arriving if r != NULL else 0
    c.waits_room = True
    c.room_next = NULL
    c.room_prev = w.room_last
    if w.room_last != NULL:
        w.room_last.room_next = c
    else:
        w.room_first = c
    w.room_last = c

cdef void held_leave(Conn* c) noexcept nogil:
    # Removes the connection from those that wait for room, if it is one of them.
    cdef Worker* w = c.worker
    if not c.waits_room:
        return
    c.waits_room = False
    w.room_bytes -= c.unread_request.arriving if c.unread_request != NULL else 0
    c.unread_request = NULL
    if c.room_prev != NULL:
        c.room_prev.room_next = c.room_next
    else:
        w.room_first = c.room_next
    if c.room_next != NULL:
        c.room_next.room_prev = c.room_prev
    else:
        w.room_last = c.room_prev

cdef void held_gone(Request* r) noexcept nogil:
    # Forgets a request whose client left before it was read.
    request_close(r)

cdef bint held_may_go(Worker* w) noexcept nogil:
    # Returns True if there is room for the first connection that waits.
    cdef Request* r
    if w.room_first == NULL or held_over(w):
        return False
    r = w.room_first.unread_request
    return r == NULL or not held_unpacks(r) or not held_quarter(w) and not (r.unpacks_to and w.unpacking)

cdef bint held_go(Worker* w) noexcept nogil:
    # Goes on with requests that waited while there is room, for HELD_GO_US. Returns True if there is something to
    # flush.
    cdef int64_t began = clock_mono_us()
    cdef int heads = HELD_GO_HEADS
    cdef Conn* c
    cdef Request* r
    while heads and held_may_go(w):
        c = w.room_first
        r = c.unread_request
        held_leave(c)
        conn_dirty(c)
        if r == NULL:
            c.has_room = True
            heads -= 1
        else:
            request_settle(r)
            r.on_gone = NULL
            held_pass(w, r)
        if clock_mono_us() - began > HELD_GO_US:
            break
    if held_may_go(w):
        uv_async_send(&w.inbox.wake)      # the others in the next turn, which comes at once
    return w.dirty != NULL

cdef void held_expire(Worker* w) noexcept nogil:
    # Refuses requests that waited longer than the patience.
    cdef Conn* c = w.room_first
    cdef Conn* following
    cdef Request* r
    cdef int64_t oldest = clock_mono_us() - <int64_t>w.settings.patience_ms * 1000
    while c != NULL:
        following = c.room_next
        r = c.unread_request
        if r != NULL and r.started_us < oldest:
            held_leave(c)
            reply_error(r, 503, b"Too many requests are waiting; try again")
        c = following

# ---- memory given back -----------------------------------------------------------------------------------------------
# A worker looks every TRIM_LOOK_MS at its requests in hand, with the incomplete requests and unsent answers of all
# workers. It trims once these took TRIM_LEAST or more, and less than a quarter of that since the last look. It gives
# back the end of its own heap on its thread, and the pages inside all heaps on a thread of the pool (base/memory).

cdef enum:
    TRIM_LOOK_MS = 10000
    TRIM_LEAST = 16 << 20

cdef void held_trim(Worker* w) noexcept nogil:
    # Trims if it is due. Called with each tick.
    cdef Trim* t = &w.trim
    cdef uint64_t now = uv_now(&w.loop)
    cdef int64_t peak = w.held_peak
    if now - t.looked < TRIM_LOOK_MS or t.running:
        return
    t.looked = now
    w.held_peak = 0
    if peak >= TRIM_LEAST and peak > t.grown:
        t.grown = peak
    if t.grown == 0 or peak >= t.grown // 4:
        return
    t.grown = 0
    memory_give_top()
    w.counters.trimmed += 1
    t.work.data = w
    t.running = uv_queue_work(&w.loop, &t.work, held_trim_run, held_trim_done) == 0

cdef void held_trim_run(uv_work_t* work) noexcept nogil:
    # Runs on a thread of the pool.
    memory_give_top()
    memory_give_rest()

cdef void held_trim_done(uv_work_t* work, int status) noexcept nogil:
    (<Worker*>work.data).trim.running = False
