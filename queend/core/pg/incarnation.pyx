# Identity of the server that a connection leads to. In: the answer to INCARNATION, asked with the statements that a new
# connection prepares. Out: a number, raised when the server changes, after `forget`. A server that took over, was
# restored or recovered from a crash may lack commits that this process knows of. So all remembered facts are dropped
# first.
# Owner: the process. Locks: incarnation.lock, before every other lock: for reading while an answer is processed, for
# writing while the number is raised. So facts of an older server cannot be learned after they were dropped.

# Asks for the system, its timeline, its start, the last reset of shared memory, and the database. From PostgreSQL 15
# on, a crash recovery under the same postmaster resets the statistics that show that reset. Also asks whether the
# server is read-only, how durable its commits are (Risk), and for its clock.
cdef const char* INCARNATION = (
    b"SELECT concat_ws('/', (SELECT c.system_identifier FROM pg_control_system() c),"
    b" CASE WHEN pg_is_in_recovery() THEN 'recovery' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END,"
    b" (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,"
    b" (extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time()) * 1000000)::bigint,"
    b" (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())),"
    b" current_setting('transaction_read_only') = 'on',"
    b" CASE current_setting('synchronous_commit') WHEN 'off' THEN 1"
    b" WHEN 'local' THEN CASE WHEN current_setting('synchronous_standby_names') = '' THEN 0 ELSE 2 END ELSE 0 END"
    b" + CASE current_setting('fsync') WHEN 'off' THEN 4 ELSE 0 END"
    b" + CASE current_setting('full_page_writes') WHEN 'off' THEN 8 ELSE 0 END,"
    b" (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")

# Columns of the answer to INCARNATION.
cdef enum:
    SERVER_TEXT = 0
    SERVER_READ_ONLY
    SERVER_RISKS
    SERVER_NOW

cdef enum:
    INCARNATION_TEXT = 200

cdef enum Risk:
    RISK_COMMIT = 1           # synchronous_commit = off: a crash loses the newest commits
    RISK_STANDBY = 2  # synchronous_commit = local beside synchronous standbys: a failover loses the newest commits
    RISK_FSYNC = 4            # fsync = off: a crash of the machine loses or damages everything
    RISK_PAGES = 8            # full_page_writes = off: a crash of the machine damages single pages

cdef struct Incarnation:
    uv_rwlock_t lock
    int64_t number            # 0: no server seen yet
    int64_t first             # the first number of this start of this server
    char[INCARNATION_TEXT] text
    SharedInt risks           # bits of Risk; written under the lock, read without it
    # drops all remembered facts, for the incarnation of that number
    void (*forget)(int64_t number) noexcept nogil

cdef Incarnation incarnation

uv_rwlock_init(&incarnation.lock)      # once per process

cdef void incarnation_open(void (*forget)(int64_t number) noexcept nogil) noexcept nogil:
    # Resets the incarnation for a new run. Requires that no thread has started.
    incarnation.number = 0
    incarnation.first = 0
    incarnation.text[0] = 0
    incarnation.risks = 0
    incarnation.forget = forget

cdef inline int64_t incarnation_now() noexcept nogil:
    return atomic_get64(&incarnation.number)

cdef inline bint incarnation_replaced(int64_t number) noexcept nogil:
    # Returns True if the server of that number was replaced or restarted: statements sent to it are not stored in the
    # present server.
    return number < atomic_get64(&incarnation.first)

cdef inline size_t incarnation_start(const char* text, size_t n) noexcept nogil:
    # Returns how many bytes of the text identify the system, its timeline and its start. A reset of the statistics
    # leaves these bytes unchanged.
    cdef size_t i = 0
    cdef int parts = 0
    while i < n and parts < 3:
        parts += text[i] == b'/'
        i += 1
    return i

cdef int64_t incarnation_of(PGresult* res) noexcept nogil:
    # Returns the number of the server that gave this answer; raises it if the server changed. Any thread; requires no
    # lock.
    cdef Slice text = pg_bytes(res, 0, SERVER_TEXT)
    cdef int64_t number
    cdef size_t n = text.n if text.n < INCARNATION_TEXT - 1 else INCARNATION_TEXT - 1
    cdef size_t start = incarnation_start(text.p, n)
    cdef bint another
    uv_rwlock_wrlock(&incarnation.lock)
    if strlen(incarnation.text) != n or memcmp(incarnation.text, text.p, n) != 0:
        if incarnation.number:
            log_line(b"warn", b"server_changed",
                     b"another server, or one that was started anew: what was remembered is dropped")
        if incarnation.forget != NULL:
            incarnation.forget(incarnation.number + 1)
        another = (incarnation_start(incarnation.text, strlen(incarnation.text)) != start
                   or memcmp(incarnation.text, text.p, start) != 0)
        memcpy(incarnation.text, text.p, n)
        incarnation.text[n] = 0
        atomic_set64(&incarnation.number, incarnation.number + 1)
        if another:
            atomic_set64(&incarnation.first, incarnation.number)
    incarnation_risks(pg_int4(res, 0, SERVER_RISKS))
    number = incarnation.number
    uv_rwlock_wrunlock(&incarnation.lock)
    return number

cdef const char* INCARNATION_RISKS[4]      # in the order of the bits of Risk
INCARNATION_RISKS = [
    b"synchronous_commit is off: a crash of the server loses messages that were answered as queued",
    b"synchronous_commit is local beside synchronous standbys: "
    b"a failover loses messages that were answered as queued",
    b"fsync is off: a crash of the server's machine loses or damages the database",
    b"full_page_writes is off: a crash of the server's machine may damage the database"]

cdef void incarnation_risks(int risks) noexcept nogil:
    # Logs each change of the risks once. Requires the lock.
    cdef int i
    for i in range(4 if risks != incarnation.risks else 0):
        if risks >> i & 1:
            log_line(b"error", b"commits_may_be_lost", INCARNATION_RISKS[i])
    incarnation.risks = risks
