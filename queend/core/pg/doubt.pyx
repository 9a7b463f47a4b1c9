# Health of the database as seen by its connections, for /readyz, /health and metrics. In: outcomes of connections and
# statements. Out: DOUBT_* bits. Any thread may read each word by itself, without a lock.

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
    DOUBT_TRY_US = 60000000   # while commits hang, between two pushes from the buffer that try a commit
    DOUBT_DISK_US = 60000000  # after this time a full disk is no longer reported
    DOUBT_REPEAT_US = 60000000

cdef struct Doubt:
    int64_t answered_us       # monotonic, when a statement of any worker was last answered
    int64_t disk_us           # monotonic, when the disk was last full; 0: something was stored since
    int64_t why               # DOUBT_*: why connections fail
    int64_t stored_us         # monotonic, when the last statement that stored something was answered
    int64_t waits_us          # monotonic, when a statement was last seen waiting while nothing was stored
    int64_t commits           # monotonic, since when commits hang, or when the last one was tried; 0: commits work
    int64_t buffer            # the failover buffer has no room
    # how often a server became read-only under a connection: older connections are replaced
    int64_t suspicions
    int64_t told_us           # monotonic, when the reason was last logged

cdef Doubt doubt

cdef void doubt_open() noexcept nogil:
    memset(&doubt, 0, sizeof(doubt))

cdef inline bint doubt_others_answered(int64_t sent_us, int64_t now) noexcept nogil:
    # Returns True if a statement of any worker was answered in the second half of the time that one sent at sent_us has
    # waited.
    return now - atomic_get64(&doubt.answered_us) < (now - sent_us) // 2

cdef inline bint doubt_others_stored(int64_t sent_us) noexcept nogil:
    # Returns True if a statement of any worker, answered after sent_us, has stored something.
    return atomic_get64(&doubt.stored_us) > sent_us

cdef inline bint doubt_others_store(int64_t sent_us, int64_t now) noexcept nogil:
    # Returns True if a statement of any worker stored something in the second half of the time that one sent at sent_us
    # has waited.
    return now - atomic_get64(&doubt.stored_us) < (now - sent_us) // 2

cdef void doubt_stored() noexcept nogil:
    # Notes that the database has committed something. Any thread.
    atomic_set64(&doubt.stored_us, clock_mono_us())
    if atomic_get64(&doubt.commits):
        atomic_set64(&doubt.commits, 0)
        log_line(b"info", b"commits_work", NULL)

cdef inline bint doubt_heard(int64_t now) noexcept nogil:
    # Returns True if a statement of any worker was answered in the last DOUBT_SILENT_MS.
    return now - atomic_get64(&doubt.answered_us) <= DOUBT_SILENT_MS * <int64_t>1000

cdef inline void doubt_waits(int64_t sent_us, int64_t now) noexcept nogil:
    # Notes a statement that changes something and waits for its answer. If it waits for a lock, the commit that the
    # control plane tries (doubt_wanting) shows that commits do not hang.
    if now - sent_us >= DOUBT_WAIT_US and now - atomic_get64(&doubt.stored_us) >= DOUBT_STORED_US:
        atomic_set64(&doubt.waits_us, now)

cdef inline bint doubt_wanting(int64_t now) noexcept nogil:
    # Returns True if a commit is to be tried: commits hang, or a statement waited at the last sweep.
    return atomic_get64(&doubt.commits) != 0 or now - atomic_get64(&doubt.waits_us) < DOUBT_WAIT_US

cdef void doubt_writes(int64_t sent_us, int64_t now) noexcept nogil:
    # Judges a statement that changes something and has waited 5 s for its answer. Commits hang if nothing else was
    # stored meanwhile although statements that only read are answered. Two threads may both log it.
    if doubt_others_stored(sent_us) or not doubt_others_answered(sent_us, now) or atomic_get64(&doubt.commits):
        return
    atomic_set64(&doubt.commits, now)
    log_line(b"error", b"commits_hang", b"the database answers, and commits nothing: a synchronous standby that is "
             b"missing, a disk; queend doctor looks")

cdef bint doubt_repeats(int64_t now) noexcept nogil:
    # Returns True once a minute for the process. Two threads at the same moment may both get True.
    if now - atomic_get64(&doubt.told_us) < DOUBT_REPEAT_US:
        return False
    atomic_set64(&doubt.told_us, now)
    return True

cdef const char* doubt_away(int64_t doubts) noexcept nogil:
    # Returns the reason why the database is unavailable.
    if doubts & DOUBT_READ_ONLY:
        return b"The database is read-only"
    if doubts & DOUBT_REFUSED:
        return b"The database refuses connections"
    if doubts & DOUBT_CROWDED:
        return b"The database has no connection left"
    return b"The database is not reachable"

cdef inline const char* doubt_why() noexcept nogil:
    return doubt_away(atomic_get64(&doubt.why))

cdef int doubt_of_state(const char* state) noexcept nogil:
    # Returns the DOUBT_* bit of an SQLSTATE met while connecting; DOUBT_NONE: a passing error.
    if memcmp(state, b"25006", 5) == 0:
        return DOUBT_READ_ONLY
    if memcmp(state, b"53300", 5) == 0:
        return DOUBT_CROWDED
    # wrong user, database or right, or a wrong query
    if memcmp(state, b"28", 2) == 0 or memcmp(state, b"3D", 2) == 0 or memcmp(state, b"42", 2) == 0:
        return DOUBT_REFUSED
    return DOUBT_NONE

cdef int doubt_of_connect(const PGconn* conn, char* reason, size_t size) noexcept nogil:
    # Copies the server's or libpq's message of a failed connection to reason, without the position in the server's
    # source. Returns its DOUBT_*.
    cdef const char* state = connect_state(PQerrorMessage(conn))
    cdef char* place
    strncpy(reason, PQerrorMessage(conn), size - 1)
    reason[size - 1] = 0
    place = strstr(reason, b"\nLOCATION:")
    if place != NULL:
        place[0] = 0
    return doubt_of_state(state) if state != NULL else DOUBT_NONE

cdef const char* connect_state(const char* text) noexcept nogil:
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
