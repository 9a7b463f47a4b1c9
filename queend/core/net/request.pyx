# A request: parsed, complete, and alive until it is answered, even when its client has left meanwhile (conn is NULL
# then). Everything on it happens on its worker's thread.

cdef struct Conn

cdef struct Request:
    Request* next             # in its connection's order; in the worker's freelist
    Conn* conn
    Worker* worker
    Arena arena
    int method                # METHOD_*
    Slice target              # as sent
    Slice path                # raw, of the target
    Slice query               # raw, without the question mark
    Slice headers_raw         # lines with their CRLF
    Slice authority           # the value of Host
    Slice body                # NUL-terminated, BODY_PADDING readable bytes after it
    uint8_t http10
    uint8_t keep_alive
    uint8_t replied
    uint8_t early             # its body was not read: it waits for its token (READ_LATER)
    uint8_t unanswerable      # its answer found no memory: a short one takes its place
    uint8_t asks              # bits of ASK_*
    uint8_t pin               # what it found may not be freed (net/era), 0: it looked nothing up
    int64_t started_us        # monotonic
    int op                    # OP_* it is counted under
    int status                # of the answer
    Buf out                   # the whole answer
    int64_t charged           # of it, in the budget (net/untaken)
    size_t head_size          # of it: status line and headers
    Grant* grant              # what its token allows, NULL: nobody asks
    void* job                 # the engine's
    void (*on_gone)(Request* r) noexcept nogil     # the client left before the answer; may be NULL
    void (*on_end)(Request* r) noexcept nogil      # the client sends no more: it may have left, or wait for this answer; may be NULL
    void (*on_unsent)(Request* r) noexcept nogil   # the client left before the answer went out; may be NULL

cdef enum:
    BODY_PADDING = 80         # JSONWALK_ROOM
    REQUESTS_KEEP = 256       # free requests a worker keeps
    OUTS_KEEP = 64            # answers' memory a worker keeps: requests that wait for an answer hold none
    OUT_KEEP = 65536          # bytes of one of them at most

cdef struct RequestPool:
    Request* free_list
    int kept
    Buf[OUTS_KEEP] outs
    int outs_kept

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

cdef void request_close(Request* r) noexcept nogil:
    cdef Worker* w = r.worker
    request_unpin(r)
    if r.charged:
        untaken_add(w, r.conn, -r.charged)
    arena_close(&r.arena)
    w.counters.live_requests -= 1
    if r.out.cap > OUT_KEEP or w.requests.outs_kept == OUTS_KEEP:
        buf_free(&r.out)
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
