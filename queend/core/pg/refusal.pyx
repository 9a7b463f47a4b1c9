# Reason why a server refuses connections, for the control plane. The SQLSTATE of a refusal is only in libpq's verbose
# message, which psycopg does not request.

cdef int refusal_of(const char* conninfo, int timeout_ms, char* reason, size_t size) noexcept nogil:
    # Tries to connect. Returns DOUBT_* and writes the server's message to reason; DOUBT_NONE: the connection works, or
    # the error is a passing one.
    cdef PGconn* conn = PQconnectStart(conninfo)
    cdef PostgresPollingStatusType step = PGRES_POLLING_WRITING
    cdef int64_t until = clock_mono_us() + <int64_t>timeout_ms * 1000
    cdef int64_t left
    cdef int why = DOUBT_NONE
    cdef pollfd p
    reason[0] = 0
    if conn == NULL:
        return DOUBT_NONE
    PQsetErrorVerbosity(conn, PQERRORS_VERBOSE)
    while PQstatus(conn) != CONNECTION_BAD and step != PGRES_POLLING_OK and step != PGRES_POLLING_FAILED:
        left = until - clock_mono_us()
        if left <= 0:
            break
        p.fd = PQsocket(conn)
        p.events = <short>(POLLIN if step == PGRES_POLLING_READING else POLLOUT)
        poll(&p, 1, <int>(left // 1000 + 1))
        step = PQconnectPoll(conn)
    if step == PGRES_POLLING_FAILED or PQstatus(conn) == CONNECTION_BAD:
        why = doubt_of_connect(conn, reason, size)
    PQfinish(conn)
    return why

def refusal(str conninfo, int timeout_ms=10000):
    """Why the server will go on refusing this connection until somebody changes something: a wrong password, no such
    database, no right to it. None: it does not, or says nothing. Blocks."""
    cdef bytes text = conninfo.encode()
    cdef const char* address = text
    cdef char[1000] reason
    cdef int why
    with nogil:
        why = refusal_of(address, timeout_ms, reason, sizeof(reason))
    return (<bytes>reason).decode(errors="replace").strip() if why == DOUBT_REFUSED else None
