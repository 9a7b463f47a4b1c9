# Encrypts answers. In: spans of plain bytes. Out: records, to the kernel. A span is encrypted where it lies; only short
# answers are joined into one record first. At most TLS_ROUND bytes are encrypted before the kernel is asked to take
# them. Further answers wait as plain bytes in their buffers until it has taken all records. So a client that stops
# reading costs TLS_OUTPUT bytes more than without TLS. Owner: the worker; no lock.

cdef enum:
    TLS_JOINED = 4096                 # shorter spans are joined: a record costs about as much as copying so much

cdef int tlswrite_try(Conn* c, const uv_buf_t* out, unsigned int n, size_t size) noexcept nogil:
    # Encrypts spans until the kernel does not take their records at once. Returns the plain bytes that were encrypted;
    # -1 if the connection is broken. Records that the kernel did not take are handed to the loop.
    cdef TlsSpans s
    cdef ssize_t k
    cdef int done = 0
    s.at = out
    s.n = n
    s.used = 0
    while s.n and not c.out_pending:
        k = tlswrite_round(c.tls, &s)
        if k < 0 or not tlswrite_send(c):
            return -1
        done += <int>k
    return done

cdef ssize_t tlswrite_round(Tls* t, TlsSpans* s) noexcept nogil:
    # Encrypts at most TLS_ROUND bytes, and a short record, into the worker's buffer. Returns the plain bytes, -1 if the
    # session is broken.
    cdef TlsRoom* room = t.worker.tls
    cdef const char* p
    cdef size_t done = 0
    cdef size_t k
    cdef size_t written = 0
    if t.phase != TLS_OPEN and t.phase != TLS_ENDED:
        return -1
    room.used = 0             # nothing of another connection
    ERR_clear_error()
    while s.n and done < TLS_ROUND:
        k = s.at.len - s.used
        if s.n > 1 and k < TLS_JOINED:
            p = room.joined
            k = tlswrite_join(room, s)
        else:
            p = s.at.base + s.used
            k = min(k, TLS_ROUND - done)
            tlswrite_skip(s, k)
        if k and SSL_write_ex(t.ssl, p, k, &written) != 1:
            t.phase = TLS_CLOSED
            return -1
        done += k
    return <ssize_t>done

cdef size_t tlswrite_join(TlsRoom* room, TlsSpans* s) noexcept nogil:
    # Copies short spans side by side, as many as a record holds. Returns their bytes.
    cdef size_t n = 0
    cdef size_t k
    while s.n:
        k = s.at.len - s.used
        if k >= TLS_JOINED or n + k > TLS_RECORD:
            break
        memcpy(room.joined + n, s.at.base + s.used, k)
        n += k
        tlswrite_skip(s, k)
    return n

cdef inline void tlswrite_skip(TlsSpans* s, size_t n) noexcept nogil:
    s.used += n
    if s.used == s.at.len:
        s.at += 1
        s.n -= 1
        s.used = 0

cdef bint tlswrite_send(Conn* c) noexcept nogil:
    # Sends the records in the worker's buffer, behind those that the kernel has not taken yet. Returns False if the
    # connection is broken.
    cdef TlsRoom* room = c.worker.tls
    cdef uv_buf_t out
    cdef Writing* x
    cdef Buf rest
    cdef int sent = 0
    out.base = room.output
    out.len = room.used
    room.used = 0
    if out.len == 0:
        return True
    if c.tcp.write_queue_size == 0:
        sent = uv_try_write(<uv_stream_t*>&c.tcp, &out, 1)
        if sent == UV_EAGAIN:
            sent = 0
        if sent < 0:
            return False
    out.base += sent
    out.len -= <size_t>sent
    if out.len == 0:
        return True
    x = output_new(c, out.len)
    buf_init(&rest)
    buf_put(&rest, out.base, out.len)
    if x == NULL or rest.failed:
        free(x)
        buf_free(&rest)
        return False
    out.base = rest.data
    output_adopt(x, &rest)
    x.untaken += sizeof(Writing)      # small records that are not taken may be many
    return output_hand(c, x, &out, 1)

cdef void tlswrite_last(Conn* c) noexcept nogil:
    # Sends what the session wrote at its end, if the kernel takes it at once and nothing waits before it.
    tlswrite_raw(c, c.worker.tls.output, c.worker.tls.used)
    c.worker.tls.used = 0

cdef void tlswrite_raw(Conn* c, const char* bytes, size_t n) noexcept nogil:
    # Sends bytes as they are, if the kernel takes them at once and nothing waits before them.
    cdef uv_buf_t out
    out.base = <char*>bytes
    out.len = n
    if n and not c.out_pending:
        uv_try_write(<uv_stream_t*>&c.tcp, &out, 1)

# ---- answers that wait -----------------------------------------------------------------------------------------------

cdef void tlswrite_queue(Tls* t, Writing* x, const uv_buf_t* out, unsigned int n) noexcept nogil:
    # Lets answers wait until the kernel has taken all records before them.
    memcpy(x.spans, out, n * sizeof(uv_buf_t))
    x.left.at = x.spans
    x.left.n = n
    x.left.used = 0
    link_append(<void**>&t.first, x)
    t.waiting += x.size

cdef bint tlswrite_next(Conn* c) noexcept nogil:
    # Goes on with answers that wait, as long as the kernel takes all records. Returns False if the connection is
    # broken.
    cdef Tls* t = c.tls
    cdef Writing* x = t.first
    cdef ssize_t k
    while x != NULL and c.tcp.write_queue_size == 0:
        k = tlswrite_round(t, &x.left)
        if k < 0:
            return False
        x.size -= <size_t>k
        t.waiting -= <size_t>k
        c.out_pending -= <size_t>k
        if x.left.n == 0:
            tlswrite_shift(t)
            output_free(x)
        if not tlswrite_send(c):
            return False
        x = t.first
    return True

cdef inline void tlswrite_shift(Tls* t) noexcept nogil:
    # Removes the first answers of the queue.
    t.first = t.first.next
    if t.first == NULL:
        t.last = NULL

cdef void tlswrite_drop(Tls* t) noexcept nogil:
    # Frees the answers that wait.
    cdef Writing* x = t.first
    while x != NULL:
        tlswrite_shift(t)
        output_free(x)
        x = t.first
