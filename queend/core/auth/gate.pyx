# Guards the hot routes. In: a request. Out: the request with its grant, or a refusal. A request whose token must be
# verified waits for the control plane and then comes in again. Stateless, takes no lock. Other routes are guarded in
# the control plane (queend/auth/guard.py).

# ---- the token of a request ------------------------------------------------------------------------------------------

cdef bint gate_passes(Request* r, const HotRoute* route) noexcept nogil:
    # Returns True if the request may go on, False if it was answered or waits for its token to be verified.
    cdef Slice token
    if gate_skips(r.path):
        return True
    token = gate_token(r)
    if token.p == NULL and route.streams and grant_ticket_asked(r):
        r.grant = grant_ticket_take(r)
        if r.grant == NULL:
            reply_error(r, 401, b"The ticket is not known: it is used, too old, or of another path")
            return False
        return gate_level(r, route)
    if gate_lacks_token(r, token):
        return False
    r.grant = gate_grant(r, token)
    if r.grant == NULL:
        bridge_send(r, True)
        return False
    return gate_level(r, route)

cdef bint gate_skips(Slice path) noexcept nogil:
    # Returns True for a path that the operator left open: exactly, or below one that ends with a slash.
    cdef const char* skip = grants.skips
    cdef size_t n
    while skip != NULL and skip[0] != 0:
        n = strlen(skip)
        if path.n >= n and memcmp(path.p, skip, n) == 0 and (path.n == n or (n > 1 and skip[n - 1] == b'/')):
            return True
        skip += n + 1
    return False

cdef Slice gate_token(Request* r) noexcept nogil:
    # Returns the request's token. A WebSocket of a page has no headers of its own, but names protocols;
    # `bearer.<token>` is one.
    cdef Slice token = gate_bearer(r.headers_raw)
    if token.p == NULL and r.path.n > 15 and memcmp(r.path.p, b"/api/v1/stream/", 15) == 0:
        token = header_listed(r.headers_raw, b"sec-websocket-protocol", b"bearer.")
    return token

cdef Slice gate_bearer(Slice headers) noexcept nogil:
    # Returns the token: what follows `Bearer `, or the whole value of Authorization. p NULL: no such header.
    cdef Slice value = header_value(headers, b"authorization")
    if slice_begins(value, b"bearer") and (value.n == 6 or value.p[6] == b' '):
        value = slice_of(value.p + 6, value.n - 6)
        while value.n and value.p[0] == b' ':
            value = slice_of(value.p + 1, value.n - 1)
    return value

cdef bint gate_lacks_token(Request* r, Slice token) noexcept nogil:
    # Refuses a request without a token. Returns True if it was refused.
    if token.n == 0:
        reply_error(r, 401, b"Authentication required" if token.p == NULL else b"Empty token")
        return True
    return False

cdef Grant* gate_grant(Request* r, Slice token) noexcept nogil:
    # Returns what the token allows; NULL: it must be verified.
    cdef unsigned char[32] digest
    slice_sha256(token.p, token.n, digest)
    return grants_find(digest, clock_wall_us(), &r.arena)

cdef const char* GATE_NO_ROLE = b"Insufficient permissions: the token has no known role (JWT_ROLES_CLAIM)"

cdef inline bint gate_level(Request* r, const HotRoute* route) noexcept nogil:
    if r.grant.level == GRANT_NONE:
        reply_error(r, 403, GATE_NO_ROLE)
        return False
    if r.grant.level < route.level or (route.verb and not grant_allows_some(r.grant, route.verb)):
        reply_error(r, 403, b"Insufficient permissions")
        return False
    return True

# ---- before a large body is read -------------------------------------------------------------------------------------

cdef int gate_early(Request* r) noexcept nogil:
    # Checks a request before its large body is read. Returns EARLY_*.
    cdef Slice token
    cdef Grant* grant
    if gate_skips(r.path):
        return EARLY_PASSED
    token = gate_bearer(r.headers_raw)
    if token.n == 0:
        return EARLY_REFUSED
    grant = gate_grant(r, token)
    if grant == NULL:
        return EARLY_VERIFY
    return EARLY_PASSED if grant.level != GRANT_NONE else EARLY_REFUSED

cdef void gate_early_refuse(Request* r) noexcept nogil:
    if not gate_lacks_token(r, gate_bearer(r.headers_raw)):
        reply_error(r, 403, GATE_NO_ROLE)

# ---- the queues of a request -----------------------------------------------------------------------------------------

cdef enum:
    GATE_TEXT = 720           # bytes of a refusal with two names of NAME_MAX

cdef bint gate_pops(Request* r, Slice queue, Slice group) noexcept nogil:
    # Returns True if the request may pop, acknowledge and extend leases of the queue on behalf of the group. The
    # caller refuses it if not.
    return r.grant == NULL or grant_allows(r.grant, queue, VERB_POP, group)

