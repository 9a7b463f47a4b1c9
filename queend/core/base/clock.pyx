# The clocks of this machine. Out: microseconds, or a text (RFC 3339). Wall time only stamps ids and texts; durations
# use the monotonic clock. Owns nothing.

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
