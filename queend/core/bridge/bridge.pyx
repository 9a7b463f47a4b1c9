# Passes requests to the control plane and answers back. In: requests of workers. Out: answers, by token. Owns the queue
# and the table of calls, guarded by bridge.lock. An eventfd wakes the interpreter's thread; workers never wait for it.
# A request without room tries once more at the next tick, and is refused then. So a client gets its refusals twice a
# second, not as fast as it can send. Requests that wait for the tick are their worker's.

cdef struct Bridge:
    uv_mutex_t lock
    int fd                    # readable while a call waits
    BridgeCall* first
    BridgeCall* last
    BridgeCall* copied        # the call whose request the control plane copies; it is not freed meanwhile
    int[2] n                  # calls that wait or were taken: those not held, those held
    int[2] most
    int64_t[2] bytes          # of their bodies
    int64_t most_bytes
    uint64_t tokens
    Table calls               # by token: waiting or taken

cdef enum:
    BRIDGE_PASSED = 0         # BridgeAnswer.status: the token is verified, the held request goes on

cdef struct BridgeAnswer:
    InboxMsg msg
    uint64_t token
    int status                # or BRIDGE_PASSED
    size_t headers
    size_t body
    char* block               # REPLY_ROOM free bytes and a large body; NULL: the body is small and follows the headers
    # the bytes of the headers follow

cdef Bridge bridge

cdef bint bridge_open(int most, int most_held, int64_t most_bytes) noexcept nogil:
    memset(&bridge, 0, sizeof(Bridge))
    bridge.most[0] = most
    bridge.most[1] = most_held
    bridge.most_bytes = most_bytes
    bridge.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if bridge.fd < 0:
        return False
    uv_mutex_init(&bridge.lock)
    return True

cdef void bridge_close() noexcept nogil:
    # Frees the bridge, after the workers have ended: every call was answered or forsaken.
    close(bridge.fd)
    table_free(&bridge.calls)
    uv_mutex_destroy(&bridge.lock)

cdef inline bint bridge_has_room(const BridgeCall* c) noexcept nogil:
    # Returns True if the call may wait. At a bound, only addresses with more than half of it are refused
    # (budget_over_share). One body of any size has room. Requires bridge.lock.
    cdef int n = 1
    cdef int64_t bytes = c.size
    if c.address != NULL:
        n += c.address.bridged[c.held]
        bytes += c.address.bridged_bytes[c.held]
    return not (budget_over_share(bridge.n[c.held] + 1, bridge.most[c.held], n)
                or bridge.bytes[c.held] and budget_over_share(bridge.bytes[c.held] + c.size, bridge.most_bytes, bytes))

cdef inline void bridge_count(BridgeCall* c, int n) noexcept nogil:
    # Counts a call, or no longer (n = -1). Requires bridge.lock.
    bridge.n[c.held] += n
    bridge.bytes[c.held] += n * c.size
    if c.address != NULL:
        c.address.bridged[c.held] += n
        c.address.bridged_bytes[c.held] += n * c.size

cdef void bridge_hold_back(BridgeCall* c, bint away) noexcept nogil:
    # Lets the connection's next request wait until the held one is verified, or take its turn (away = False). While a
    # body is not read, READ_LATER does that.
    cdef Request* r = c.r
    if c.held and not r.early and r.feed == NULL and r.conn != NULL:
        r.conn.last_is_away = away
        conn_dirty(r.conn)

cdef void bridge_send(Request* r, bint held) noexcept nogil:
    # Hands a request over to the control plane. Runs on the request's worker. held: only its token is to be verified
    # there, and the connection's next request waits meanwhile.
    cdef BridgeCall* c = <BridgeCall*>malloc(sizeof(BridgeCall))
    if c == NULL:
        reply_error(r, 503, b"Out of memory")
        return
    c.r = r
    c.taken = False
    c.held = held
    c.size = <int64_t>r.body.n
    c.address = r.conn.address.client if r.conn != NULL else NULL
    conn_name(r.conn, c.client, sizeof(c.client))
    r.job = c
    bridge_hold_back(c, True)
    if not bridge_enter(c):
        r.on_gone = bridge_gone_before
        link_append(<void**>&r.worker.without_room, c)

