# Large bodies, read beside the loop: a body of many MiB takes a tenth of a second, in which nobody else would be
# served. One at a time per worker, in order, on a thread of libuv's pool. That thread shares nothing with the worker:
# it has the request, whose arena takes nothing from the worker's meanwhile, and tools of its own. The connection's next
# request is taken when the body is read, so that what one client sends in a row stays in order. The body keeps its
# place in the budget of what arrives until its request is a job (the engine has bounds of its own) or, with the control
# plane, until it is closed.

cdef enum:
    BESIDE_LEAST = 1 << 20    # bytes of a body

cdef bint beside_add(Worker* w, Request* r, void* job, BodyRead read, BodyTaken taken) noexcept nogil:
    # `read` takes the body apart, on any thread; `taken` is told later, on the worker's. False: it has to be read at
    # once, as every body below BESIDE_LEAST is, with the worker's tools.
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
    # On a thread of the pool.
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
    # the request, and x with it, may be gone; a body that was unpacked comes again, to be taken apart
    beside_tell(w, x, x.good)
    while following != NULL and (w.ending or not beside_begin(w, following)):
        x = following
        following = x.next
        beside_pass(w, following)
        error_set(&x.tools.error, 503, b"Out of memory")
        beside_tell(w, x, False)

cdef inline void beside_pass(Worker* w, Beside* following) noexcept nogil:
    # The first of the list has been read, and leaves it.
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
