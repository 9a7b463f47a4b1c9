# Log lines: one JSON object per line. In: an event. Out: a line on standard error, in one write, so that threads never
# mix lines. Any thread. Owns the level, the hidden texts and the count of dropped lines. Locks: log_lock guards all.
# While standard error takes no bytes (a stopped pager, a frozen journal), lines are dropped and counted, and threads go
# on. The first line written again is preceded by their number.

cdef enum:
    LOG_LINE = 2048           # longer details are cut
    LOG_WRITE = 4096          # PIPE_BUF: a pipe that takes anything takes so much

cdef uv_mutex_t log_lock      # one thread writes at a time: another one cannot fill the room it saw
cdef int64_t log_dropped = 0  # lines, since the last that was written
uv_mutex_init(&log_lock)

cdef char* log_hidden = NULL        # texts that are never written, with line ends between them
cdef char log_threshold = b'i'     # first letter of the lowest level written

cdef const char* LOG_LEVELS = b"tdiwe"       # first letters of the levels, ascending

cdef void log_level_set(const char* level) noexcept nogil:
    # Sets the lowest level: trace, debug, info, warn or error. Must be called before the threads start.
    global log_threshold
    log_threshold = level[0]

cdef size_t log_escape(char* out, size_t room, const char* text) noexcept nogil:
    # Appends text as the inside of a JSON string; line ends (libpq's messages have them) become one blank.
    cdef size_t at = 0
    cdef size_t i = 0
    cdef char c
    cdef unsigned char lead
    cdef size_t n = strlen(text)
    while n and text[n - 1] == b'\n':
        n -= 1
    while i < n and at + 2 <= room:
        c = text[i]
        i += 1
        if c == b'"' or c == b'\\':
            out[at] = b'\\'
            at += 1
        elif 0 <= c <= c' ' or c == b'\x7f':
            if at and out[at - 1] == b' ':
                continue
            c = b' '
        out[at] = c
        at += 1
    # never ends inside a UTF-8 character, wherever the text was cut
    i = at
    while i and (<unsigned char>out[i - 1] & 0xc0) == 0x80:
        i -= 1
    if i and <unsigned char>out[i - 1] >= 0xc0:
        lead = <unsigned char>out[i - 1]
        if at < i + (3 if lead >= 0xf0 else 2 if lead >= 0xe0 else 1):
            at = i - 1
    return at

cdef void log_mask(char* text, bint cut) noexcept nogil:
    # Writes asterisks over hidden texts. cut: the text went on, and a hidden text may begin at its end.
    cdef Slice left = slice_lit(log_hidden)
    cdef Slice one
    cdef char* at
    while left.n:
        one = slice_cut(&left, b'\n')
        at = text
        while one.n:
            at = <char*>memmem(at, strlen(at), one.p, one.n)
            if at == NULL:
                break
            memset(at, b'*', one.n)
        if cut and one.n:
            at = text + strlen(text) - min(one.n - 1, strlen(text))
            while memcmp(at, one.p, strlen(at)) != 0:
                at += 1
            memset(at, b'*', strlen(at))

cdef bint log_takes(int wait_ms) noexcept nogil:
    # Returns True if standard error takes LOG_WRITE bytes within wait_ms, or if a write fails at once.
    cdef pollfd p
    p.fd = 2
    p.events = POLLOUT
    p.revents = 0
    cdef int found = poll(&p, 1, wait_ms)
    while found < 0 and errno == EINTR:
        found = poll(&p, 1, wait_ms)
    return found > 0

cdef bint log_put(const char* lines, size_t n, int wait_ms) noexcept nogil:
    # Writes whole lines, at most LOG_WRITE bytes. wait_ms: how long to wait for a reader. Returns False if standard
    # error takes no bytes.
    global log_dropped
    cdef char[128] note
    cdef char[32] now
    cdef bint takes
    uv_mutex_lock(&log_lock)
    takes = log_takes(wait_ms)
    if takes and log_dropped:
        clock_format(clock_wall_us(), 3, now)
        if write(2, note, <size_t>snprintf(
                note, sizeof(note), b'{"time":"%.24s","level":"warn","event":"log_lines_dropped","lines":%lld}\n', now,
                <long long>log_dropped)) >= 0:
            log_dropped = 0
        takes = log_takes(wait_ms)
    if takes and write(2, lines, n) < 0:
        pass                  # the error has no reader left
    uv_mutex_unlock(&log_lock)
    return takes

cdef void log_drop() noexcept nogil:
    # Counts a line that was not taken.
    global log_dropped
    uv_mutex_lock(&log_lock)
    log_dropped += 1
    uv_mutex_unlock(&log_lock)

cdef void log_line(const char* level, const char* event, const char* detail) noexcept nogil:
    # Logs an event. level: debug, info, warn, error. event: a word in snake case. detail: UTF-8 text for people, may be
    # NULL.
    cdef char[LOG_LINE] line
    cdef char[LOG_LINE] plain
    cdef size_t at = 0
    cdef int64_t now
    if strchr(LOG_LEVELS, level[0]) < strchr(LOG_LEVELS, log_threshold):
        return
    now = clock_wall_us()
    memcpy(line, b'{"time":"', 9)
    clock_format(now, 3, line + 9)
    at = 9 + 24
    at += <size_t>snprintf(line + at, LOG_LINE - at, b'","level":"%.8s","event":"%.64s"', level, event)
    if detail != NULL and log_hidden != NULL:
        log_mask(plain, snprintf(plain, sizeof(plain), b"%s", detail) >= <int>sizeof(plain))
        detail = plain
    if detail != NULL:
        memcpy(line + at, b',"detail":"', 11)
        at += 11
        at += log_escape(line + at, LOG_LINE - at - 4, detail)
        line[at] = b'"'
        at += 1
    line[at] = b'}'
    line[at + 1] = b'\n'
    if not log_put(line, at + 2, 0):
        log_drop()
