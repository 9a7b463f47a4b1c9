# Bounds the requests in hand: complete, and not answered. Gives memory back to the system after they have fallen. In:
# complete requests. Out: requests to `service`, in order; refusals (503) after the patience. Owns the list of
# connections that wait for room, one per worker. Takes no lock: a worker has its share of QUEEND_MAX_QUEUED_BYTES. No
# request is refused at once for what other clients have in hand: it waits, with its place in net/budget.

cdef enum:
    HELD_OF_ONE = 1 << 20
    HELD_LITTLE = 8192
    HELD_FREED = 8 << 20      # bytes still to be given back above which nothing is unpacked
    HELD_GO_US = 2000         # time a turn spends on requests that waited
    HELD_GO_HEADS = 4         # connections per turn that may read a body that waited
    HELD_GO_LOOKS = 64        # addresses that are looked at for one with room

# ---- bytes in hand ---------------------------------------------------------------------------------------------------
# A request counts with the blocks of its arena: when it is complete, when its body is unpacked, and when it has become
# a job. Closing or parking a request gives its bytes back. Large blocks, whose pages go back to the system a slice per
# turn, count until they are gone.

cdef inline bint held_over(const Conn* c) noexcept nogil:
    # Returns True if there is no room for a large request of the connection. The worker has then as much in hand as it
    # may, and the address more than half of that.
    return budget_over_share(held_bytes(c.worker), c.worker.held_most, held_of_address(c))

cdef inline int64_t held_of_address(const Conn* c) noexcept nogil:
    # Returns the bytes in hand of the connection's address. Adds those of clients that left and those given back in the
    # next turns, which may be of this address.
    return c.address.held + c.worker.held_gone + c.worker.chunks.freed_bytes

cdef inline int64_t held_bytes(Worker* w) noexcept nogil:
    # Returns the bytes in hand, with those of large blocks whose pages are given back in the next turns.
    return w.counters.held + w.chunks.freed_bytes