cdef bint bridge_enter(BridgeCall* c) noexcept nogil:
    # Puts a request in the queue of the control plane. Returns False if there is no room, or memory ran out.
    cdef uint64_t one = 1
    cdef bint room = False
    uv_mutex_lock(&bridge.lock)
    if bridge_has_room(c):
        bridge.tokens += 1
        c.token = bridge.tokens
        room = table_put(&bridge.calls, c.token, c)
    if room:
        link_append(<void**>&bridge.first, c)
        bridge_count(c, 1)
        c.r.on_gone = bridge_gone
    uv_mutex_unlock(&bridge.lock)
    if room and write(bridge.fd, &one, sizeof(one)) < 0:
        pass                  # its counter is full: readable already
    return room

cdef void bridge_tick(Worker* w) noexcept nogil:
    # Lets requests without room try once more, in the order they came, and refuses those that still have none.
    cdef BridgeCall* first = w.without_room
    cdef BridgeCall* c
    w.without_room = NULL
    w.without_room_last = NULL
    while first != NULL:
        c = first
        first = c.next
        if c.r != NULL and bridge_enter(c):
            continue
        if c.r != NULL:
            bridge_hold_back(c, False)
            reply_error(c.r, 503, b"The control plane is busy")
        free(c)

cdef void bridge_gone_before(Request* r) noexcept nogil:
    # Handles the end of a client whose request waits for the next tick.
    (<BridgeCall*>r.job).r = NULL
    reply_empty(r)

cdef BridgeCall* bridge_shift() noexcept nogil:
    # Returns the next request, which the control plane may read until it shifts again or calls bridge_copied; NULL if
    # none waits. Runs on the control plane's thread.
    cdef BridgeCall* c
    cdef uint64_t count
    uv_mutex_lock(&bridge.lock)
    c = bridge.first
    bridge.copied = c
    if c != NULL:
        bridge.first = c.next
        if bridge.first == NULL:
            bridge.last = NULL
        c.taken = True
    elif read(bridge.fd, &count, sizeof(count)) < 0:
        pass
    uv_mutex_unlock(&bridge.lock)
    return c

cdef void bridge_copied() noexcept nogil:
    # Ends the reading of the request that bridge_shift returned last.
    uv_mutex_lock(&bridge.lock)
    bridge.copied = NULL
    uv_mutex_unlock(&bridge.lock)

cdef void bridge_unlink(BridgeCall* c) noexcept nogil:
    # Takes a waiting call out of the middle of the queue. Requires bridge.lock.
    cdef BridgeCall* before = NULL
    cdef BridgeCall* at = bridge.first
    while at != c:
        before = at
        at = at.next
    if before != NULL:
        before.next = c.next
    else:
        bridge.first = c.next
    if bridge.last == c:
        bridge.last = before

cdef inline void bridge_done(BridgeCall* c) noexcept nogil:
    # Removes a call from the table. Requires bridge.lock.
    table_del(&bridge.calls, c.token)
    bridge_count(c, -1)

cdef void bridge_gone(Request* r) noexcept nogil:
    # Handles the end of a client: drops a request that the control plane has not taken. One that it has taken no longer
    # counts for the address.
    cdef BridgeCall* c = <BridgeCall*>r.job
    cdef bint mine
    uv_mutex_lock(&bridge.lock)
    mine = not c.taken
    if mine:
        bridge_unlink(c)
        bridge_done(c)
    elif c.address != NULL:
        bridge_count(c, -1)
        c.address = NULL
        bridge_count(c, 1)
    uv_mutex_unlock(&bridge.lock)
    if mine:
        free(c)
        reply_empty(r)

cdef bint bridge_wanted(uint64_t token) noexcept nogil:
    # Returns whether the client of a taken request still waits for its answer. Runs on any thread.
    cdef BridgeCall* c
    cdef bint wanted
    uv_mutex_lock(&bridge.lock)
    c = <BridgeCall*>table_get(&bridge.calls, token)
    wanted = c != NULL and c.address != NULL
    uv_mutex_unlock(&bridge.lock)
    return wanted

