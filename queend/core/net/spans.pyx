# Records spans of sampled traces: a push, the delivery of a message, an acknowledgment, a cycle. In: a traceparent.
# Out: records that the control plane fetches once a second and sends (services/tracing). Owns a bounded buffer per
# worker, under its lock; a span without room is dropped and counted. Off by default.

cdef const char* SPAN_KEY = b'"traceparent":"'

cdef bint spans_open(Spans* s, int every) noexcept nogil:
    # Opens the buffers. every: one of so many traces, 0: none. Returns False if memory ran out.
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

cdef bint span_wanted(Spans* s, Slice parent) noexcept nogil:
    # Returns True if the producer samples the trace and it is one of every `every`: the same traces at every daemon.
    # parent: valid.
    cdef int i
    cdef uint32_t n = 0
    if not slice_hex(<unsigned char>parent.p[54]) & 1:
        return False
    for i in range(27, 34):           # the last digits of the trace, which are random
        n = n * 16 + <uint32_t>slice_hex(<unsigned char>parent.p[i + 1])
    return n % <uint32_t>s.every == 0

cdef Slice span_parent(Slice headers) noexcept nogil:
    # Returns the traceparent in the headers of a record, a JSON object. p is NULL if there is none.
    cdef const char* at = <const char*>memmem(headers.p, headers.n, SPAN_KEY, strlen(SPAN_KEY)) if headers.n else NULL
    cdef Slice found
    if at == NULL:
        return slice_of(NULL, 0)
    at += strlen(SPAN_KEY)
    if headers.p + headers.n - at < 55:
        return slice_of(NULL, 0)
    found = slice_of(at, 55)
    return found if trace_parent_valid(found) else slice_of(NULL, 0)

cdef void span_text(char* to, size_t room, Slice s) noexcept nogil:
    # Copies a text with a NUL behind it, cut before a character that does not fit.
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
    # Adds a span that ends now. start_us: wall time. parent: a valid traceparent. offset: of a message, else -1.
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
    # Returns the wall time at which the request was complete.
    return clock_wall_us() - (clock_mono_us() - r.started_us)
