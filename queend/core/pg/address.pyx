# Addresses of the server. In: a connection string. Out: a started connection of libpq. Owner: a worker's pool of slots,
# on its loop. No locks.
# libpq resolves names with a blocking call: all clients of the worker would stop while a name server is slow. So
# libuv's threads resolve the names. The addresses go to libpq, together with the names for TLS.

cdef enum:
    ADDRESS_HOSTS = 16        # hosts of a connection string; further hosts are ignored

cdef struct Address
ctypedef void (*address_done)(void*, const char*) noexcept nogil

cdef struct Address:
    const char* conninfo
    PQconninfoOption* options
    char* hosts[ADDRESS_HOSTS]
    char* ports[ADDRESS_HOSTS]
    char* names               # memory behind hosts
    char* numbers             # memory behind ports
    int n                     # hosts; 0: a single host without a name: libpq takes conninfo unchanged
    int first                 # index of the found host to begin with; hosts before it did not answer in time
    int timeout_s             # connect_timeout; 0: not given
    Buf[3] lists              # parameters for libpq (ADDRESS_LISTS), of equal length
    Buf[3] turned             # the lists rotated to begin with `first`
    uv_getaddrinfo_t request
    int at                    # host being looked up
    int found
    bint busy
    bint unknown              # the last look-up found a name that does not exist
    char[200] error
    address_done done
    void* ctx

cdef const char* ADDRESS_LISTS[3]
ADDRESS_LISTS = [b"host", b"hostaddr", b"port"]

# ---- connection strings ----------------------------------------------------------------------------------------------

cdef int address_split(char* text, char** out) noexcept nogil:
    # Splits a comma-separated list in place. Returns the number of elements.
    cdef int n = 1
    cdef char* p = text
    out[0] = text
    while p[0] != 0:
        if p[0] == b',':
            p[0] = 0
            if n == ADDRESS_HOSTS:
                break
            out[n] = p + 1
            n += 1
        p += 1
    return n

cdef inline bint address_literal(const char* host) noexcept nogil:
    # Returns True for a socket folder, an IP address or an empty host: no look-up needed.
    cdef char[64] room        # large enough for a sockaddr_in6
    if host[0] == 0 or host[0] == b'/' or host[0] == b'@':
        return True
    return uv_ip4_addr(host, 0, <void*>room) == 0 or uv_ip6_addr(host, 0, <void*>room) == 0

cdef void address_open(Address* a, const char* conninfo) noexcept nogil:
    # Parses conninfo, which is borrowed. If parsing fails, libpq gets conninfo unchanged and reports the error.
    cdef PQconninfoOption* o
    cdef const char* host = NULL
    cdef const char* port = b""
    cdef bint names = False
    cdef bint numeric = False
    cdef int i, n, n_ports
    memset(a, 0, sizeof(Address))
    a.conninfo = conninfo
    a.options = PQconninfoParse(conninfo, NULL)
    o = a.options
    while o != NULL and o.keyword != NULL:
        if o.val != NULL and strcmp(o.keyword, b"host") == 0:
            host = o.val
        elif o.val != NULL and strcmp(o.keyword, b"port") == 0:
            port = o.val
        elif o.val != NULL and strcmp(o.keyword, b"connect_timeout") == 0:
            a.timeout_s = min(max(atoi(o.val), 0), 3600)
        elif o.val != NULL and strcmp(o.keyword, b"hostaddr") == 0:
            numeric = True
        o += 1
    if host == NULL or numeric:
        return
    a.names = <char*>slice_keep(slice_lit(host)).p
    a.numbers = <char*>slice_keep(slice_lit(port)).p
    if a.names == NULL or a.numbers == NULL:
        return
    n = address_split(a.names, a.hosts)
    n_ports = address_split(a.numbers, a.ports)
    for i in range(n):
        if n_ports == 1:
            a.ports[i] = a.ports[0]       # a single port applies to every host
        names = names or not address_literal(a.hosts[i])
    if (names or n > 1) and (n_ports == 1 or n_ports == n):
        a.n = n

cdef void address_close(Address* a) noexcept nogil:
    # Frees the memory. Requires that no look-up is running (address_cancel, then wait for done).
    cdef int k
    PQconninfoFree(a.options)
    free(a.names)
    free(a.numbers)
    for k in range(3):
        buf_free(&a.lists[k])
        buf_free(&a.turned[k])

# ---- look-ups --------------------------------------------------------------------------------------------------------

