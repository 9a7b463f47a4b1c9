# The edition of the database's functions. In: answers of the server. Out: the reason why the edition does not serve
# this program, for health checks. Owner: the process. Locks: edition.lock.
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

cdef void edition_open(int ours) noexcept nogil:
    # Resets the edition for a new run. Requires that no thread has started.
    edition.ours = ours
    edition.refused = 0
    edition.refusals = 0
    edition.reason[0] = 0

cdef bint edition_unfit(PGresult* res) noexcept nogil:
    # Returns True if the error says that functions or their columns differ from ours.
    return (pg_sqlstate(res, b"42883") or pg_sqlstate(res, b"42703")
            or pg_sqlstate(res, b"42P01") or pg_sqlstate(res, b"3F000"))

cdef bint edition_serves(int number, int serves, char* reason, size_t n) noexcept nogil:
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

cdef void edition_refuse(const char* reason) noexcept nogil:
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

cdef void edition_accept() noexcept nogil:
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
