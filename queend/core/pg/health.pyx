# Health of the database as its connections see it: whether it serves this program. In: outcomes of connections and
# statements; the edition of its functions. Out, for /readyz, /health and metrics: DOUBT_* bits, and the reason why a
# server refuses connections or its edition does not serve. Owner: the process. Locks: edition.lock for the reason of an
# edition. Any thread may read and write each word of `doubt` by itself.

cdef enum DatabaseDoubt:
    DOUBT_NONE = 0
    DOUBT_AWAY = 1            # no connection
    DOUBT_SILENT = 2          # statements wait, and none was answered for DOUBT_SILENT_MS
    DOUBT_DISK = 4            # no disk space to store something
    DOUBT_READ_ONLY = 8       # no connection, because the server is read-only
    DOUBT_REFUSED = 16        # the server refuses connections until an operator changes something
    DOUBT_CROWDED = 32        # the server has no free connection
    DOUBT_BUFFER = 64         # the failover buffer has no room
    DOUBT_COMMITS = 128       # the server answers reads but commits nothing

cdef enum:
    DOUBT_SILENT_MS = 5000
    DOUBT_COMMITS_US = 5000000
    DOUBT_WAIT_US = 2000000   # a statement that waits this long makes the control plane try a commit
    DOUBT_STORED_US = 500000  # the try requires that nothing was stored for this long
    DOUBT_LATE_US = 500000    # a statement that waits this long makes the control plane look for a foreign lock
    DOUBT_LATE_SEEN_US = 1000000      # the sweep looks twice a second
    DOUBT_TRY_US = 60000000   # while commits hang, between two pushes from the buffer that try a commit
    DOUBT_DISK_US = 60000000  # after this time a full disk is no longer reported
    DOUBT_REPEAT_US = 60000000

cdef struct Doubt:
    int64_t answered_us       # monotonic, when a statement of any worker was last answered
    int64_t disk_us           # monotonic, when the disk was last full; 0: something was stored since
    int64_t why               # DOUBT_*: why connections fail
    int64_t stored_us         # monotonic, when the last statement that stored something was answered
    int64_t waits_us          # monotonic, when a statement was last seen waiting while nothing was stored
    int64_t late_us           # monotonic, when a statement was last seen waiting for DOUBT_LATE_US
    int64_t commits           # monotonic, since when commits hang, or when the last one was tried; 0: commits work
    int64_t buffer            # the failover buffer has no room
    # how often a server became read-only under a connection: older connections are replaced
    int64_t suspicions
    int64_t told_us           # monotonic, when the reason was last logged

cdef Doubt doubt

# ---- outcomes of statements ------------------------------------------------------------------------------------------

cdef void health_open() noexcept nogil:
    memset(&doubt, 0, sizeof(doubt))

cdef void health_stored() noexcept nogil:
    # Notes that the database has committed something. Any thread.
    atomic_set64(&doubt.stored_us, clock_mono_us())
    if atomic_get64(&doubt.commits):
        atomic_set64(&doubt.commits, 0)
        log_line(b"info", b"commits_work", NULL)

cdef inline void health_waits(int64_t sent_us, int64_t now) noexcept nogil:
    # Notes a statement that changes something and waits for its answer. If it waits for a lock, the commit that the
    # control plane tries (health_wants_commit) shows that commits do not hang.
    if now - sent_us >= DOUBT_LATE_US:
        atomic_set64(&doubt.late_us, now)
    if now - sent_us >= DOUBT_WAIT_US and now - atomic_get64(&doubt.stored_us) >= DOUBT_STORED_US:
        atomic_set64(&doubt.waits_us, now)

cdef inline bint health_others_answered(int64_t sent_us, int64_t now) noexcept nogil:
    # Returns True if a statement of any worker was answered in the second half of the time that one sent at sent_us has
    # waited.
    return now - atomic_get64(&doubt.answered_us) < (now - sent_us) // 2

cdef inline bint health_others_store(int64_t sent_us, int64_t now) noexcept nogil:
    # Returns True if a statement of any worker stored something in the second half of the time that one sent at sent_us
    # has waited.
    return now - atomic_get64(&doubt.stored_us) < (now - sent_us) // 2

