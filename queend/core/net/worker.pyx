# Runs a worker: one thread, one loop, its connections and requests, its share of the engine. In: connections, and
# messages of other threads through its inbox only. Out: turns of the engine, answers. Owns its connections; all runs on
# its thread. Locks: none but its inbox's.

cdef const char* FAREWELL = (       # for a request that is cut off when the grace is over
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 74\r\n\r\n"
    b'{"error":"The server stopped before it knew the outcome of this request."}')

# ---- messages and turns ----------------------------------------------------------------------------------------------

cdef inline bint worker_post(Worker* to, InboxMsg* m) noexcept nogil:
    # Posts a message to a worker, from any thread. Returns False if that worker has ended; m then still belongs to the
    # sender.
    return thread_post(&to.inbox, m)

cdef bint worker_call(Worker* to, void (*run)(Worker* w, InboxMsg* m) noexcept nogil) noexcept nogil:
    # Has a worker run the function, which frees the message. Returns False if memory ran out. Any thread.
    cdef InboxMsg* m = <InboxMsg*>calloc(1, sizeof(InboxMsg))
    if m == NULL:
        return False
    m.run = run
    if not worker_post(to, m):
        free(m)
    return True

cdef void worker_on_wake(uv_async_t* handle) noexcept nogil:
    cdef Worker* w = <Worker*>handle.data
    cdef InboxMsg* m = thread_receive(&w.inbox)
    cdef InboxMsg* following
    while m != NULL:
        following = m.next
        m.run(w, m)
        m = following

cdef inline void worker_turn(Worker* w) noexcept nogil:
    # Ends a turn: batches are sent, answers leave. Flushing may complete requests that were held back, so it repeats.
    service.turn(w)
    while w.dirty != NULL:
        output_flush_all(w)
        service.turn(w)
    if w.halted and not w.ending:
        worker_end(w)

cdef void worker_after(uv_check_t* handle) noexcept nogil:
    worker_turn_end(<Worker*>handle.data)
    worker_turn(<Worker*>handle.data)

cdef void worker_before(uv_prepare_t* handle) noexcept nogil:
    # Runs before the loop may sleep: what timers and closing handles left must not wait for the next event.
    cdef Worker* w = <Worker*>handle.data
    pin_up(&w.turns)
    held_turn(w)
    worker_turn(w)
    arena_pool_turn(&w.chunks)
    if w.room_first != NULL and not w.ending and held_go(w):
        worker_turn(w)
    if w.reclaims:
        service.reclaim(w)
    if w.chunks.freed_blocks != NULL and not w.ending:
        uv_async_send(&w.inbox.wake)      # the rest follows in the next turn, which comes at once
    if w.stopping and not w.drained and not w.ending and worker_is_drained(w, CONN_IDLE):
        w.drained = True
        process_drained(w.process)

