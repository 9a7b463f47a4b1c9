# Grants of verified tokens, found by the token's SHA-256 without the interpreter or another look at its signature; and
# tickets, found by their own. In: grants and tickets, from the control plane, which verifies tokens. Out: copies in a
# request's arena, so that requests hold no lock. Owns the tables of both. Locks: grants.lock. A grant ends with its
# token, with the keys (grants_clear), or when newer grants need its place.

cdef struct Grants:
    uv_rwlock_t lock
    bint on
    uint32_t sets
    Grant** cells             # sets * GRANT_WAYS
    const char* skips         # of the settings: paths without a token, each NUL-terminated; an empty one ends them

cdef Grants grants

# ---- the table -------------------------------------------------------------------------------------------------------

cdef bint grants_open(int most) noexcept nogil:
    # Makes room for about `most` grants. Returns False if memory ran out.
    grants.sets = 1
    while <int>(grants.sets * GRANT_WAYS) < most:
        grants.sets *= 2
    grants.cells = <Grant**>calloc(grants.sets * GRANT_WAYS, sizeof(Grant*))
    if grants.cells == NULL:
        return False
    uv_rwlock_init(&grants.lock)
    grants.on = True
    return True

cdef void grants_close() noexcept nogil:
    # Frees the table, after the workers have ended.
    if not grants.on:
        return
    grants_clear()
    free(grants.cells)
    uv_rwlock_destroy(&grants.lock)
    memset(&grants, 0, sizeof(Grants))

cdef Grant* grant_make(bytes token, int level, int64_t expires_us, bytes subject, rules) except NULL:
    # Makes a grant. A rule has a pattern of queues (bytes), verbs, and a pattern of groups (bytes; None: all groups).
    # rules: None, if the token may use all queues.
    cdef list all_ = list(rules or ())
    cdef size_t size = (sizeof(Grant) + len(all_) * sizeof(GrantRule) + len(subject)
                        + sum(len(pattern) + len(group or b"") for pattern, _, group in all_))
    cdef Grant* g
    cdef GrantRule* rule
    cdef uint32_t at = <uint32_t>(sizeof(Grant) + len(all_) * sizeof(GrantRule))
    cdef bytes text, second
    if (not 0 <= level <= GRANT_ADMIN or len(subject) > 255 or len(all_) > GRANT_RULES
            or any(len(pattern) > 255 or len(group or b"") > 255 for pattern, _, group in all_)):
        raise ValueError("a grant has a level from 0 to 3, a subject of at most 255 bytes and at most 256 rules of as "
                         "many bytes")
    g = <Grant*>calloc(1, size)
    if g == NULL:
        raise MemoryError()
    slice_sha256(<const char*>token, len(token), g.digest)
    g.size = size
    g.level = <uint8_t>level
    g.expires_us = expires_us
    g.used_us = clock_wall_us()
    g.limited = rules is not None
    g.n_rules = <int>len(all_)
    rule = <GrantRule*>(<char*>g + sizeof(Grant))
    for text, verbs, group in all_:
        second = group or b""
        rule.verbs = verbs
        rule.grouped = group is not None
        rule.n = <uint16_t>len(text)
        rule.group_n = <uint16_t>len(second)
        rule.at = at
        memcpy(<char*>g + at, <const char*>text, len(text))
        memcpy(<char*>g + at + len(text), <const char*>second, len(second))
        at += <uint32_t>(len(text) + len(second))
        rule += 1
    g.subject_at = at
    g.subject_n = <uint32_t>len(subject)
    memcpy(<char*>g + at, <const char*>subject, len(subject))
    return g

cdef inline Grant** grants_set(const unsigned char* digest) noexcept nogil:
    cdef uint32_t at
    memcpy(&at, digest, 4)
    return &grants.cells[(at & (grants.sets - 1)) * GRANT_WAYS]

