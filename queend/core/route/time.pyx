# Reads moments and delays as clients write them: ISO 8601, or whole milliseconds. In: a text, or a literal. Out:
# microseconds since 1970, or why the value is invalid. Stateless, takes no lock.

cdef inline int time_digits(Slice s, size_t at, int n) noexcept nogil:
    # Returns n digits as a number, -1 if a character is missing or not a digit.
    cdef int v = 0
    cdef int i
    if at + n > s.n:
        return -1
    for i in range(n):
        if not b'0' <= s.p[at + i] <= b'9':
            return -1
        v = v * 10 + s.p[at + i] - c'0'
    return v

cdef inline int time_month_days(int y, int m) noexcept nogil:
    if m == 2:
        return 29 if y % 4 == 0 and (y % 100 != 0 or y % 400 == 0) else 28
    return 30 if m == 4 or m == 6 or m == 9 or m == 11 else 31

cdef bint time_zone(Slice s, size_t at, int* seconds) noexcept nogil:
    # Reads what follows date and time: Z or nothing (UTC), or an offset +hh, +hhmm or +hh:mm. seconds: east of
    # Greenwich.
    cdef int sign = 1
    cdef int h
    cdef int m = 0
    seconds[0] = 0
    if at == s.n or (at + 1 == s.n and (s.p[at] == b'Z' or s.p[at] == b'z')):
        return True
    if s.p[at] == b'-':
        sign = -1
    elif s.p[at] != b'+' and (s.p[at] != b' ' or at == 10):
        return False          # a blank is a plus that was not escaped in a query
    h = time_digits(s, at + 1, 2)
    at += 3
    if at < s.n:
        if s.p[at] == b':':
            at += 1
        m = time_digits(s, at, 2)
        at += 2
    if h < 0 or h > 15 or m < 0 or m > 59 or at != s.n:
        return False
    seconds[0] = sign * (h * 3600 + m * 60)
    return True

cdef bint time_parse(Slice s, int64_t* us) noexcept nogil:
    # Parses ISO 8601: a date; then optionally T or a blank and hh:mm[:ss[.fraction]]; then a zone, UTC if absent.
    # us: since the epoch, finer digits cut off. Returns False if there is no such moment.
    cdef int y = time_digits(s, 0, 4)
    cdef int mo = time_digits(s, 5, 2)
    cdef int d = time_digits(s, 8, 2)
    cdef int h = 0
    cdef int mi = 0
    cdef int sec = 0
    cdef int zone
    cdef int64_t frac = 0
    cdef int64_t scale = 100000
    cdef size_t at = 10
    cdef int64_t era, yoe, doy, days, yy
    if y < 1 or mo < 1 or mo > 12 or d < 1 or s.p[4] != b'-' or s.p[7] != b'-' or d > time_month_days(y, mo):
        return False
    if s.n >= 16 and (s.p[10] == b'T' or s.p[10] == b't' or s.p[10] == b' ') and time_digits(s, 11, 2) >= 0:
        h = time_digits(s, 11, 2)
        mi = time_digits(s, 14, 2)
        if s.p[13] != b':' or mi < 0:
            return False
        at = 16
        if at < s.n and s.p[at] == b':':
            sec = time_digits(s, 17, 2)
            at = 19
            if at < s.n and s.p[at] == b'.':
                at += 1
                if time_digits(s, at, 1) < 0:
                    return False
                while at < s.n and b'0' <= s.p[at] <= b'9':
                    frac += (s.p[at] - c'0') * scale
                    scale //= 10
                    at += 1
        if mi > 59 or sec < 0 or sec > 59 or h > 23:
            return False
        if at < s.n and s.p[at] == b' ' and at + 1 < s.n and not b'0' <= s.p[at + 1] <= b'9':
            at += 1           # "03:04:05 +02"
    if not time_zone(s, at, &zone):
        return False
    # days from the civil date by eras of 400 years (proleptic Gregorian)
    yy = y - (1 if mo <= 2 else 0)
    era = yy // 400
    yoe = yy - era * 400
    doy = (153 * (mo + (-3 if mo > 2 else 9)) + 2) // 5 + d - 1
    days = era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468
    us[0] = (days * 86400 + h * 3600 + mi * 60 + sec - zone) * 1000000 + frac
    return True

# ---- how long something is to wait -----------------------------------------------------------------------------------

cdef const char* DELAY_TEXT = b"delayMs must be a whole number of milliseconds from 0 to 31622400000 (366 days)"

cdef bint time_delay(Slice raw, int64_t* us) noexcept nogil:
    # Reads the literal of a delayMs as microseconds.
    cdef int64_t ms
    if not ident_whole(raw, &ms) or ms > DELAY_DAYS * <int64_t>86400000:
        return False
    us[0] = ms * 1000
    return True

# ---- when something is to be delivered -------------------------------------------------------------------------------

cdef const char* DUE_TEXT = (b"deliverAt must be a time with its zone (ISO 8601) or milliseconds since 1970, "
                             b"at most 366 days ahead")

cdef const char* DUE_SECONDS_TEXT = (b"deliverAt must be in milliseconds since 1970, and this number looks like "
                                     b"seconds: multiply it by 1000")

cdef bint time_has_zone(Slice s) noexcept nogil:
    # Returns True if the text names a zone. Requires a text that time_parse accepts.
    cdef size_t i
    if s.p[s.n - 1] == b'Z' or s.p[s.n - 1] == b'z':
        return True
    for i in range(10, s.n):
        if s.p[i] == b'+' or s.p[i] == b'-' or (s.p[i] == b' ' and i > 10):      # a blank is a plus, see time_zone
            return True
    return False

cdef bint time_deliver_at(Slice at, Slice delay, bint quoted, Tools* t, int64_t* due) noexcept nogil:
    # Reads deliverAt or delayMs (p NULL: not given) as a delivery time, 0: at once. quoted: texts are literals with
    # quotes.
    cdef Slice text = at
    cdef int64_t us = 0
    cdef int64_t now = clock_db_now()      # the database's clock decides when it is delivered
    due[0] = 0
    if at.p != NULL and delay.p != NULL:
        return refuse_item(t, b"deliverAt and delayMs exclude each other", b"deliverAt")
    if delay.p != NULL:
        if not time_delay(delay, &us):
            return refuse_item(t, DELAY_TEXT, b"delayMs")
        # rounded up to the millisecond: items of one request then share one time
        due[0] = (now + us + 999) // 1000 * 1000 if us else 0
        return True
    if quoted and text.n and text.p[0] == b'"':
        if not text_unescape(at, t.arena, &text, NULL) or ident_whole(text, &us):
            return refuse_item(t, DUE_TEXT, b"deliverAt")
    if ident_whole(text, &us):
        # from 10^8 to 10^11: as seconds the number lies in 1973 to 5138, as milliseconds before 1974
        if 100000000 <= us < 100000 * <int64_t>1000000:
            return refuse_item(t, DUE_SECONDS_TEXT, b"deliverAt")
        if us >= 1000000000 * <int64_t>1000000:
            return refuse_item(t, DUE_TEXT, b"deliverAt")
        us *= 1000
    elif not time_parse(text, &us) or not time_has_zone(text):
        return refuse_item(t, DUE_TEXT, b"deliverAt")
    if us - now > DELAY_DAYS * 86400 * <int64_t>1000000:
        return refuse_item(t, DUE_TEXT, b"deliverAt")
    due[0] = us if us > now else 0
    return True