cdef inline bint health_answered(int64_t now) noexcept nogil:
    # Returns True if a statement of any worker was answered in the last DOUBT_SILENT_MS.
    return now - atomic_get64(&doubt.answered_us) <= DOUBT_SILENT_MS * <int64_t>1000

cdef inline bint health_late(int64_t now) noexcept nogil:
    # Returns True if a statement that changes something had waited for DOUBT_LATE_US at the last sweep.
    return now - atomic_get64(&doubt.late_us) < DOUBT_LATE_SEEN_US

cdef inline bint health_wants_commit(int64_t now) noexcept nogil:
    # Returns True if a commit is to be tried: commits hang, or a statement waited at the last sweep.
    return atomic_get64(&doubt.commits) != 0 or now - atomic_get64(&doubt.waits_us) < DOUBT_WAIT_US

cdef void health_check_commits(int64_t sent_us, int64_t now) noexcept nogil:
    # Judges a statement that changes something and has waited 5 s for its answer. Commits hang if nothing else was
    # stored meanwhile although statements that only read are answered. Two threads may both log it.
    if (atomic_get64(&doubt.stored_us) > sent_us or not health_others_answered(sent_us, now)
            or atomic_get64(&doubt.commits)):
        return
    atomic_set64(&doubt.commits, now)
    log_line(b"error", b"commits_hang", b"the database answers, and commits nothing: a synchronous standby that is "
             b"missing, a disk; queend doctor looks")

# ---- outcomes of connections -----------------------------------------------------------------------------------------

cdef int health_of_connect(const PGconn* conn, char* reason, size_t size) noexcept nogil:
    # Copies the server's or libpq's message of a failed connection to reason, without the position in the server's
    # source. Returns its DOUBT_*.
    cdef const char* state = health_connect_state(PQerrorMessage(conn))
    cdef char* place
    strncpy(reason, PQerrorMessage(conn), size - 1)
    reason[size - 1] = 0
    place = strstr(reason, b"\nLOCATION:")
    if place != NULL:
        place[0] = 0
    return health_of_sqlstate(state) if state != NULL else DOUBT_NONE

cdef const char* health_connect_state(const char* text) noexcept nogil:
    # Returns the SQLSTATE in libpq's verbose message about a connection: five characters between two blanks and a
    # colon. Returns NULL if the server did not answer, as the message then has no SQLSTATE.
    cdef const char* p = strstr(text, b":  ")
    cdef int i
    while p != NULL:
        for i in range(3, 8):
            if not (b'0' <= p[i] <= b'9' or b'A' <= p[i] <= b'Z'):
                break
        else:
            if p[8] == b':':
                return p + 3
        p = strstr(p + 3, b":  ")
    return NULL

cdef int health_of_sqlstate(const char* state) noexcept nogil:
    # Returns the DOUBT_* bit of an SQLSTATE met while connecting; DOUBT_NONE: a passing error.
    if memcmp(state, b"25006", 5) == 0:
        return DOUBT_READ_ONLY
    if memcmp(state, b"53300", 5) == 0:
        return DOUBT_CROWDED
    # wrong user, database or right, or a wrong query
    if memcmp(state, b"28", 2) == 0 or memcmp(state, b"3D", 2) == 0 or memcmp(state, b"42", 2) == 0:
        return DOUBT_REFUSED
    return DOUBT_NONE

# ---- reasons ---------------------------------------------------------------------------------------------------------

cdef bint health_log_due(int64_t now) noexcept nogil:
    # Returns True once a minute for the process. Two threads at the same moment may both get True.
    if now - atomic_get64(&doubt.told_us) < DOUBT_REPEAT_US:
        return False
    atomic_set64(&doubt.told_us, now)
    return True

cdef const char* health_reason(int64_t doubts) noexcept nogil:
    # Returns the reason why the database is unavailable.
    if doubts & DOUBT_READ_ONLY:
        return b"The database is read-only"
    if doubts & DOUBT_REFUSED:
        return b"The database refuses connections"
    if doubts & DOUBT_CROWDED:
        return b"The database has no connection left"
    return b"The database is not reachable"