cdef void grants_put(Grant* g) noexcept nogil:
    # Adds a grant, which it takes over.
    cdef Grant** at = grants_set(g.digest)
    cdef int best = 0
    cdef int i
    uv_rwlock_wrlock(&grants.lock)
    for i in range(GRANT_WAYS):
        if at[i] == NULL or memcmp(at[i].digest, g.digest, 32) == 0:
            best = i
            break
        if at[i].used_us < at[best].used_us:
            best = i
    free(at[best])            # NULL places are the last ones of a set: places are only emptied all at once
    at[best] = g
    uv_rwlock_wrunlock(&grants.lock)

cdef void grants_clear() noexcept nogil:
    cdef uint32_t i
    uv_rwlock_wrlock(&grants.lock)
    atomic_add64(&grants_epoch, 1)
    for i in range(<uint32_t>TICKETS_MOST):
        grant_ticket_free(&tickets[i])
    for i in range(grants.sets * GRANT_WAYS):
        free(grants.cells[i])
        grants.cells[i] = NULL
    uv_rwlock_wrunlock(&grants.lock)

cdef Grant* grants_find(const unsigned char* digest, int64_t now_us, Arena* a) noexcept nogil:
    # Returns a copy in the arena; NULL: unknown, expired or no memory, so the token must be verified.
    cdef Grant** at = grants_set(digest)
    cdef Grant* out = NULL
    cdef int i
    uv_rwlock_rdlock(&grants.lock)
    for i in range(GRANT_WAYS):
        if at[i] == NULL:
            break
        if memcmp(at[i].digest, digest, 32) == 0:
            if at[i].expires_us > now_us:
                at[i].used_us = now_us        # readers may race: any of their times will do
                out = grant_given(at[i], a)
            break
    uv_rwlock_rdunlock(&grants.lock)
    return out

cdef Grant* grant_given(Grant* g, Arena* a) noexcept nogil:
    # Returns a copy of an entry of the table, as of now; NULL if memory ran out. Requires grants.lock.
    cdef Grant* copy = grant_copy(g, a)
    if copy != NULL:
        copy.epoch = atomic_get64(&grants_epoch)
    return copy

cdef Grant* grant_copy(Grant* g, Arena* a) noexcept nogil:
    # Returns a copy of g, as of its own epoch; NULL if memory ran out.
    cdef Grant* copy = <Grant*>arena_alloc(a, g.size)
    if copy != NULL:
        memcpy(copy, g, g.size)
    return copy

# ---- what a grant allows ---------------------------------------------------------------------------------------------

cdef bint grant_allows(Grant* g, Slice queue, int verb, Slice group) noexcept nogil:
    # Returns True if a rule has the verb for the queue and the group. If group.p is NULL, only rules without
    # groups count.
    cdef GrantRule* rule = <GrantRule*>(<char*>g + sizeof(Grant))
    cdef int i
    if not g.limited:
        return True
    for i in range(g.n_rules):
        if (rule.verbs & verb and grant_glob_fits(<const char*>g + rule.at, rule.n, queue.p, queue.n)
                and (not rule.grouped or group.p != NULL and grant_glob_fits(
                    <const char*>g + rule.at + rule.n, rule.group_n, group.p, group.n))):
            return True
        rule += 1
    return False

cdef bint grant_allows_kv(Grant* g, Slice ns, int verb) noexcept nogil:
    # Returns True if a rule has the verb for a namespace of keys. Its pattern begins with `kv:`, so no pattern of
    # queues gives a right to keys.
    cdef GrantRule* rule = <GrantRule*>(<char*>g + sizeof(Grant))
    cdef const char* pattern
    cdef int i
    if not g.limited:
        return True
    for i in range(g.n_rules):
        pattern = <const char*>g + rule.at
        if (rule.verbs & verb and not rule.grouped and rule.n > 3 and memcmp(pattern, b"kv:", 3) == 0
                and grant_glob_fits(pattern + 3, rule.n - 3, ns.p, ns.n)):
            return True
        rule += 1
    return False

