# The database's clock, as far as answers told. In: its wall clock, with the moments between which it was read. Out:
# what it shows now. Moments in the database (leases, pauses, created_at) are compared with this clock, never with our
# own wall clock, which may be an hour off.
#
# Kept is how far the database's clock is ahead of our monotonic one. An answer bounds it from both sides: the clock was
# read after the question was sent and before the answer came. The largest lower bound is kept; an answer whose upper
# bound lies below it replaces it: the database's clock runs slower than ours, or was set back.

cdef enum:
    DBCLOCK_STEP_US = 500000          # less than that is drift

cdef int64_t DBCLOCK_SILENT = -(<int64_t>1 << 62)       # nothing was heard yet

cdef struct DbClock:
    int64_t least             # database's clock minus our monotonic one, at least (µs); any thread
    int64_t back_at           # monotonic, when it was last seen to have been set back, 0 = never

cdef DbClock dbclock

cdef void dbclock_open() noexcept nogil:
    atomic_set64(&dbclock.least, DBCLOCK_SILENT)
    atomic_set64(&dbclock.back_at, 0)

dbclock_open()

cdef void dbclock_heard(int64_t db_us, int64_t sent_us, int64_t got_us) noexcept nogil:
    # db_us: the database's wall clock, read between sent_us and got_us (monotonic). Two threads that hear something at
    # the same moment may lose the better of two bounds; both hold.
    cdef int64_t known = atomic_get64(&dbclock.least)
    cdef int64_t least = db_us - got_us
    if known != DBCLOCK_SILENT and db_us - sent_us < known:
        if db_us - sent_us < known - DBCLOCK_STEP_US:
            atomic_set64(&dbclock.back_at, got_us)
    elif known >= least:
        return
    atomic_set64(&dbclock.least, least)

cdef inline int64_t dbclock_at(int64_t mono_us) noexcept nogil:
    # What it showed, or will, at a moment of our monotonic clock.
    cdef int64_t least = atomic_get64(&dbclock.least)
    return (clock_wall_us() - clock_mono_us() if least == DBCLOCK_SILENT else least) + mono_us

cdef inline bint dbclock_known() noexcept nogil:
    return atomic_get64(&dbclock.least) != DBCLOCK_SILENT

cdef inline int64_t dbclock_now() noexcept nogil:
    # What it shows now (µs since the Unix epoch), and never more unless it went back since it was last heard of. Our
    # own wall clock until something was heard.
    return dbclock_at(clock_mono_us())