cdef inline const char* health_why() noexcept nogil:
    return health_reason(atomic_get64(&doubt.why))

# ---- the edition of its functions ------------------------------------------------------------------------------------
# Every connection asks for the edition before it prepares its statements. The connection is closed if the edition does
# not serve this program, or if a statement cannot be prepared. A database without a connection counts as unavailable.

cdef const char* EDITION = b"SELECT edition, serves FROM queend.edition()"

# Columns of the answer to EDITION.
cdef enum:
    EDITION_NUMBER = 0
    EDITION_SERVES

cdef enum:
    EDITION_REASON = 300

cdef struct Edition:
    int64_t ours              # 0: not checked (tests of connections)
    int64_t refused           # connections are refused for `reason`
    int64_t refusals          # how often a refusal began: older connections are replaced as well
    uv_mutex_t lock           # guards `reason`
    char[EDITION_REASON] reason

cdef Edition edition

uv_mutex_init(&edition.lock)  # once per process

cdef void health_edition_open(int ours) noexcept nogil:
    # Resets the edition for a new run. Requires that no thread has started.
    edition.ours = ours
    edition.refused = 0
    edition.refusals = 0
    edition.reason[0] = 0

cdef bint health_edition_unfit(PGresult* res) noexcept nogil:
    # Returns True if the error says that functions or their columns differ from ours.
    return (pg_sqlstate(res, b"42883") or pg_sqlstate(res, b"42703")
            or pg_sqlstate(res, b"42P01") or pg_sqlstate(res, b"3F000"))

cdef bint health_edition_serves(int number, int serves, char* reason, size_t n) noexcept nogil:
    # Returns True if the edition serves this program; otherwise writes why to `reason`.
    if serves <= edition.ours <= number:
        return True
    if number < edition.ours:
        snprintf(reason, n,
                 b"the functions of the database are of edition %d, older than this queend's %d: "
                 b"restart it, or run queend migrate",
                 number, <int>edition.ours)
    else:
        snprintf(reason, n,
                 b"the functions of the database are of edition %d and serve daemons of edition %d and later, "
                 b"this is %d: start a newer queend",
                 number, serves, <int>edition.ours)
    return False

cdef void health_edition_refuse(const char* reason) noexcept nogil:
    # Notes a refusal; logs its beginning and each change of its reason. Any thread.
    cdef bint news
    cdef char[EDITION_REASON] text
    if edition.ours == 0:
        return
    strncpy(text, reason, EDITION_REASON - 1)
    text[EDITION_REASON - 1] = 0
    uv_mutex_lock(&edition.lock)
    news = not edition.refused or strcmp(edition.reason, text) != 0
    memcpy(edition.reason, text, EDITION_REASON)
    if not edition.refused:
        atomic_set64(&edition.refusals, edition.refusals + 1)
    atomic_set64(&edition.refused, 1)
    uv_mutex_unlock(&edition.lock)
    if news:
        log_line(b"error", b"functions_not_ours", text)

cdef void health_edition_accept() noexcept nogil:
    # Ends a refusal: a connection has prepared its statements. Any thread.
    if atomic_get64(&edition.refused):
        atomic_set64(&edition.refused, 0)
        log_line(b"info", b"functions_ours", NULL)

def edition_reason():
    """Why the functions of the database do not serve this program; None: they do, or nobody has asked yet."""
    cdef bytes reason
    if not atomic_get64(&edition.refused):
        return None
    uv_mutex_lock(&edition.lock)
    reason = <bytes>edition.reason
    uv_mutex_unlock(&edition.lock)
    return reason.decode(errors="replace")

# ---- refused connections, for the control plane ----------------------------------------------------------------------
# The SQLSTATE of a refusal is only in libpq's verbose message, which psycopg does not request.

cdef int health_refusal(const char* conninfo, int timeout_ms, char* reason, size_t size) noexcept nogil:
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
        why = health_of_connect(conn, reason, size)
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
        why = health_refusal(address, timeout_ms, reason, sizeof(reason))
    return (<bytes>reason).decode(errors="replace").strip() if why == DOUBT_REFUSED else None
