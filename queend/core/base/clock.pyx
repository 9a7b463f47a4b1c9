# The clocks of this machine, and the database's clock, estimated from answers. In: the database's wall clock, with the
# times between which it was read. Out: microseconds, or a text (RFC 3339). Wall time only stamps ids and texts;
# durations use the monotonic clock. Leases, pauses and created_at use the database's clock: this machine's wall clock
# may be an hour off. Owns the estimate. Owner: the process. No locks.

# ---- this machine's clocks -------------------------------------------------------------------------------------------

cdef inline int64_t clock_wall_us() noexcept nogil:
    # Returns microseconds since the Unix epoch.
    cdef timespec ts
    clock_gettime(CLOCK_REALTIME, &ts)
    return <int64_t>ts.tv_sec * 1000000 + ts.tv_nsec // 1000

cdef inline int64_t clock_mono_us() noexcept nogil:
    cdef timespec ts
    clock_gettime(CLOCK_MONOTONIC, &ts)
    return <int64_t>ts.tv_sec * 1000000 + ts.tv_nsec // 1000

cdef void clock_format(int64_t us, int digits, char* out) noexcept nogil:
    # Writes `2026-01-02T03:04:05.678901Z` with `digits` (3 or 6) fractional digits: 21 + digits bytes, no NUL. The
    # civil date follows from the days by the era method (proleptic Gregorian).
    cdef int64_t secs = us // 1000000
    cdef int64_t frac = us % 1000000
    if frac < 0:
        frac += 1000000
        secs -= 1
    cdef int64_t days = secs // 86400
    cdef int64_t rest = secs % 86400
    if rest < 0:
        rest += 86400
        days -= 1
    cdef int64_t z = days + 719468
    cdef int64_t era = (z if z >= 0 else z - 146096) // 146097
    cdef int64_t doe = z - era * 146097
    cdef int64_t yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    cdef int64_t y = yoe + era * 400
    cdef int64_t doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    cdef int64_t mp = (5 * doy + 2) // 153
    cdef int64_t d = doy - (153 * mp + 2) // 5 + 1
    cdef int64_t m = mp + 3 if mp < 10 else mp - 9
    if m <= 2:
        y += 1
    clock_digits(out, y, 4)
    out[4] = b'-'
    clock_digits(out + 5, m, 2)
    out[7] = b'-'
    clock_digits(out + 8, d, 2)
    out[10] = b'T'
    clock_digits(out + 11, rest // 3600, 2)
    out[13] = b':'
    clock_digits(out + 14, rest // 60 % 60, 2)
    out[16] = b':'
    clock_digits(out + 17, rest % 60, 2)
    out[19] = b'.'
    clock_digits(out + 20, frac if digits == 6 else frac // 1000, digits)
    out[20 + digits] = b'Z'

cdef inline void clock_digits(char* out, int64_t v, int n) noexcept nogil:
    while n > 0:
        n -= 1
        out[n] = <char>(c'0' + v % 10)
        v //= 10

# ---- the database's clock --------------------------------------------------------------------------------------------
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

cdef void clock_db_open() noexcept nogil:
    atomic_set64(&dbclock.least, DBCLOCK_SILENT)
    atomic_set64(&dbclock.back_at, 0)

clock_db_open()

cdef void clock_db_sample(int64_t db_us, int64_t sent_us, int64_t got_us) noexcept nogil:
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

cdef inline int64_t clock_db_at(int64_t mono_us) noexcept nogil:
    # Returns the database's time at `mono_us` of our monotonic clock.
    cdef int64_t least = atomic_get64(&dbclock.least)
    return (clock_wall_us() - clock_mono_us() if least == DBCLOCK_SILENT else least) + mono_us

cdef inline bint clock_db_known() noexcept nogil:
    return atomic_get64(&dbclock.least) != DBCLOCK_SILENT

cdef inline int64_t clock_db_now() noexcept nogil:
    # Returns the database's time now (µs since the Unix epoch): at most the true time, unless the clock was set back
    # since the last answer. Before the first answer it returns our own wall clock.
    return clock_db_at(clock_mono_us())
