# Unpacks bodies with a content coding before the engine or the control plane sees the request. In: a complete request.
# Out: the same request with a plain body, within the bound of its route, or a refusal. Owner: the worker; no lock. The
# memory is taken from the budget of what arrives (net/budget) before it is allocated, and counts as in hand (net/held).
# A body of UNPACK_ATONCE or more waits for room in hand and is unpacked off the loop (net/offload), one per worker at a
# time.

cdef enum:
    UNPACK_ATONCE = 262144    # bytes, packed and unpacked: 1 ms
    UNPACK_TIMES = 4          # room at first, where the sender tells no size: as many times the body
    UNPACK_LEAST = 4096       # room at first

cdef enum UnpackResult:
    UNPACK_OK = 0
    UNPACK_LONG = 1           # more than asked for
    UNPACK_REFUSED = 2

cdef void unpack_begin(Worker* w, Request* r, int64_t most) noexcept nogil:
    # Passes the request on, now or later, or answers it. most: bytes that the body may have, unpacked.
    cdef ApiError e
    cdef int outcome = UNPACK_LONG
    cdef size_t hint
    if r.body.n == 0:
        held_take(r.conn, r)
        return
    r.address_has = atomic_get64(&r.conn.address.client.arriving)
    hint = unzip_hint(r.coding, r.body)
    if r.body.n < UNPACK_ATONCE and hint <= UNPACK_ATONCE:
        outcome = unpack_body(r, min(most, <int64_t>UNPACK_ATONCE), &e)
        if outcome == UNPACK_LONG and most <= UNPACK_ATONCE:
            outcome = unpack_refused(&e, 413, UNPACK_LARGE)
    if outcome == UNPACK_LONG:
        r.unpacks_to = most
        held_take(r.conn, r)
        return
    # a plain body of this size comes with one read and has no place in the budget
    request_settle(r)
    if outcome == UNPACK_OK:
        held_take(r.conn, r)
    else:
        unpack_refuse(r, &e)

cdef void unpack_offload(Worker* w, Request* r) noexcept nogil:
    # Unpacks a large body. There is room for it in the budget of requests in hand, and no other body of the worker's is
    # unpacked meanwhile.
    w.unpacking = True
    if not offload_add(w, r, NULL, unpack_read, unpack_taken):
        unpack_taken(w, r, NULL, unpack_read(r, NULL, &w.tools), &w.tools.error)

cdef bint unpack_read(Request* r, void* job, Tools* t) noexcept nogil:
    # Unpacks a body, on any thread. Returns False with t.error if it was refused.
    cdef int outcome = unpack_body(r, r.unpacks_to, &t.error)
    if outcome == UNPACK_LONG:
        unpack_refused(&t.error, 413, UNPACK_LARGE)
    return outcome == UNPACK_OK

cdef void unpack_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    # Counts what was made of the body as in hand, and passes the request on.
    w.unpacking = False
    r.unpacks_to = 0
    request_settle(r)
    if not good:
        unpack_refuse(r, e)
    elif r.conn == NULL:
        reply_empty(r)
    else:
        held_pass(w, r)

cdef void unpack_refuse(Request* r, const ApiError* e) noexcept nogil:
    if e.status == 415:
        reply_error_more(r, 415, ACCEPTS, e.text)
    else:
        reply_error(r, e.status, e.text)

cdef int unpack_refused(ApiError* e, int status, const char* text) noexcept nogil:
    # Refuses a body. Returns UNPACK_REFUSED.
    refuse_set(e, status, text)
    return UNPACK_REFUSED

cdef const char* UNPACK_LARGE = b"The request body is too large when it is unpacked"
cdef const char* UNPACK_MEMORY = b"Out of memory"

cdef int unpack_body(Request* r, int64_t most, ApiError* e) noexcept nogil:
    # Unpacks a body, on any thread. Returns UNPACK_OK: r.body is plain, and its size is added to r.arriving. Returns
    # UNPACK_LONG: it has more than `most` bytes, and all memory is given back. Returns UNPACK_REFUSED with the reason
    # in e.
    cdef Coded c
    cdef size_t hint = unzip_hint(r.coding, r.body)
    cdef size_t room = <size_t>most
    cdef int64_t window = unzip_window(r.coding, r.body)
    cdef int64_t taken = 0
    cdef char* p = NULL
    cdef size_t n = 0
    cdef int outcome
    if hint > room and r.coding == CODING_ZSTD:
        return UNPACK_LONG
    if hint > room:
        hint = 0              # the last bytes of a body that is damaged, or longer than it may be
    room = min(room, max(hint if hint else r.body.n * UNPACK_TIMES, <size_t>UNPACK_LEAST))
    if not budget_take(window, r.address_has + window):
        return unpack_refused(e, 503, ARRIVING_TEXT)
    if not unzip_stream_open(&c, r.coding, r.body):
        outcome = unpack_refused(e, 503, UNPACK_MEMORY)
    else:
        outcome = unpack_pieces(&c, &p, &room, &n, &taken, <size_t>most, r.address_has, e)
    unzip_stream_close(&c)
    budget_give(window)
    if outcome == UNPACK_OK and not arena_adopt(&r.arena, p, room + BODY_PADDING):
        outcome = unpack_refused(e, 503, UNPACK_MEMORY)
    if outcome != UNPACK_OK:
        free(p)
        budget_give(taken)
        return outcome
    memset(p + n, 0, BODY_PADDING)
    r.body = slice_of(p, n)
    r.arriving += taken
    return UNPACK_OK

cdef int unpack_pieces(Coded* c, char** p, size_t* room, size_t* n, int64_t* taken, size_t most, int64_t address_has,
                       ApiError* e) noexcept nogil:
    # Unpacks all of it to *p, which grows from *room bytes to `most` at most, after it has its place in the budget.
    cdef size_t got
    cdef int outcome
    cdef char* more
    cdef char beyond
    while True:
        if not budget_take(<int64_t>room[0] + BODY_PADDING - taken[0], address_has + <int64_t>room[0] + BODY_PADDING):
            return unpack_refused(e, 503, ARRIVING_TEXT)
        taken[0] = <int64_t>room[0] + BODY_PADDING
        more = <char*>realloc(p[0], room[0] + BODY_PADDING)
        if more == NULL:
            return unpack_refused(e, 503, UNPACK_MEMORY)
        p[0] = more
        outcome = unzip_stream_next(c, p[0] + n[0], room[0] - n[0], &got)
        n[0] += got
        if outcome == UNZIP_OK and n[0] == room[0] and not (c.whole and c.left.n == 0):
            # looks for more behind the bytes that fill the room
            outcome = unzip_stream_next(c, &beyond, 1, &got)
            if outcome == UNZIP_OK and got:
                if n[0] == most:
                    return UNPACK_LONG
                p[0][n[0]] = beyond           # there is BODY_PADDING behind the room
                n[0] += 1
                room[0] = min(most, 2 * room[0] + 1)
                continue
        if outcome == UNZIP_MEMORY:
            return unpack_refused(e, 503, UNPACK_MEMORY)
        if outcome != UNZIP_OK:
            # 415: looking at the body shows that it is in another coding (RFC 9110 15.5.16)
            return unpack_refused(e, 400 if n[0] else 415,
                                  b"The request body is damaged, or not in the coding that Content-Encoding names")
        return UNPACK_OK