cdef void worker_on_tick(uv_timer_t* handle) noexcept nogil:
    cdef Worker* w = <Worker*>handle.data
    response_date(&w.date, clock_wall_us() // 1000000)
    service.tick(w)
    worker_expire(w, CONN_IDLE, w.settings.stop_patience_ms if w.stopping else w.settings.idle_timeout_ms)
    worker_expire(w, CONN_HEAD, worker_timeout(w, w.settings.head_timeout_ms))
    worker_expire(w, CONN_BODY, worker_timeout(w, w.settings.body_timeout_ms))
    budget_check_bodies(w)
    budget_check_unsent(w)
    held_expire(w)
    held_trim(w)
    worker_expire(w, CONN_STALLED, w.settings.write_timeout_ms)
    worker_expire(w, CONN_LINGER, CONN_LINGER_MS)
    conn_poll_unread(w)

cdef inline int worker_timeout(Worker* w, int timeout_ms) noexcept nogil:
    # Returns the timeout, shortened during a drain: a silent sender of an incomplete request must not hold it up.
    cdef int most = w.settings.stop_patience_ms
    return most if w.stopping and timeout_ms > most else timeout_ms

cdef void worker_expire(Worker* w, int state, int timeout_ms) noexcept nogil:
    # Ends connections that are in this state longer than the timeout. The list is ordered by time: the first connection
    # within the timeout ends the search.
    cdef ConnList* l = &w.conns[state]
    cdef uint64_t now = uv_now(&w.loop)
    cdef Conn* c
    cdef int n = l.n
    if timeout_ms == 0:
        return
    while n and l.first != NULL and now - l.first.since >= <uint64_t>timeout_ms:
        n -= 1
        c = l.first
        if state == CONN_STALLED and output_unsent(c) < c.out_mark:
            c.out_mark = output_unsent(c)
            conn_move(c, CONN_STALLED)        # slow, but it moves
        elif (state == CONN_HEAD or state == CONN_BODY) and conn_is_held_up(c):
            conn_move(c, state)
        elif state == CONN_HEAD or state == CONN_BODY:
            conn_refuse(c, 408, b"The request did not arrive in time")
            conn_settle(c)
        else:
            conn_close(c)

# ---- whose turn it is ------------------------------------------------------------------------------------------------
# Requests are taken for TURN_US a turn, by the time of the last request taken: no clock is read. Then each connection
# that has more waits for later turns, in order: a client waits for one request of each other client, not for all. Large
# input (long bodies, bytes swallowed of refused clients) comes in slices of INPUT_SIZE, together TURN_BYTES a turn.
# After TURN_PIECES reads of a turn that left a request incomplete, other incomplete requests wait, in order as well.

cdef enum:
    TURN_US = 5000
    TURN_BYTES = 1 << 20
    TURN_CROWDED = 4 << 20
    TURN_PIECES = 128

cdef inline bint worker_turn_over(Worker* w) noexcept nogil:
    return w.taken_us - w.turn_us > TURN_US

cdef inline void worker_taken(Worker* w, int64_t now) noexcept nogil:
    # Notes that a request, or as much work, was taken.
    w.taken_us = now
    if w.turn_us == 0:
        w.turn_us = now

cdef inline bint worker_turn_full(Worker* w) noexcept nogil:
    return w.counters.bytes_in >= w.turn_full

cdef inline bint worker_crowded(Worker* w) noexcept nogil:
    return w.counters.bytes_in - w.turn_from >= TURN_CROWDED

cdef inline bint worker_yields(Worker* w) noexcept nogil:
    # Returns True if a connection that had a slice of its large input waits for the next one.
    return worker_turn_full(w) or w.waits_more.first != NULL

cdef inline bint worker_in_pieces(Worker* w) noexcept nogil:
    return w.turn_pieces >= TURN_PIECES

cdef inline void worker_turn_end(Worker* w) noexcept nogil:
    cdef uint64_t n = w.counters.bytes_in - w.turn_from
    if n > w.counters.turn_bytes:
        w.counters.turn_bytes = n
    w.turn_from = w.counters.bytes_in
    w.turn_full = w.turn_from + TURN_BYTES
    w.turn_us = 0
    w.taken_us = 0
    w.turn_pieces = 0
    w.turn_shake_us = 0

cdef void worker_waits_add(Conn* c, Waits* l) noexcept nogil:
    # Lets the connection go on, or be read again, in a later turn.
    if c.wait_next != NULL:
        return
    c.wait_next = c
    if l.last != NULL:
        l.last.wait_next = c
    else:
        l.first = c
        uv_idle_start(&c.worker.between, worker_on_idle)
    l.last = c

cdef inline void worker_waits_put(Conn* c, Waits* l) noexcept nogil:
    # Puts back a connection that a turn took from the list and could not serve. It goes before all others, but behind
    # those that were put back earlier in the same turn.
    if c.wait_next != NULL:
        return
    if l.put == NULL and l.first != NULL:
        c.wait_next = l.first
        l.first = c
    elif l.put == NULL or l.put is l.last:
        worker_waits_add(c, l)
    else:
        c.wait_next = l.put.wait_next
        l.put.wait_next = c
    l.put = c

cdef Conn* worker_waits_next(Waits* l) noexcept nogil:
    # Removes the connection that waited longest. Returns NULL if it was closed; it is freed then.
    cdef Conn* c = l.first
    l.first = c.wait_next
    if l.first is c:
        l.first = NULL
        l.last = NULL
    c.wait_next = NULL
    if c.mode != READ_GONE:
        return c
    free(c)
    return NULL

cdef void worker_on_idle(uv_idle_t* handle) noexcept nogil:
    # Serves connections that waited, before new input. The loop does not sleep while some wait.
    cdef Worker* w = <Worker*>handle.data
    worker_turn_end(w)
    while w.waits.first != NULL and not worker_turn_over(w):
        worker_waits_serve(w, &w.waits, 1)   # goes on with it, unless it owes as many answers as it may
    worker_waits_serve(w, &w.waits_more, TURN_BYTES // INPUT_SIZE)
    worker_waits_serve(w, &w.waits_pieces, TURN_PIECES)
    worker_waits_serve(w, &w.waits_shakes, tls_turn_shakes(w))
    if (w.waits.first == NULL and w.waits_more.first == NULL and w.waits_pieces.first == NULL
            and w.waits_shakes.first == NULL):
        uv_idle_stop(&w.between)

cdef void worker_waits_serve(Worker* w, Waits* l, int most) noexcept nogil:
    # Reads the first connections of the list again.
    cdef Conn* c
    l.put = NULL
    while l.first != NULL and most:
        c = worker_waits_next(l)
        if c != NULL:
            most -= 1
            conn_dirty(c)
            output_flush_all(w)

# ---- life ------------------------------------------------------------------------------------------------------------

cdef Worker* worker_new(Process* process, int index, Settings* s) noexcept nogil:
    # Returns a new worker, NULL if memory ran out.
    cdef Worker* w = <Worker*>aligned_alloc(64, (sizeof(Worker) + 63) // 64 * 64)
    if w == NULL:
        return NULL
    memset(w, 0, sizeof(Worker))
    w.process = process
    w.index = index
    w.settings = s
    w.limits.max_head = <size_t>s.max_head
    w.limits.max_target = <size_t>s.max_target
    w.limits.max_body = s.max_body
    w.held_share = s.max_queued_bytes // s.workers
    w.held_most = w.held_share
    w.input = <char*>malloc(INPUT_SIZE)
    if (w.input == NULL or not tls_room_open(w) or not requestlog_open(&w.requestlog, s.request_log)
            or not spans_open(&w.spans, s.trace_share)):
        requestlog_close(&w.requestlog)
        spans_close(&w.spans)
        free(w.tls)
        free(w.input)
        free(w)
        return NULL
    uuid_open(&w.uuids)
    w.tools.unzip = &w.unzip
    w.unzip.on_loop = True
    w.tools.uuids = &w.uuids
    w.tools.settings = s
    worker_turn_end(w)
    uv_mutex_init(&w.inbox.lock)
    uv_sem_init(&w.opened, 0)
    uv_loop_init(&w.loop)
    w.loop.data = w
    # Here and not on the thread: posts may come before it runs.
    uv_async_init(&w.loop, &w.inbox.wake, worker_on_wake)
    w.inbox.wake.data = w
    uv_check_init(&w.loop, &w.after)
    w.after.data = w
    uv_prepare_init(&w.loop, &w.before)
    w.before.data = w
    uv_idle_init(&w.loop, &w.between)
    w.between.data = w
    uv_timer_init(&w.loop, &w.tick)
    w.tick.data = w
    w.counters.live_handles += 5
    return w

cdef void worker_run(void* arg) noexcept nogil:
    # Runs the thread.
    cdef Worker* w = <Worker*>arg
    cdef char[16] name
    snprintf(name, sizeof(name), b"worker %d", w.index)
    prctl(PR_SET_NAME, name)
    response_date(&w.date, clock_wall_us() // 1000000)
    uv_update_time(&w.loop)
    if service.open(w):
        uv_check_start(&w.after, worker_after)
        uv_prepare_start(&w.before, worker_before)
        uv_timer_start(&w.tick, worker_on_tick, TICK_MS, TICK_MS)
        w.phase = WORKER_RUNNING
    else:
        w.phase = WORKER_FAILED
        worker_end(w)
    uv_sem_post(&w.opened)
    uv_run(&w.loop, UV_RUN_DEFAULT)
    request_pool_close(&w.requests)
    arena_pool_close(&w.chunks)
    table_free(&w.addresses)
    unzip_close(&w.unzip)
    seal_close(&w.seal)
    if w.phase == WORKER_RUNNING:
        w.phase = WORKER_STOPPED

cdef void worker_free(Worker* w) noexcept nogil:
    # Frees the worker, after its thread has ended. Counters are read before.
    if uv_loop_close(&w.loop) != 0:
        log_line(b"error", b"loop_not_empty", NULL)
    uv_mutex_destroy(&w.inbox.lock)
    uv_sem_destroy(&w.opened)
    requestlog_close(&w.requestlog)
    spans_close(&w.spans)
    free(w.tls)
    free(w.input)
    free(w)

cdef void worker_listen(Worker* w, InboxMsg* m) noexcept nogil:
    # Lets the worker accept connections from now on (reuseport).
    if not w.stopping:
        listener_start(w.listener, &w.loop)

# ---- stop ------------------------------------------------------------------------------------------------------------

cdef void worker_stop(Worker* w, InboxMsg* m) noexcept nogil:
    # Begins the drain: new connections and new pops are refused; owed answers are still given.
    cdef Conn* c
    if w.stopping:
        return
    w.stopping = True
    listener_stop(w.listener)
    service.stop(w)
    c = w.conns[CONN_IDLE].first
    while c != NULL:
        conn_dirty(c)         # looked at when the turn ends: it closes then, unless it is young
        c = c.next

cdef bint worker_is_drained(Worker* w, int least) noexcept nogil:
    # Returns True if no answer is owed. Lingering connections and those in a state below `least` do not count. The
    # worker goes on until all are drained: a request of another worker may need its part of the engine.
    cdef int state
    for state in range(least, CONN_LINGER):
        if w.conns[state].n:
            return False
    return w.counters.live_requests == 0 and service.idle(w)

cdef void worker_halt(Worker* w, InboxMsg* m) noexcept nogil:
    # Notes that all are drained, or that the grace is over. Messages that arrived with this one run first.
    w.halted = True

cdef void worker_cut_off(Worker* w) noexcept nogil:
    # Reports the requests that are cut off, because the grace is over. After a grace of 0 the worker may still count as
    # drained, because it was not checked before: idle connections are owed no answer.
    if worker_is_drained(w, CONN_HEAD):
        w.drained = True
        process_drained(w.process)
    else:
        service.left(w)

cdef void worker_end(Worker* w) noexcept nogil:
    # Closes all connections and handles. The loop ends when the last handle is gone.
    cdef int state
    cdef Conn* c
    cdef Conn* following
    w.stopping = True
    w.ending = True
    listener_stop(w.listener)
    if w.phase != WORKER_FAILED and not w.drained:
        worker_cut_off(w)
    if w.phase != WORKER_FAILED:
        service.close(w)
        service.forsake(w)
        output_flush_all(w)
    for state in range(CONN_CLOSING):
        c = w.conns[state].first
        while c != NULL:
            following = c.next
            if c.first != NULL and c.feed == NULL and not c.out_pending:
                output_write_text(c, FAREWELL, strlen(FAREWELL))
            conn_close(c)
            c = following
    while w.waits.first != NULL:
        worker_waits_next(&w.waits)
    while w.waits_more.first != NULL:
        worker_waits_next(&w.waits_more)
    while w.waits_pieces.first != NULL:
        worker_waits_next(&w.waits_pieces)
    while w.waits_shakes.first != NULL:
        worker_waits_next(&w.waits_shakes)
    thread_close_inbox(&w.inbox)
    uv_close(<uv_handle_t*>&w.inbox.wake, worker_handle_closed)
    uv_close(<uv_handle_t*>&w.after, worker_handle_closed)
    uv_close(<uv_handle_t*>&w.before, worker_handle_closed)
    uv_close(<uv_handle_t*>&w.between, worker_handle_closed)
    uv_close(<uv_handle_t*>&w.tick, worker_handle_closed)

cdef void worker_handle_closed(uv_handle_t* handle) noexcept nogil:
    (<Worker*>handle.loop.data).counters.live_handles -= 1
