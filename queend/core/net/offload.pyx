# Reads large bodies off the loop: a body of many MiB takes 0.1 s, in which other clients would wait. In: a request with
# a body of OFFLOAD_LEAST or more, or one that becomes large when it is unpacked. Out: a call of `taken` on the worker's
# thread. Owns the worker's list of bodies, read one at a time and in order on a thread of libuv's pool. Locks: none.
# That thread shares nothing with the worker. It owns the request, whose arena takes no blocks of the worker's
# meanwhile, and has tools of its own. The connection's next request is taken after the body is read, so the order of a
# client's requests stays.

cdef enum:
    OFFLOAD_LEAST = 1 << 20   # bytes of a body

cdef void offload_job(Worker* w, Request* r, size_t size, BodyRead read, BodyTaken taken) noexcept nogil:
    # Makes the job of a request, `size` bytes, all zero. Reads the body into it, off the loop if the body is large. If
    # that shows only when it is unpacked, it is read again, into another job. Until the job is open, a body that
    # unpacks counts as in hand with the most that it may take. Others that unpack wait meanwhile.
    cdef void* job = arena_zero(&r.arena, size)
    cdef bint good
    if job != NULL and r.body.n < OFFLOAD_LEAST:
        w.tools.arena = &r.arena
        good = read(r, job, &w.tools)
        if good or w.tools.error.status != REFUSED_HERE:
            taken(w, r, job, good, &w.tools.error)
            return
        job = arena_zero(&r.arena, size)
    if held_unpacks(r):
        held_add(r, w.settings.max_body)
    if job == NULL or not offload_add(w, r, job, read, taken):
        reply_error(r, 503, b"Out of memory")

cdef bint offload_add(Worker* w, Request* r, void* job, BodyRead read, BodyTaken taken) noexcept nogil:
    # Queues the request's body to be read off the loop. `read` parses it on any thread; `taken` is called later on the
    # worker's thread. Returns False if memory ran out. The body keeps its place in the budget of what arrives until its
    # request is a job. A request of the control plane keeps it until it is closed.
    cdef Offload* x = <Offload*>arena_zero(&r.arena, sizeof(Offload))
    if x == NULL:
        return False
    x.r = r
    x.job = job
    x.read = read
    x.taken = taken
    x.work.data = x
    if w.offloads == NULL and not offload_begin(w, x):
        return False
    link_append(<void**>&w.offloads, x)
    if r.conn != NULL:
        r.conn.last_is_away = True
        budget_pass_on(r.conn, r, r.arriving + r.conn.arriving)
    return True

cdef bint offload_begin(Worker* w, Offload* x) noexcept nogil:
    x.answered = offload_answered(w)
    x.r.arena.pool = NULL
    uuid_open(&x.uuids)
    x.tools.arena = &x.r.arena
    x.tools.unzip = &x.unzip
    x.tools.uuids = &x.uuids
    x.tools.settings = w.settings
    if uv_queue_work(&w.loop, &x.work, offload_run, offload_done) == 0:
        return True
    x.r.arena.pool = &w.chunks
    return False

cdef void offload_run(uv_work_t* work) noexcept nogil:
    # Runs on a thread of the pool.
    cdef Offload* x = <Offload*>work.data
    x.good = x.read(x.r, x.job, &x.tools)
    unzip_close(&x.unzip)

cdef void offload_done(uv_work_t* work, int status) noexcept nogil:
    cdef Offload* x = <Offload*>work.data
    cdef Worker* w = x.r.worker
    cdef Offload* following = x.next
    w.counters.read_beside += 1
    w.counters.answered_beside += offload_answered(w) - x.answered
    x.r.arena.pool = &w.chunks
    offload_shift(w, following)
    # the request, and x with it, may be freed by this call; an unpacked body is queued again, to be parsed
    offload_finish(w, x, x.good)
    while following != NULL and (w.ending or not offload_begin(w, following)):
        x = following
        following = x.next
        offload_shift(w, following)
        refuse_memory(&x.tools.error)
        offload_finish(w, x, False)

cdef inline void offload_shift(Worker* w, Offload* following) noexcept nogil:
    # Removes the first entry of the list, whose body has been read.
    w.offloads = following
    if following == NULL:
        w.beside_last = NULL

cdef void offload_finish(Worker* w, Offload* x, bint good) noexcept nogil:
    cdef Request* r = x.r
    if r.conn != NULL:
        r.conn.last_is_away = False
        conn_dirty(r.conn)
    if w.ending:
        reply_error(r, 503, b"The server is shutting down")
    else:
        x.taken(w, r, x.job, good, &x.tools.error)

cdef uint64_t offload_answered(Worker* w) noexcept nogil:
    cdef uint64_t n = 0
    cdef int i
    for i in range(OP_COUNT):
        n += w.counters.op[i].requests
    return n
