# Decides which pages of browsers may send requests, where no token is needed. In: a request's headers. Out: a refusal,
# or the lines that let a page read the answer. Owns origin_rules, set before the threads start; no lock. A page of any
# site can make its visitor's browser send requests to an address that only the visitor reaches. A pop is a GET. The
# browser says where the page is from (Origin, Sec-Fetch-Site). A page that pointed its own name at this machine (DNS
# rebinding) is recognized by that name, in Host.

cdef struct OriginRules:
    bint guards               # requests of other sites' pages are refused
    bint local                # only this machine can reach the port: a Host that names another is refused, too
    # origins that may ask and read: lower case, each NUL-terminated, an empty one at the end; `*` is any
    const char* origins
    const char* hosts         # names of this machine, in the same form

# Headers of docs/http.md that a page may send. The star is for attributes of CloudEvents with names of their own; it
# does not stand for Authorization.
cdef const char* ORIGIN_SENDS = (
    b"Access-Control-Allow-Headers: Content-Type, Authorization, Accept, Content-Encoding, Idempotency-Key, "
    b"If-None-Match, Last-Event-ID, Prefer, traceparent, tracestate, X-Request-Id, ce-specversion, ce-id, ce-source, "
    b"ce-type, ce-subject, ce-time, ce-dataschema, ce-partitionkey, *\r\n")
# Headers of answers that a page may read.
cdef const char* ORIGIN_READS = (
    b"Access-Control-Expose-Headers: Accept-Encoding, Allow, Date, ETag, Idempotency-Replayed, Link, Retry-After, "
    b"WWW-Authenticate\r\n")

cdef OriginRules origin_rules
origin_rules.origins = origin_rules.hosts = b"\0"

cdef void origin_open(Settings* s) noexcept nogil:
    origin_rules.guards = s.guards_pages
    origin_rules.local = False
    origin_rules.origins = s.origins
    origin_rules.hosts = s.hosts

cdef void origin_close() noexcept nogil:
    memset(&origin_rules, 0, sizeof(OriginRules))
    origin_rules.origins = origin_rules.hosts = b"\0"

# ---- refused pages ---------------------------------------------------------------------------------------------------

cdef bint origin_admits(Request* r, bint harmless) noexcept nogil:
    # Returns True if the request may go on, False if it was refused and answered. harmless: the request reveals and
    # moves nothing.
    if origin_rules.local and not origin_is_local(r.authority):
        if not harmless:
            reply_error(r, 403, b"Host names another machine than this one; QUEEND_HOSTS lists names that are meant")
            return False
    elif r.asks & ASK_PAGE and not harmless and origin_foreign(r):
        reply_error(r, 403, b"A page of another site asks; CORS_ORIGINS lists those that may")
        return False
    return True

cdef bint origin_is_local(Slice authority) noexcept nogil:
    # Returns True if the value of Host, with or without a port, names this machine.
    cdef Slice host = authority
    cdef bint v6 = host.n and host.p[0] == b'['
    cdef const char* end
    cdef size_t i
    if host.p == NULL:
        return True           # HTTP/1.0: not a browser
    end = <const char*>memchr(host.p, b']' if v6 else b':', host.n)
    if end != NULL:
        host.n = end - host.p + v6
    if origin_in(origin_rules.hosts, host):
        return True
    if host.n > 10 and slice_nfolds(host.p + host.n - 10, b".localhost", 10):
        return True
    if host.n < 4 or memcmp(host.p, b"127.", 4) != 0:
        return False
    for i in range(host.n):
        if not (b'0' <= host.p[i] <= b'9' or host.p[i] == b'.'):
            return False      # 127.0.0.1.example is a name
    return True

cdef bint origin_foreign(Request* r) noexcept nogil:
    # Returns True if a page of another site, whose origin is not listed, sent the request.
    cdef const char* at = r.headers_raw.p
    cdef const char* end = at + r.headers_raw.n
    cdef Slice value = header_value(r.headers_raw, b"sec-fetch-site")
    cdef bint site = value.p != NULL
    cdef bint other = site and not (slice_folds(value, b"same-origin") or slice_folds(value, b"none"))
    cdef bint named = False
    if site and not other or origin_rules.origins[0] == b'*':
        return False
    while header_next(&at, end, b"origin", &value):
        named = True
        if not origin_in(origin_rules.origins, value) and (other or not origin_same(value, r.authority)):
            return True
    return other and not named and not origin_is_link(r)

cdef bint origin_same(Slice origin, Slice authority) noexcept nogil:
    # Returns True if the page is from the origin the request goes to. A proxy may have taken TLS away.
    cdef size_t n = 7 if slice_begins(origin, b"http://") else 8 if slice_begins(origin, b"https://") else 0
    return n and origin.n - n == authority.n and authority.n and slice_nsame(origin.p + n, authority.p, authority.n)

cdef bint origin_is_link(Request* r) noexcept nogil:
    # Returns True if a user followed a link to a page of the web application, which does nothing by itself.
    cdef Slice mode = header_value(r.headers_raw, b"sec-fetch-mode")
    return (slice_folds(mode, b"navigate") and (r.method == METHOD_GET or r.method == METHOD_HEAD)
            and not origin_under(r.path, b"/api") and not origin_under(r.path, b"/internal")
            and not origin_under(r.path, b"/streams") and not origin_under(r.path, b"/metrics"))

cdef inline bint origin_under(Slice path, const char* begin) noexcept nogil:
    cdef size_t n = strlen(begin)
    return path.n >= n and memcmp(path.p, begin, n) == 0

cdef bint origin_in(const char* names, Slice text) noexcept nogil:
    # Returns True if the text is one of the names, in any case.
    while names[0]:
        if slice_folds(text, names) or strcmp(names, b"*") == 0:
            return True
        names += strlen(names) + 1
    return False

# ---- header lines of the answer --------------------------------------------------------------------------------------

cdef void origin_headers(Request* r) noexcept nogil:
    # Writes the header lines that let a page read the answer.
    cdef Buf* b = &r.out
    cdef Slice origin
    if origin_rules.origins[0] == b'*':
        buf_text(b, b"Access-Control-Allow-Origin: *\r\n")
    else:
        buf_text(b, b"Vary: Origin\r\n")
        if not origin_listed(r):
            return
        origin = header_value(r.headers_raw, b"origin")
        buf_text(b, b"Access-Control-Allow-Origin: ")
        buf_slice(b, origin)
        buf_text(b, b"\r\n")
    buf_text(b, b"Access-Control-Allow-Methods: GET, POST, PUT, DELETE, OPTIONS\r\n")
    if r.method == METHOD_OPTIONS:
        buf_text(b, ORIGIN_SENDS)
    else:
        buf_text(b, b"Access-Control-Allow-Headers: Content-Type, Authorization\r\n")
        if r.asks & ASK_PAGE:
            buf_text(b, ORIGIN_READS)

cdef bint origin_listed(Request* r) noexcept nogil:
    # Returns True if the page is from one of the origins that may ask and read.
    cdef Slice origin
    if not r.asks & ASK_PAGE:
        return origin_rules.origins[0] == b'*'
    origin = header_value(r.headers_raw, b"origin")
    return origin_in(origin_rules.origins, origin) if origin.p != NULL else origin_rules.origins[0] == b'*'
