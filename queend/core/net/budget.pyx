# Bounds what all clients take together: connections, memory for incomplete requests, memory for unsent answers. In:
# connections, bytes, answers. Out: admission or refusal (503, 408), closed connections. Owns `budget`, one for the
# process. Locks: budget.lock guards the addresses and the bounds; the counts are atomic. They change when a connection
# opens or closes, and for requests and answers that do not pass in one piece.

cdef enum:
    BUDGET_TOLD_US = 60000000

cdef Budget budget

cdef void budget_open(Settings* s) noexcept nogil:
    memset(&budget, 0, sizeof(Budget))
    budget.most = s.max_connections
    budget.most_of_one = s.max_per_address
    budget.most_arriving = s.max_arriving
    budget.most_untaken = s.max_untaken
    budget.most_all = max((s.max_arriving + s.max_untaken) // 4 * 3, max(s.max_arriving, s.max_untaken))
    uv_mutex_init(&budget.lock)

cdef void budget_change(int most, int most_of_one) noexcept nogil:
    # Sets how many connections may be open from now on. Open connections stay.
    uv_mutex_lock(&budget.lock)
    budget.most = most
    budget.most_of_one = most_of_one
    uv_mutex_unlock(&budget.lock)

cdef void budget_close() noexcept nogil:
    table_free(&budget.addresses)
    uv_mutex_destroy(&budget.lock)

# ---- connections -----------------------------------------------------------------------------------------------------

cdef uint64_t budget_key(const sockaddr_storage* address) noexcept nogil:
    # Returns the key of a client, never 0: its IPv4 address, or the /64 of its IPv6 address.
    cdef const unsigned char* b
    cdef uint64_t key = 0
    cdef int i
    if address.ss_family == AF_INET:
        return <uint64_t>1 << 32 | ntohl((<const sockaddr_in*>address).sin_addr.s_addr)
    if address.ss_family != AF_INET6:
        return 1
    b = <const unsigned char*>&(<const sockaddr_in6*>address).sin6_addr
    if memcmp(b, b"\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0:
        return <uint64_t>1 << 32 | <uint64_t>b[12] << 24 | <uint64_t>b[13] << 16 | <uint64_t>b[14] << 8 | b[15]
    for i in range(8):
        key = key << 8 | b[i]
    return key if key else 1

cdef int budget_admit(uint64_t key, ClientAddress** address) noexcept nogil:
    # Counts a new connection. After ADMITTED the caller must call budget_leave with *address when the connection has
    # ended.
    cdef int64_t now
    cdef ClientAddress* x
    cdef int outcome = ADMITTED
    uv_mutex_lock(&budget.lock)
    x = <ClientAddress*>table_get(&budget.addresses, key)
    if budget.connections >= budget.most:
        outcome = CROWDED
    elif budget.most_of_one and x != NULL and x.connections >= budget.most_of_one:
        outcome = CROWDED_ADDRESS
    elif x == NULL:
        x = <ClientAddress*>calloc(1, sizeof(ClientAddress))
        if x == NULL or not table_put(&budget.addresses, key, x):
            free(x)
            outcome = CROWDED     # out of memory
        else:
            x.key = key           # once: workers read it without the lock
    if outcome == ADMITTED:
        x.connections += 1
        address[0] = x
        atomic_add64(&budget.connections, 1)
    else:
        budget.refused += 1
        now = clock_mono_us()
        if budget.told_us == 0 or now - budget.told_us > BUDGET_TOLD_US:
            budget.told_us = now
            log_line(b"warn", b"connection_refused", b"QUEEND_MAX_CONNECTIONS are open" if outcome == CROWDED else
                     b"one address has QUEEND_MAX_CONNECTIONS_PER_ADDRESS open")
    uv_mutex_unlock(&budget.lock)
    return outcome

cdef void budget_leave(ClientAddress* x) noexcept nogil:
    # Counts a connection that has ended. Frees the address with its last connection.
    uv_mutex_lock(&budget.lock)
    x.connections -= 1
    if x.connections == 0:
        table_del(&budget.addresses, x.key)
        free(x)
    atomic_add64(&budget.connections, -1)
    uv_mutex_unlock(&budget.lock)

# ---- the bytes of all kinds together ---------------------------------------------------------------------------------
# One kind alone may use its whole bound. All kinds together have three quarters of the sum of the bounds. While others
# hold much, a kind has less, but always half of its bound. Requests in hand wait instead (held_limit).

cdef inline int64_t budget_arrives() noexcept nogil:
    # Returns the bytes of all requests and messages that are incomplete.
    return atomic_get64(&budget.arriving) + atomic_get64(&budget.parts)

cdef inline int64_t budget_leaves() noexcept nogil:
    # Returns the bytes of all unsent answers, with those that large pops are expected to bring.
    return atomic_get64(&budget.untaken) + atomic_get64(&budget.expected)

cdef inline int64_t budget_part(int64_t most, int64_t others) noexcept nogil:
    # Returns the bound of a kind, at most `most`, while the other kinds hold so many bytes.
    return min(most, max(most // 2, budget.most_all - others))

# ---- addresses of one worker -----------------------------------------------------------------------------------------
# Counts what an address has in one worker, for bounds of that worker. No other thread reads it.

cdef LocalAddress* budget_join(Worker* w, ClientAddress* client) noexcept nogil:
    # Counts a new connection of the address in its worker. Returns NULL if memory ran out.
    cdef LocalAddress* a = <LocalAddress*>table_get(&w.addresses, client.key)
    if a == NULL:
        a = <LocalAddress*>calloc(1, sizeof(LocalAddress))
        if a == NULL or not table_put(&w.addresses, client.key, a):
            free(a)
            return NULL
        a.client = client
    a.connections += 1
    return a

cdef ClientAddress* budget_quit(Worker* w, LocalAddress* a) noexcept nogil:
    # Counts a connection of the worker that has ended and has no request any more. Frees the address with its last
    # connection. Returns the address among those of all workers, for budget_leave.
    cdef ClientAddress* client = a.client
    a.connections -= 1
    if a.connections == 0:
        table_del(&w.addresses, client.key)
        free(a)
    return client

# ---- shares of addresses ---------------------------------------------------------------------------------------------

cdef inline bint budget_over_share(int64_t all_, int64_t most, int64_t one) noexcept nogil:
    # Returns True if a client is refused because all clients hold all_ bytes or entries, of which `one` are of its
    # address. Beyond the bound, addresses with at most half of it go on until all hold twice as much.
    return all_ > most and (one > most // 2 or all_ > 2 * most)

cdef inline void budget_set_share(int64_t* of_conn, int64_t* of_address, int64_t to) noexcept nogil:
    # Sets what a connection holds, and adjusts the sum of its address.
    if to != of_conn[0]:
        atomic_add64(of_address, to - of_conn[0])
        of_conn[0] = to

cdef void budget_pass_on(Conn* c, Request* r, int64_t bytes) noexcept nogil:
    # Moves what the connection has in the budget of what arrives, with the share of its address, to its complete
    # request. The request has `bytes` then, of which the caller has taken or given back the difference. request_settle
    # gives them back.
    cdef int64_t* of_address = &c.address.client.arriving
    budget_set_share(&r.arriving_share, of_address, bytes)
    budget_set_share(&c.arriving, of_address, 0)
    r.arriving = bytes

cdef void budget_leave_shares(Conn* c) noexcept nogil:
    # Gives back what a closed connection still holds of the shares of its address.
    budget_set_share(&c.arriving, &c.address.client.arriving, 0)
    budget_set_share(&c.untaken, &c.address.client.untaken, 0)
    if c.long_polls:
        atomic_add64(&c.address.client.long_polls, -c.long_polls)

# ---- incomplete requests ---------------------------------------------------------------------------------------------
# A connection takes the bytes of its incomplete head and body from the budget; a body counts with its announced length.
# A request that is complete after one read is never counted. A client that announced a body must send at least
# least_rate in each body_timeout_ms and, while the budget is short, the whole body within PACE_ALL_MS.

cdef enum:
    SHORT_MS = 2000

cdef bint budget_take(int64_t more, int64_t of_address) noexcept nogil:
    # Takes bytes for what arrives. of_address: bytes that the client's address has with these; 0: not known. Returns
    # False if there is no room for the address; for SHORT_MS slow clients are then held to a pace.
    if not budget_over_share(atomic_add64(&budget.arriving, more),
                             budget_part(budget.most_arriving, atomic_get64(&budget.parts) + budget_leaves()),
                             of_address):
        return True
    atomic_add64(&budget.arriving, -more)
    atomic_set64(&budget.short_ms, clock_mono_us() // 1000)
    return False

cdef inline void budget_give(int64_t bytes) noexcept nogil:
    atomic_add64(&budget.arriving, -bytes)

cdef inline bint budget_short() noexcept nogil:
    # Returns True if a request found the budget full within the last SHORT_MS.
    cdef int64_t at = atomic_get64(&budget.short_ms)
    return at != 0 and clock_mono_us() // 1000 - at < SHORT_MS

cdef int64_t budget_body_most(Worker* w, Request* r) noexcept nogil:
    # Returns the number of bytes that the request's body may have.
    cdef int64_t most = w.limits.max_body
    if r.route.small if r.route != NULL else not budget_path_listed(w.settings.large_paths, r.path):
        most = min(most, w.settings.max_control)
    if not service.guarded or service.open_to_all(r.path):
        most = min(most, w.settings.max_open)
    return most

cdef bint budget_path_listed(const char* paths, Slice path) noexcept nogil:
    while paths[0]:
        if slice_is(path, paths):
            return True
        paths += strlen(paths) + 1
    return False

cdef const char* ARRIVING_TEXT = b"Too much is being received; try again"

cdef void budget_account(Conn* c) noexcept nogil:
    # Adjusts the connection's part of the budget to what it holds; conn_drop gives it back. Refuses the request with
    # 503 if the budget is full. One whose token is being verified is owed an answer already: bridge_resume sends it.
    # If a frame finds no room, its stream is closed (feed_flow).
    cdef int64_t holds = 0
    if c.reading != NULL:
        holds = <int64_t>(c.reading.body.n if c.mode == READ_FIXED else c.reading.out.cap)
    if c.head.cap > ARRIVING_FREE:
        holds += <int64_t>c.head.cap
    if c.tls != NULL:
        holds += tls_holds(c.tls)
    if holds > c.arriving and not budget_take(holds - c.arriving,
                                              atomic_get64(&c.address.client.arriving) + holds - c.arriving):
        c.worker.counters.no_room += 1
        if c.mode == READ_LATER or c.mode == READ_FRAMES:
            if c.feed != NULL:
                c.feed.frame_refused = True
                conn_dirty(c)
            conn_drop(c)
            c.mode = READ_NOTHING
        else:
            conn_refuse(c, 503, ARRIVING_TEXT)
        return
    if holds < c.arriving:
        budget_give(c.arriving - holds)
    budget_set_share(&c.arriving, &c.address.client.arriving, holds)

cdef void budget_check_bodies(Worker* w) noexcept nogil:
    # Refuses, with 408, bodies that arrive too slowly. Called with each tick.
    cdef Conn* c = w.conns[CONN_BODY].first
    cdef Conn* following
    cdef bint short = budget_short()
    while c != NULL:
        following = c.next
        if c.reading != NULL:
            if conn_is_held_up(c):
                c.pace.running = False
            elif not budget_keeps_pace(c, <int64_t>(c.body_got if c.mode == READ_FIXED else c.reading.out.len),
                                       c.arriving, short, w.settings.body_timeout_ms):
                w.counters.too_slow += 1
                conn_refuse(c, 408, b"The request body came too slowly")
                conn_settle(c)
        c = following

# ---- unsent answers --------------------------------------------------------------------------------------------------
# Counted are only answers that are large, that wait behind an answer still owed, or that need more than one write. A
# client must take at least least_rate in each write_timeout_ms. While all answers are beyond their budget, it must take
# its answers within PACE_ALL_MS, and no pop begins (run/engine).

cdef enum:
    UNSENT_SYNC = 65536       # bytes of a worker that are not yet reported to the budget

cdef const char* UNSENT_TEXT = b"Too many answers wait for clients that do not take them; try again"

cdef inline int64_t budget_weight(const Buf* b) noexcept nogil:
    # Returns the bytes an answer counts with: the memory it keeps from others, or the length of a larger one.
    return <int64_t>(b.cap if b.cap <= OUT_KEEP else b.len)

cdef void budget_charge(Request* r) noexcept nogil:
    # Counts an answer that was just made. A connection with more than max_untaken_of_one in several answers is marked,
    # and output_flush closes it. Messages claimed for answers that did not go out are given back.
    cdef Conn* c = r.conn
    r.charged = budget_weight(&r.out) + <int64_t>sizeof(Request)
    budget_add_unsent(r.worker, c, r.charged)
    if c.untaken > r.worker.settings.max_untaken_of_one and c.untaken > r.charged:
        c.greedy = True

cdef inline void budget_add_unsent(Worker* w, Conn* c, int64_t more) noexcept nogil:
    # Adds to the worker's untaken bytes. c: NULL if the client has left.
    w.untaken += more
    if c != NULL:
        budget_set_share(&c.untaken, &c.address.client.untaken, c.untaken + more)
    if w.untaken - w.untaken_counted > UNSENT_SYNC or w.untaken_counted - w.untaken > UNSENT_SYNC:
        budget_sync_unsent(w)

cdef void budget_sync_unsent(Worker* w) noexcept nogil:
    atomic_add64(&budget.untaken, w.untaken - w.untaken_counted)
    w.untaken_counted = w.untaken

cdef inline int64_t budget_most_unsent() noexcept nogil:
    # Returns the bound of unsent answers, as of now.
    return budget_part(budget.most_untaken, budget_arrives())

cdef inline bint budget_unsent_full(const Conn* c, int64_t bytes) noexcept nogil:
    # Returns True if no further answer of so many bytes is begun for the connection. c: NULL if the client has left.
    return budget_over_share(atomic_get64(&budget.untaken) + bytes, budget_most_unsent(),
                             atomic_get64(&c.address.client.untaken) + bytes if c != NULL else 0)

cdef void budget_check_unsent(Worker* w) noexcept nogil:
    # Closes clients that take answers slower than the least rate. Called with each tick.
    cdef Conn* c = w.conns[CONN_STALLED].first
    cdef Conn* following
    cdef int64_t now = <int64_t>uv_now(&w.loop)
    cdef bint over
    if w.untaken != w.untaken_counted:
        budget_sync_unsent(w)
    over = atomic_get64(&budget.untaken) >= budget_most_unsent()
    while c != NULL:
        following = c.next
        # done: of all bytes handed to the loop, those that the kernel has taken
        if not budget_keeps_pace(c, c.handed - <int64_t>output_unsent(c), c.untaken, over,
                                 w.settings.write_timeout_ms):
            w.counters.not_taken += 1
            conn_close(c)
        c = following
    c = w.conns[CONN_BUSY].first if over else NULL
    while c != NULL:
        following = c.next
        if c.untaken > OUT_MAX and now - <int64_t>c.since >= PACE_GRACE_MS:
            w.counters.not_taken += 1
            conn_close(c)     # its answers wait behind one that is still owed
        c = following

# ---- pace ------------------------------------------------------------------------------------------------------------

cdef bint budget_keeps_pace(Conn* c, int64_t done, int64_t all_, bint short, int window_ms) noexcept nogil:
    # Returns True if the connection moves at least least_rate in each window. short: it must also move fast enough for
    # all bytes within PACE_ALL_MS.
    cdef Pace* p = &c.pace
    cdef uint32_t now = <uint32_t>uv_now(&c.worker.loop)
    cdef int64_t ms
    if not p.running:
        p.running = True
        p.since = now
        p.mark_since = now
        p.bytes = done
        p.mark_bytes = done
        return True
    ms = <uint32_t>(now - p.since)
    if short and ms >= PACE_GRACE_MS and (done - p.bytes) * PACE_ALL_MS < all_ * ms:
        return False
    ms = <uint32_t>(now - p.mark_since)
    if c.worker.settings.least_rate and ms >= window_ms:
        if (done - p.mark_bytes) * 1000 < c.worker.settings.least_rate * ms:
            return False
        p.mark_since = now
        p.mark_bytes = done
    return True