cdef bint grant_allows_some(Grant* g, int verb) noexcept nogil:
    # Returns True if a rule has the verb on any queue.
    cdef GrantRule* rule = <GrantRule*>(<char*>g + sizeof(Grant))
    cdef int i
    if not g.limited:
        return True
    for i in range(g.n_rules):
        if rule.verbs & verb:
            return True
        rule += 1
    return False

cdef bint grant_glob_fits(const char* p, size_t pn, const char* s, size_t sn) noexcept nogil:
    # Returns True if s fits the pattern p. `*` stands for any bytes, also none; other bytes for themselves. At most pn
    # * sn steps.
    cdef size_t pi = 0
    cdef size_t si = 0
    cdef size_t star = pn         # the last star passed, pn: none yet
    cdef size_t back = 0          # where the text after the star was tried
    while si < sn:
        if pi < pn and p[pi] == b'*':
            star = pi
            back = si
            pi += 1
        elif pi < pn and p[pi] == s[si]:
            pi += 1
            si += 1
        elif star != pn:
            back += 1
            si = back
            pi = star + 1
        else:
            return False
    while pi < pn and p[pi] == b'*':
        pi += 1
    return pi == pn

# ---- tickets ---------------------------------------------------------------------------------------------------------
# A page cannot set a header of an EventSource or a WebSocket, and a token in a URL would stay in histories and logs. So
# a client with a token gets a ticket (control/routes/tickets), which the query of a request names. It is good for 5
# seconds, one request and one path, and kept as SHA-256, by this process alone.

cdef enum:
    TICKETS_MOST = 4096       # tickets that wait to be used

cdef struct Ticket:
    Grant* grant              # its digest is the ticket's; NULL: free
    unsigned char[32] path
    int64_t until_us          # wall clock

cdef Ticket[TICKETS_MOST] tickets

cdef bint grant_ticket_put(bytes path, int64_t until_us, Grant* g) noexcept:
    # Adds a ticket and takes g over. Returns False if too many wait.
    cdef Ticket* at = NULL
    cdef int64_t now = clock_wall_us()
    cdef int i
    uv_rwlock_wrlock(&grants.lock)
    for i in range(TICKETS_MOST):
        if tickets[i].grant != NULL and tickets[i].until_us <= now:
            grant_ticket_free(&tickets[i])
        if tickets[i].grant == NULL:
            at = &tickets[i]
            break
    if at != NULL:
        at.grant = g
        at.until_us = until_us
        slice_sha256(<const char*>path, len(path), at.path)
    uv_rwlock_wrunlock(&grants.lock)
    if at == NULL:
        free(g)
    return at != NULL

cdef bint grant_ticket_asked(Request* r) noexcept nogil:
    cdef Slice ticket
    return uri_find(r.query, b"ticket", &r.arena, &ticket) != QUERY_ABSENT

cdef Grant* grant_ticket_take(Request* r) noexcept nogil:
    # Uses up the request's ticket. Returns what it allows, in the request's arena; NULL if it is unknown, too old or of
    # another path. A ticket shown at the wrong path is used up, too.
    cdef unsigned char[32] digest
    cdef unsigned char[32] path
    cdef Slice ticket
    cdef Grant* out = NULL
    cdef int64_t now = clock_wall_us()
    cdef int i
    if uri_find(r.query, b"ticket", &r.arena, &ticket) != QUERY_FOUND or ticket.n == 0:
        return NULL
    slice_sha256(ticket.p, ticket.n, digest)
    slice_sha256(r.path.p, r.path.n, path)
    uv_rwlock_wrlock(&grants.lock)
    for i in range(TICKETS_MOST):
        if tickets[i].grant != NULL and memcmp(tickets[i].grant.digest, digest, 32) == 0:
            if (tickets[i].until_us > now and tickets[i].grant.expires_us > now
                    and memcmp(tickets[i].path, path, 32) == 0):
                out = grant_given(tickets[i].grant, &r.arena)
            grant_ticket_free(&tickets[i])
            break
    uv_rwlock_wrunlock(&grants.lock)
    return out

cdef inline void grant_ticket_free(Ticket* t) noexcept nogil:
    free(t.grant)
    t.grant = NULL
