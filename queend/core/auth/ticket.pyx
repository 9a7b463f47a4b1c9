# Keeps tickets for streams of pages. A page cannot set a header of an EventSource or a WebSocket, and a token in a URL
# would stay in histories and logs. So a client with a token gets a ticket (queend/control/tickets.py), which the query
# of a request names. It is good for a few seconds, one request and one path. In: tickets from the control plane. Out:
# the grant of the token's owner. Guarded by grants.lock. Kept as SHA-256, by this process alone.

cdef enum:
    TICKETS_MOST = 4096       # tickets that wait to be used

cdef struct Ticket:
    Grant* grant              # its digest is the ticket's; NULL: free
    unsigned char[32] path
    int64_t until_us          # wall clock

cdef Ticket[TICKETS_MOST] tickets

cdef inline void ticket_free(Ticket* t) noexcept nogil:
    free(t.grant)
    t.grant = NULL

cdef void tickets_clear() noexcept nogil:
    # Frees all tickets. Requires grants.lock for writing.
    cdef int i
    for i in range(TICKETS_MOST):
        ticket_free(&tickets[i])

cdef bint ticket_put(bytes path, int64_t until_us, Grant* g) noexcept:
    # Adds a ticket and takes g over. Returns False if too many wait.
    cdef Ticket* at = NULL
    cdef int64_t now = clock_wall_us()
    cdef int i
    uv_rwlock_wrlock(&grants.lock)
    for i in range(TICKETS_MOST):
        if tickets[i].grant != NULL and tickets[i].until_us <= now:
            ticket_free(&tickets[i])
        if tickets[i].grant == NULL:
            at = &tickets[i]
            break
    if at != NULL:
        at.grant = g
        at.until_us = until_us
        SHA256(<const unsigned char*><const char*>path, len(path), at.path)
    uv_rwlock_wrunlock(&grants.lock)
    if at == NULL:
        free(g)
    return at != NULL

cdef bint ticket_asked(Request* r) noexcept nogil:
    cdef Slice ticket
    return query_find(r.query, b"ticket", &r.arena, &ticket) != QUERY_ABSENT

cdef Grant* ticket_take(Request* r) noexcept nogil:
    # Uses up the request's ticket. Returns what it allows, in the request's arena; NULL if it is unknown, too old or of
    # another path. A ticket shown at the wrong path is used up, too.
    cdef unsigned char[32] digest
    cdef unsigned char[32] path
    cdef Slice ticket
    cdef Grant* out = NULL
    cdef int64_t now = clock_wall_us()
    cdef int i
    if query_find(r.query, b"ticket", &r.arena, &ticket) != QUERY_FOUND or ticket.n == 0:
        return NULL
    SHA256(<const unsigned char*>ticket.p, ticket.n, digest)
    SHA256(<const unsigned char*>r.path.p, r.path.n, path)
    uv_rwlock_wrlock(&grants.lock)
    for i in range(TICKETS_MOST):
        if tickets[i].grant != NULL and memcmp(tickets[i].grant.digest, digest, 32) == 0:
            if (tickets[i].until_us > now and tickets[i].grant.expires_us > now
                    and memcmp(tickets[i].path, path, 32) == 0):
                out = grant_given(tickets[i].grant, &r.arena)
            ticket_free(&tickets[i])
            break
    uv_rwlock_wrunlock(&grants.lock)
    return out
