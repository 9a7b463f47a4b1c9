# Reads large bodies beside the loop: a body of many MiB takes 0.1 s, in which other clients would wait. In: a request
# with a body of BESIDE_LEAST or more. Out: a call of `taken` on the worker's thread. A worker reads one body at a time,
# in order, on a thread of libuv's pool.
#
# That thread shares nothing with the worker. It owns the request, whose arena takes no blocks of the worker's
# meanwhile, and has tools of its own. The connection's next request is taken after the body is read, so the order of a
# client's requests stays. The body keeps its place in the budget of what arrives until its request is a job; the engine
# has bounds of its own. A request of the control plane keeps its place until it is closed.

cdef enum:
    BESIDE_LEAST = 1 << 20    # bytes of a body

cdef bint beside_add(Worker* w, Request* r, void* job, BodyRead read, BodyTaken taken) noexcept nogil:
    # Queues the request's body to be read beside the loop. `read` parses it on any thread; `taken` is called later on
    # the worker's thread. Returns False if the caller must read the body at once with the worker's tools, as it does
    # with every body below BESIDE_LEAST.
    cdef Beside* x = <Beside*>arena_zero(&r.arena, sizeof(Beside))
    if x == NULL:
        return False
    x.r = r
    x.job = job
    x.read = read
    x.taken = taken
    x.work.data = x
    if w.beside == NULL:
        if not beside_begin(w, x):
            return False
        w.beside = x
    else:
        w.beside_last.next = x
    w.beside_last = x
    if r.conn != NULL:
        r.conn.beside = True
        r.arriving += r.conn.arriving
        r.conn.arriving = 0
    return True

cdef bint beside_begin(Worker* w, Beside* x) noexcept nogil:
    x.answered = beside_answered(w)
    x.r.arena.pool = NULL
    uuidgen_open(&x.uuids)
    x.tools.unzip = &x.unzip
    x.tools.uuids = &x.uuids
    x.tools.settings = w.settings
    if uv_queue_work(&w.loop, &x.work, beside_run, beside_done) == 0:
        return True
    x.r.arena.pool = &w.chunks
    return False

cdef void beside_run(uv_work_t* work) noexcept nogil:
    # Runs on a thread of the pool.
    cdef Beside* x = <Beside*>work.data
    x.good = x.read(x.r, x.job, &x.tools)
    unzip_close(&x.unzip)

cdef void beside_done(uv_work_t* work, int status) noexcept nogil:
    cdef Beside* x = <Beside*>work.data
    cdef Worker* w = x.r.worker
    cdef Beside* following = x.next
    w.counters.read_beside += 1
    w.counters.answered_beside += beside_answered(w) - x.answered
    x.r.arena.pool = &w.chunks
    beside_pass(w, following)
    # the request, and x with it, may be freed by this call; an unpacked body is queued again, to be parsed
    beside_tell(w, x, x.good)
    while following != NULL and (w.ending or not beside_begin(w, following)):
        x = following
        following = x.next
        beside_pass(w, following)
        error_set(&x.tools.error, 503, b"Out of memory")
        beside_tell(w, x, False)

cdef inline void beside_pass(Worker* w, Beside* following) noexcept nogil:
    # Removes the first entry of the list, whose body has been read.
    w.beside = following
    if following == NULL:
        w.beside_last = NULL

cdef void beside_tell(Worker* w, Beside* x, bint good) noexcept nogil:
    cdef Request* r = x.r
    if r.conn != NULL:
        r.conn.beside = False
        conn_dirty(r.conn)
    if w.ending:
        reply_error(r, 503, b"The server is shutting down")
    else:
        x.taken(w, r, x.job, good, &x.tools.error)

cdef uint64_t beside_answered(Worker* w) noexcept nogil:
    cdef uint64_t n = 0
    cdef int i
    for i in range(OP_COUNT):
        n += w.counters.op[i].requests
    return n
