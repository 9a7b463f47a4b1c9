# What operators read: one JSON object per line on standard error, each in one write so that threads never mix lines.

cdef enum:
    LOG_LINE = 2048           # longer details are cut

cdef char* log_hidden = NULL        # texts that are never written, with line ends between them
cdef char log_threshold = b'i'     # first letter of the lowest level written

cdef inline int log_rank(char level) noexcept nogil:
    if level == b'd' or level == b't':
        return 0
    if level == b'i':
        return 1
    if level == b'w':
        return 2
    return 3

cdef void log_level_set(const char* level) noexcept nogil:
    # trace, debug, info, warn or error; before the threads start.
    global log_threshold
    log_threshold = level[0]

cdef size_t log_escape(char* out, size_t room, const char* text) noexcept nogil:
    # Appends text as the inside of a JSON string; line ends (libpq's messages have them) become one blank.
    cdef size_t at = 0
    cdef size_t i = 0
    cdef char c
    cdef size_t n = strlen(text)
    while n and text[n - 1] == b'\n':
        n -= 1
    while i < n and at + 2 <= room:
        c = text[i]
        i += 1
        if c == b'"' or c == b'\\':
            out[at] = b'\\'
            at += 1
        elif 0 <= c <= 32 or c == 127:
            if at and out[at - 1] == b' ':
                continue
            c = b' '
        out[at] = c
        at += 1
    while i < n and at and (<unsigned char>out[at - 1] & 0xc0) == 0x80:
        at -= 1               # never end inside a UTF-8 character: drop its tail
    if i < n and at and <unsigned char>out[at - 1] >= 0xc0:
        at -= 1
    return at

cdef void log_mask(char* text) noexcept nogil:
    # Writes marks over what is hidden.
    cdef const char* one = log_hidden
    cdef const char* end
    cdef char* at
    cdef size_t n
    while one != NULL and one[0]:
        end = strchr(one, b'\n')
        n = strlen(one) if end == NULL else end - one
        at = text
        while n:
            at = <char*>memmem(at, strlen(at), one, n)
            if at == NULL:
                break
            memset(at, b'*', n)
        one = end + 1 if end != NULL else NULL

cdef void log_line(const char* level, const char* event, const char* detail) noexcept nogil:
    # level: debug, info, warn, error. event: a word in snake case. detail: UTF-8 text for people, may be NULL.
    cdef char[LOG_LINE] line
    cdef char[LOG_LINE] plain
    cdef size_t at = 0
    cdef int64_t now
    if log_rank(level[0]) < log_rank(log_threshold):
        return
    now = clock_wall_us()
    memcpy(line, b'{"time":"', 9)
    clock_format(now, 3, line + 9)
    at = 9 + 24
    at += <size_t>snprintf(line + at, LOG_LINE - at, b'","level":"%.8s","event":"%.64s"', level, event)
    if detail != NULL and log_hidden != NULL:
        snprintf(plain, sizeof(plain), b"%s", detail)
        log_mask(plain)
        detail = plain
    if detail != NULL:
        memcpy(line + at, b',"detail":"', 11)
        at += 11
        at += log_escape(line + at, LOG_LINE - at - 4, detail)
        line[at] = b'"'
        at += 1
    line[at] = b'}'
    line[at + 1] = b'\n'
    if write(2, line, at + 2) < 0:
        pass                  # nobody is left to tell