cdef void address_resolve(Address* a, uv_loop_t* loop, address_done done, void* ctx) noexcept nogil:
    # Looks up every name. Calls done(ctx, NULL) if a host has an address, otherwise done(ctx, reason). The call comes
    # later from the loop, unless libuv refuses.
    cdef int k
    a.request.data = a
    a.done = done
    a.ctx = ctx
    a.busy = True
    a.at = -1
    a.found = 0
    a.unknown = False
    a.error[0] = 0
    for k in range(3):
        buf_clear(&a.lists[k])
    address_next(a, loop)

cdef void address_cancel(Address* a) noexcept nogil:
    if a.busy:
        a.n = a.at                        # no further host
        uv_cancel(<uv_req_t*>&a.request)  # a running look-up is waited for

cdef void address_next(Address* a, uv_loop_t* loop) noexcept nogil:
    # Moves on to the next host that needs a look-up, or ends the look-up.
    cdef int status
    cdef addrinfo hints
    memset(&hints, 0, sizeof(hints))
    hints.ai_socktype = SOCK_STREAM
    while True:
        a.at += 1
        if a.at >= a.n:
            break
        if address_literal(a.hosts[a.at]):
            address_add(a, b"")
            continue
        status = uv_getaddrinfo(loop, &a.request, address_on_answer, a.hosts[a.at], NULL, &hints)
        if status == 0:
            return
        address_fail(a, status)
    a.busy = False
    a.done(a.ctx, NULL if a.found else a.error)

cdef void address_add(Address* a, const char* address) noexcept nogil:
    cdef int k
    for k in range(3 if a.found else 0):
        buf_byte(&a.lists[k], b',')
    buf_text(&a.lists[0], a.hosts[a.at])
    buf_text(&a.lists[1], address)
    buf_text(&a.lists[2], a.ports[a.at])
    a.found += 1

cdef void address_fail(Address* a, int status) noexcept nogil:
    a.unknown = a.unknown or status == UV_EAI_NONAME or status == UV_EAI_NODATA
    snprintf(a.error, sizeof(a.error), b"the name %.100s cannot be looked up: %s", a.hosts[a.at], uv_strerror(status))

cdef void address_on_answer(uv_getaddrinfo_t* request, int status, addrinfo* answer) noexcept nogil:
    cdef Address* a = <Address*>request.data
    cdef addrinfo* one = answer
    cdef char[64] text
    if status != 0:
        address_fail(a, status)
    while one != NULL:
        if uv_ip_name(one.ai_addr, text, sizeof(text)) == 0:
            address_add(a, text)
        one = one.ai_next
    uv_freeaddrinfo(answer)
    address_next(a, request.loop)

# ---- connections -----------------------------------------------------------------------------------------------------

cdef void address_silent(Address* a, int first) noexcept nogil:
    # Notes that an attempt beginning with host `first` timed out; the next attempt begins with its successor. libpq
    # moves on if a host refuses, but waits if a host is silent.
    if a.found and a.first == first:
        a.first = (first + 1) % a.found

cdef void address_rotate(Buf* from_, int first, Buf* out) noexcept nogil:
    # Rotates a comma-separated list to begin with element `first`; ends it with a NUL.
    cdef const char* end = from_.data + from_.len
    cdef const char* p = from_.data
    buf_clear(out)
    while first and p < end:
        first -= p[0] == b','
        p += 1
    if p < end:
        buf_put(out, p, <size_t>(end - p))
    if p > from_.data:
        buf_byte(out, b',')
        buf_put(out, from_.data, <size_t>(p - from_.data - 1))
    buf_byte(out, 0)

cdef PGconn* address_connect(Address* a) noexcept nogil:
    # Starts a connection; if there are names, to the addresses found last.
    cdef const char* keywords[64]
    cdef const char* values[64]
    cdef PQconninfoOption* o = a.options
    cdef int k = 0
    cdef int i
    if a.n == 0:
        return PQconnectStart(a.conninfo)
    a.first = a.first % a.found if a.found else 0
    while o.keyword != NULL and k < 60:
        if o.val != NULL and strcmp(o.keyword, b"host") != 0 and strcmp(o.keyword, b"port") != 0:
            keywords[k] = o.keyword
            values[k] = o.val
            k += 1
        o += 1
    for i in range(3):
        address_rotate(&a.lists[i], a.first, &a.turned[i])
        if a.turned[i].failed:
            return NULL
        keywords[k] = ADDRESS_LISTS[i]
        values[k] = a.turned[i].data
        k += 1
    keywords[k] = NULL
    values[k] = NULL
    return PQconnectStartParams(keywords, values, 0)