cdef inline bint gate_names(const Request* r) noexcept nogil:
    # Returns True if the request's client is known: by a token or a certificate.
    return r.grant != NULL or r.subject.n

cdef inline Slice gate_subject(const Request* r) noexcept nogil:
    return req_subject(r.grant) if r.grant != NULL else r.subject

cdef bint gate_push(Request* r, PushReq* q, Slice* lacks) noexcept nogil:
    # Names the producer in every record: by the token, else by the client's certificate. Returns False if the token may
    # not write to the queue *lacks; the caller must refuse it.
    cdef Slice before = slice_of(NULL, 0)
    cdef int i
    for i in range(q.n):
        if q.items[i].queue.p != before.p or q.items[i].queue.n != before.n:
            before = q.items[i].queue
            if r.grant != NULL and not grant_allows(r.grant, before, VERB_PUSH, slice_of(NULL, 0)):
                lacks[0] = before
                return False
        q.items[i].sub = gate_subject(r)
    return True

cdef bint gate_transaction(Request* r, TxReq* q) noexcept nogil:
    # Names the producer in the pushes of a transaction. Returns False if it refused the request. Acknowledgments are
    # checked once their queues are known.
    cdef int i
    for i in range(q.n):
        if q.ops[i].kind == TX_PUSH:
            if r.grant != NULL and not grant_allows(r.grant, q.ops[i].push.queue, VERB_PUSH, slice_of(NULL, 0)):
                gate_refuse(r, b"push", q.ops[i].push.queue, slice_of(NULL, 0))
                return False
            q.ops[i].push.sub = gate_subject(r)
    return True

cdef bint gate_kv(Request* r, const KvReq* q) noexcept nogil:
    # Checks the namespaces of operations on keys. Returns False if it refused the request.
    cdef int i
    for i in range(q.n):
        if not gate_namespace(r, q.ops[i].ns, kvtype_writes(&q.ops[i])):
            return False
    return True

cdef bint gate_locks(Request* r, const LockReq* q) noexcept nogil:
    # Checks the namespace of locks. Returns False if it refused the request.
    cdef int i
    for i in range(q.n):
        if not gate_namespace(r, slice_lit(b"queen-locks"), q.ops[i].kind != LOCK_GET):
            return False
    return True

cdef bint gate_timers(Request* r, TimerReq* q) noexcept nogil:
    # Names the producer in operations on timers, and checks their queues. Returns False if it refused the request.
    cdef int i
    for i in range(q.n):
        if r.grant != NULL and not grant_allows(r.grant, q.ops[i].queue, VERB_PUSH, slice_of(NULL, 0)):
            gate_refuse(r, b"push", q.ops[i].queue, slice_of(NULL, 0))
            return False
        q.ops[i].sub = gate_subject(r)
    return True

cdef bint gate_namespace(Request* r, Slice ns, bint writes) noexcept nogil:
    cdef char[GATE_TEXT] text
    if grant_allows_kv(r.grant, ns, VERB_PUSH if writes else VERB_READ):
        return True
    snprintf(text, GATE_TEXT, b'Insufficient permissions: the token lacks %s for "kv:%.*s"',
             b"push" if writes else b"read", <int>ns.n, ns.p)
    reply_error(r, 403, text)
    return False

cdef inline bint gate_ack(Request* r, AckItem* it, Slice group) noexcept nogil:
    # Returns True if the request may acknowledge to the item's queue on behalf of the group. An unknown partition is
    # reported as such later. Requires catalog.lock.
    return it.partition == NULL or gate_pops(r, it.partition.queue.name, group)

cdef void gate_refuse(Request* r, const char* verb, Slice queue, Slice group) noexcept nogil:
    # Answers a request that is no job: the token lacks the verb. group: p NULL if the request names no group.
    cdef char[GATE_TEXT] text
    reply_error(r, 403, gate_lacking(text, verb, queue, group))

cdef const char* gate_lacking(char* text, const char* verb, Slice queue, Slice group) noexcept nogil:
    # Writes what a token lacks to text, of GATE_TEXT bytes, and returns it. Uses the words of `lacking` of the control
    # plane (auth/refused). group: p NULL if the request names no group.
    cdef int at = snprintf(text, GATE_TEXT, b'Insufficient permissions for this queue: the token lacks %s for "%.*s"',
                           verb, <int>queue.n, queue.p)
    if group.p != NULL:
        snprintf(text + at, GATE_TEXT - at, b' on behalf of the group "%.*s"', <int>group.n, group.p)
    return text

# ---- a long poll -----------------------------------------------------------------------------------------------------

cdef int64_t gate_until(Request* r, int64_t until_us) noexcept nogil:
    # Returns until when a long poll may wait: its token's expiry at the latest. until_us: monotonic.
    cdef int64_t left = r.grant.expires_us - clock_wall_us()
    cdef int64_t now = clock_mono_us()
    return now + left if left < until_us - now else until_us
