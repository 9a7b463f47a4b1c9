# A request: parsed, complete, and alive until it is answered, even when its client has left meanwhile (conn is NULL
# then). Everything on it happens on its worker's thread.

cdef Request* request_open(Worker* w, Conn* c) noexcept nogil:
    # NULL when memory ran out.
    cdef RequestPool* pool = &w.requests
    cdef Request* r = pool.free_list
    if r != NULL:
        pool.free_list = r.next
        pool.kept -= 1
    else:
        r = <Request*>malloc(sizeof(Request))
        if r == NULL:
            return NULL
    memset(r, 0, sizeof(Request))
    r.conn = c
    r.worker = w
    r.op = OP_OTHER
    arena_open(&r.arena, &w.chunks)
    w.counters.live_requests += 1
    return r

cdef inline void request_settle(Request* r) noexcept nogil:
    # Its body is nothing that arrives any more.
    if r.held:
        budget_give(r.held)
        r.held = 0

cdef void request_close(Request* r) noexcept nogil:
    cdef Worker* w = r.worker
    request_unpin(r)
    request_settle(r)
    if r.charged:
        untaken_add(w, r.conn, -r.charged)
    arena_close(&r.arena)
    w.counters.live_requests -= 1
    if r.out.cap > OUT_KEEP or w.requests.outs_kept == OUTS_KEEP:
        block_free(&w.chunks, r.out.data, r.out.cap)
        buf_init(&r.out)
    elif r.out.data != NULL:
        buf_clear(&r.out)
        w.requests.outs[w.requests.outs_kept] = r.out
        w.requests.outs_kept += 1
    if w.requests.kept < REQUESTS_KEEP:
        r.next = w.requests.free_list
        w.requests.free_list = r
        w.requests.kept += 1
    else:
        free(r)

cdef inline void request_out(Request* r) noexcept nogil:
    # An empty answer, in memory another answer had before where there is some.
    cdef RequestPool* pool = &r.worker.requests
    if r.out.data == NULL and pool.outs_kept:
        pool.outs_kept -= 1
        r.out = pool.outs[pool.outs_kept]
    buf_clear(&r.out)

cdef void requestpool_close(RequestPool* pool) noexcept nogil:
    cdef Request* r
    while pool.free_list != NULL:
        r = pool.free_list
        pool.free_list = r.next
        free(r)
    pool.kept = 0
    while pool.outs_kept:
        pool.outs_kept -= 1
        buf_free(&pool.outs[pool.outs_kept])