cdef BridgeAnswer* bridge_answer(uint64_t token, int status, Slice headers, Slice body, char* block) noexcept nogil:
    # Sends an answer on its way, from any thread. A token that was answered or forsaken before is ignored. Returns NULL
    # if memory ran out, else a value that may be freed already. block: REPLY_ROOM free bytes and the body; the
    # answer owns it. NULL: the body is copied.
    cdef BridgeCall* c
    cdef bint large = block != NULL or body.n > OUT_KEEP
    cdef BridgeAnswer* a = <BridgeAnswer*>malloc(sizeof(BridgeAnswer) + headers.n + (0 if large else body.n))
    cdef char* bytes = <char*>a + sizeof(BridgeAnswer)
    cdef bint sent = False
    if a == NULL:
        return NULL
    a.block = <char*>malloc(REPLY_ROOM + body.n) if large and block == NULL else block
    if large and a.block == NULL:
        free(a)
        return NULL
    a.msg.run = bridge_answered
    a.token = token
    a.status = status
    a.headers = headers.n
    a.body = body.n
    memcpy(bytes, headers.p, headers.n)
    if block == NULL:
        memcpy(a.block + REPLY_ROOM if large else bytes + headers.n, body.p, body.n)
    uv_mutex_lock(&bridge.lock)
    c = <BridgeCall*>table_get(&bridge.calls, token)
    if c != NULL and c.taken:
        sent = worker_post(c.r.worker, &a.msg)     # under the lock: the call cannot be forsaken meanwhile
    uv_mutex_unlock(&bridge.lock)
    if not sent:
        free(a.block)
        free(a)
    return a

cdef void bridge_answered(Worker* w, InboxMsg* m) noexcept nogil:
    cdef BridgeAnswer* a = <BridgeAnswer*>m
    cdef BridgeCall* c
    cdef const char* bytes = <const char*>a + sizeof(BridgeAnswer)
    uv_mutex_lock(&bridge.lock)
    c = <BridgeCall*>table_get(&bridge.calls, a.token)
    if c != NULL:
        bridge_done(c)
    uv_mutex_unlock(&bridge.lock)
    if c != NULL:
        bridge_hold_back(c, False)
        if a.status == BRIDGE_PASSED:
            bridge_resume(w, c.r)
        elif a.body > OUT_MAX and budget_unsent_full(c.r.conn, 1):
            reply_error(c.r, 503, UNSENT_TEXT)
        elif a.block != NULL:
            reply_large(c.r, a.status, slice_of(bytes, a.headers), a.block, a.body)
            a.block = NULL
        else:
            reply_raw(c.r, a.status, slice_of(bytes, a.headers), slice_of(bytes + a.headers, a.body))
        free(c)
    free(a.block)
    free(a)

cdef void bridge_resume(Worker* w, Request* r) noexcept nogil:
    # Brings a request in once more, because its token has a grant now.
    r.job = NULL
    r.on_gone = NULL
    if r.conn == NULL:
        reply_empty(r)
    elif r.early and r.conn.mode != READ_LATER:
        reply_error(r, 503, ARRIVING_TEXT)      # the beginning of its body found no room
    elif r.early:
        request_reread(r.conn, r)
    else:
        service.request(w, r)

cdef void bridge_abandon(Worker* w) noexcept nogil:
    # Answers the worker's calls that the control plane still has, because the worker ends. Waits while the control
    # plane copies one of them.
    cdef BridgeCall* c
    cdef size_t i
    cdef bint found = True
    cdef bint copied
    while w.without_room != NULL:
        c = w.without_room
        w.without_room = c.next
        if c.r != NULL:
            bridge_hold_back(c, False)
            reply_error(c.r, 503, b"The server is stopping")
        free(c)
    w.without_room_last = NULL
    while found:
        found = False
        c = NULL
        uv_mutex_lock(&bridge.lock)
        if bridge.calls.used:
            for i in range(bridge.calls.mask + 1):
                if bridge.calls.cells[i].key != 0:
                    c = <BridgeCall*>bridge.calls.cells[i].value
                    if c.r.worker == w:
                        found = True
                        break
        copied = found and c == bridge.copied
        if found and not copied:
            bridge_done(c)
            if not c.taken:
                bridge_unlink(c)
        uv_mutex_unlock(&bridge.lock)
        if copied:
            uv_sleep(1)
        elif found:
            bridge_hold_back(c, False)
            reply_error(c.r, 503, b"The server is stopping")
            free(c)
