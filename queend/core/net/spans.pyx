# Spans of traces that producers began and sample: a push, the delivery of a message, an acknowledgment, a cycle. In: a
# traceparent. Out: records that the control plane fetches once a second and sends (service/tracing). A worker writes
# them into memory of its own, within a bound; where there is no room a span is dropped, and counted. Off by default.

cdef const char* SPAN_KEY = b'"traceparent":"'

cdef bint spans_open(Spans* s, int every) noexcept nogil:
    # every: one of so many traces, 0: none. False when memory ran out.
    uv_mutex_init(&s.lock)
    s.every = every
    if every == 0:
        return True
    s.all = <Span*>malloc(SPANS_MOST * sizeof(Span))
    s.spare = <Span*>malloc(SPANS_MOST * sizeof(Span))
    return s.all != NULL and s.spare != NULL

cdef void spans_close(Spans* s) noexcept nogil:
    free(s.all)
    free(s.spare)
    uv_mutex_destroy(&s.lock)

cdef inline int hex_digit(char c) noexcept nogil:
    return c - 48 if c <= b'9' else c - 87

cdef bint span_wanted(Spans* s, Slice parent) noexcept nogil:
    # Sampled by who began it, and one of those that are taken: the same traces at every daemon. parent: valid.
    cdef int i
    cdef uint32_t n = 0
    if not hex_digit(parent.p[54]) & 1:
        return False
    for i in range(27, 34):           # the last digits of the trace: those are random
        n = n * 16 + <uint32_t>hex_digit(parent.p[i + 1])
    return n % <uint32_t>s.every == 0

cdef Slice span_parent(Slice headers) noexcept nogil:
    # The traceparent among the headers of a record, which are a JSON object; p NULL: there is none.
    cdef const char* at = <const char*>memmem(headers.p, headers.n, SPAN_KEY, strlen(SPAN_KEY)) if headers.n else NULL
    cdef Slice found
    if at == NULL:
        return slice_of(NULL, 0)
    at += strlen(SPAN_KEY)
    if headers.p + headers.n - at < 55:
        return slice_of(NULL, 0)
    found = slice_of(at, 55)
    return found if traceparent_valid(found) else slice_of(NULL, 0)

cdef void span_text(char* to, size_t room, Slice s) noexcept nogil:
    # Cut before a character that does not fit; a NUL behind it.
    cdef size_t n = s.n
    if n > room - 1:
        n = room - 1
        while n and (<unsigned char>s.p[n] & 0xc0) == 0x80:
            n -= 1
    if n:
        memcpy(to, s.p, n)
    to[n] = 0

cdef void span_put(Worker* w, int kind, Slice parent, int64_t start_us, int status, int count, Slice queue,
                   Slice partition, Slice group, int64_t offset) noexcept nogil:
    # start_us: by the wall; it ends now. parent: a valid traceparent. offset: of a message, -1: of none.
    cdef Spans* s = &w.spans
    cdef Span* x
    if not span_wanted(s, parent):
        return
    uv_mutex_lock(&s.lock)
    if s.n == SPANS_MOST:
        w.counters.spans_dropped += 1
    else:
        x = &s.all[s.n]
        s.n += 1
        w.counters.spans += 1
        x.kind = <uint8_t>kind
        memcpy(x.trace, parent.p + 3, 32)
        memcpy(x.parent, parent.p + 36, 16)
        x.end_us = clock_wall_us()
        x.start_us = start_us if start_us < x.end_us else x.end_us
        x.status = status
        x.count = count
        x.offset = offset
        span_text(x.queue, sizeof(x.queue), queue)
        span_text(x.partition, sizeof(x.partition), partition)
        span_text(x.group, sizeof(x.group), group)
    uv_mutex_unlock(&s.lock)

cdef inline int64_t span_began(Request* r) noexcept nogil:
    # When the request was complete, by the wall.
    return clock_wall_us() - (clock_mono_us() - r.started_us)