cdef inline bint held_quarter(const Conn* c) noexcept nogil:
    # Returns True if there is no room for a request of the connection that unpacks. Each turn gives back pages of the
    # body before it; these make room first.
    cdef Worker* w = c.worker
    return (w.chunks.freed_bytes > HELD_FREED
            or budget_over_share(held_bytes(w), w.held_share // 4, held_of_address(c)))

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
    # Counts what the request's arena took since it was counted last, or what it has not taken of a reservation.
    held_add(r, <int64_t>r.arena.size - r.held)

cdef void held_add(Request* r, int64_t more) noexcept nogil:
    # Counts bytes as in hand. Before they are taken, that reserves them: held_count corrects it.
    r.held += more
    r.worker.counters.held += more
    if r.conn != NULL:
        r.conn.held += more
        r.conn.address.held += more
    else:
        r.worker.held_gone += more

cdef void held_drop(Request* r) noexcept nogil:
    # Gives back all the request was counted with.
    held_add(r, -r.held)

# ---- requests that wait for room -------------------------------------------------------------------------------------
# A connection with HELD_OF_ONE in hand is not read. While a worker is over its share, HELD_LITTLE is enough for that,
# and a request with a body of HELD_LITTLE waits. One that unpacks waits from a quarter of the share on. One request of
# each connection waits, unread or read (it then keeps its place in net/budget). A request that is alone has room.
# Addresses that wait take turns, and so do the connections of an address. An address with at most half of the share
# goes on until the worker has twice its share (budget_over_share).

cdef inline bint held_full(Conn* c) noexcept nogil:
    # Returns True if the connection has as many bytes in hand as it may.
    return c.held > HELD_LITTLE and (c.held > HELD_OF_ONE or held_over(c))

cdef bint held_waits(Conn* c, int64_t size) noexcept nogil:
    # Returns True if a request of the connection with a body of `size` bytes has to wait. A connection that waited is
    # not sent behind the others again.
    return size >= HELD_LITTLE and (held_over(c) or not c.has_room and held_behind(c))

cdef bint held_behind(const Conn* c) noexcept nogil:
    # Returns True if requests wait that go before one of the connection. They are of its own address, or of an address
    # with at most half of the share.
    cdef const LocalAddress* a = c.worker.room_first
    return a != NULL and (c.address.room_first != NULL or not held_over(a.room_first))

cdef inline bint held_unpacks(Request* r) noexcept nogil:
    # Returns True if a few bytes of the request's body may become many.
    cdef int form
    if r.unpacks_to:
        return True
    if r.route == NULL or r.body.n == 0:
        return False
    form = pushitems_form(r.headers_raw, r.body)
    return form == MEDIA_FRAMES or form == MEDIA_ARROW

cdef void held_take(Conn* c, Request* r) noexcept nogil:
    # Sends a complete request, the last one owed, to the engine, or has it wait for room. A request that waits takes
    # its bytes from the budget of what arrives, also if it came with one read. It is refused if that budget is full.
    cdef Worker* w = c.worker
    cdef int64_t more
    cdef bint waits
    if r.body.n >= HELD_LITTLE:
        held_limit(w, c.arriving)
    waits = held_waits(c, <int64_t>r.body.n) or r.unpacks_to and w.unpacking
    if not waits and held_quarter(c):
        waits = held_unpacks(r)
    c.has_room = False
    if not waits:
        held_pass(w, r)
        return
    more = <int64_t>r.arena.size - r.arriving - c.arriving
    if c.arriving and more <= ARRIVING_FREE:
        atomic_add64(&budget.arriving, more)      # its body has its place already
    elif not budget_take(more, atomic_get64(&c.address.client.arriving) + more):
        w.counters.no_room += 1
        reply_error(r, 503, ARRIVING_TEXT)
        return
    budget_pass_on(c, r, <int64_t>r.arena.size)
    r.on_gone = request_close     # its client left before it was read
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
    cdef LocalAddress* a = c.address
    c.worker.counters.waited_room += 1
    c.unread_request = r
    c.worker.room_bytes += r.arriving if r != NULL else 0
    c.waits_room = True
    if a.room_first == NULL:
        link_put(<void**>&c.worker.room_first, a, <void**>&a.room_prev)
    link_put(<void**>&a.room_first, c, <void**>&c.room_prev)

cdef void held_leave(Conn* c) noexcept nogil:
    # Removes the connection from those that wait for room, if it is one of them.
    cdef LocalAddress* a = c.address
    if not c.waits_room:
        return
    c.waits_room = False
    c.worker.room_bytes -= c.unread_request.arriving if c.unread_request != NULL else 0
    c.unread_request = NULL
    link_take(<void**>&a.room_first, c, <void**>&c.room_prev)
    if a.room_first == NULL:
        link_take(<void**>&c.worker.room_first, a, <void**>&a.room_prev)

cdef bint held_may_go(Conn* c) noexcept nogil:
    # Returns True if there is room for a connection that waits.
    cdef Request* r = c.unread_request
    return r == NULL or not held_unpacks(r) or not held_quarter(c) and not (r.unpacks_to and c.worker.unpacking)

cdef Conn* held_next(Worker* w) noexcept nogil:
    # Returns the next connection for which there is room, NULL if there is none. Addresses that have more than half of
    # the share are passed by.
    cdef LocalAddress* a = w.room_first
    cdef int looks = HELD_GO_LOOKS
    while a != NULL and looks and held_over(a.room_first):
        a = a.room_next
        looks -= 1
    return a.room_first if a != NULL and looks and held_may_go(a.room_first) else NULL

cdef bint held_go(Worker* w) noexcept nogil:
    # Goes on with requests that waited while there is room, for HELD_GO_US. Returns True if there is something to
    # flush.
    cdef int64_t began = clock_mono_us()
    cdef int heads = HELD_GO_HEADS
    cdef Conn* c = held_next(w)
    cdef LocalAddress* a
    cdef Request* r
    while heads and c != NULL:
        a = c.address
        r = c.unread_request
        held_leave(c)
        if a.room_first != NULL:      # its next connection goes after one of each other address
            link_take(<void**>&w.room_first, a, <void**>&a.room_prev)
            link_put(<void**>&w.room_first, a, <void**>&a.room_prev)
        conn_dirty(c)
        if r == NULL:
            c.has_room = True
            heads -= 1
        else:
            request_settle(r)
            r.on_gone = NULL
            held_pass(w, r)
        c = held_next(w)
        if clock_mono_us() - began > HELD_GO_US:
            break
    if c != NULL:
        uv_async_send(&w.inbox.wake)      # the others in the next turn, which comes at once
    return w.dirty != NULL

cdef void held_expire(Worker* w) noexcept nogil:
    # Refuses requests that waited longer than the patience.
    cdef LocalAddress* a = w.room_first
    cdef LocalAddress* after
    cdef Conn* c
    cdef Conn* following
    cdef Request* r
    cdef int64_t oldest = clock_mono_us() - <int64_t>w.settings.patience_ms * 1000
    while a != NULL:
        after = a.room_next
        c = a.room_first
        while c != NULL:
            following = c.room_next
            r = c.unread_request
            if r != NULL and r.started_us < oldest:
                held_leave(c)
                reply_error(r, 503, b"Too many requests are waiting; try again")
            c = following
        a = after

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
