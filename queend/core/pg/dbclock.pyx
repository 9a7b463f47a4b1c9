# The database's clock, estimated from answers. In: its wall clock, with the times between which it was read. Out: its
# time now, for leases, pauses and created_at: this machine's wall clock may be an hour off. Owner: the process. No
# locks.
# Stored is the difference to our monotonic clock. An answer bounds it from both sides: the clock was read between
# request and answer. The largest lower bound is kept. An answer whose upper bound lies below it replaces it: the
# database's clock runs slower than ours, or was set back.

cdef enum:
    DBCLOCK_STEP_US = 500000          # smaller steps are drift

cdef int64_t DBCLOCK_SILENT = -(<int64_t>1 << 62)       # no answer yet

cdef struct DbClock:
    int64_t least  # lower bound of the database's clock minus our monotonic clock (µs); written by any thread
    int64_t back_at           # monotonic, when the clock was last seen to be set back, 0: never

cdef DbClock dbclock

cdef void dbclock_open() noexcept nogil:
    atomic_set64(&dbclock.least, DBCLOCK_SILENT)
    atomic_set64(&dbclock.back_at, 0)

dbclock_open()

cdef void dbclock_sample(int64_t db_us, int64_t sent_us, int64_t got_us) noexcept nogil:
    # Takes a reading of the database's wall clock: db_us was read between sent_us and got_us (monotonic). Two threads
    # that call it at the same moment may lose the better of two bounds; both bounds are valid.
    cdef int64_t known = atomic_get64(&dbclock.least)
    cdef int64_t least = db_us - got_us
    if known != DBCLOCK_SILENT and db_us - sent_us < known:
        if db_us - sent_us < known - DBCLOCK_STEP_US:
            atomic_set64(&dbclock.back_at, got_us)
    elif known >= least:
        return
    atomic_set64(&dbclock.least, least)

cdef inline int64_t dbclock_at(int64_t mono_us) noexcept nogil:
    # Returns the database's time at `mono_us` of our monotonic clock.
    cdef int64_t least = atomic_get64(&dbclock.least)
    return (clock_wall_us() - clock_mono_us() if least == DBCLOCK_SILENT else least) + mono_us

cdef inline bint dbclock_known() noexcept nogil:
    return atomic_get64(&dbclock.least) != DBCLOCK_SILENT

cdef inline int64_t dbclock_now() noexcept nogil:
    # Returns the database's time now (µs since the Unix epoch): at most the true time, unless the clock was set back
    # since the last answer. Before the first answer it returns our own wall clock.
    return dbclock_at(clock_mono_us())
