# Writes answers: all that are ready leave in one write per connection and turn of the loop. In: answers, in the order
# of their requests. Out: bytes, to the kernel. Bytes that the kernel does not take at once are handed to the loop, with
# their buffers (Writing). Owner: the worker; no lock.

cdef enum:
    WRITE_BUFS = 32           # answers in one write

cdef struct Writing:          # what the loop still has to write
    Writing* next             # with TLS: in the queue of what is to be encrypted (net/tlswrite)
    uv_write_t req
    Conn* conn
    size_t size
    int64_t untaken           # bytes in the budget
    int n
    Buf[WRITE_BUFS] bufs
    TlsSpans left             # with TLS: the plain bytes
    uv_buf_t[WRITE_BUFS] spans

cdef void output_flush_all(Worker* w) noexcept nogil:
    # Flushes all dirty connections. A flush may complete further requests of a connection, which may be answered at
    # once, so it repeats.
    cdef Conn* c
    while w.dirty != NULL:
        c = w.dirty
        w.dirty = c.next_dirty
        c.dirty = False
        if c.state != CONN_CLOSING:
            output_flush(c)

cdef void output_flush(Conn* c) noexcept nogil:
    if c.greedy:
        c.worker.counters.not_taken += 1
        conn_close(c)
        return
    if not output_answers(c) or c.feed != NULL and c.first is c.feed.r and not (service.flow(c) and output_answers(c)):
        conn_close(c)
        return
    if c.owes_continue and c.first == NULL and not c.out_pending:
        c.owes_continue = False
        if not output_write_text(c, b"HTTP/1.1 100 Continue\r\n\r\n", 25):
            conn_close(c)
            return
    if c.first == NULL and not c.out_pending and c.state < CONN_LINGER:
        if c.ended or (c.worker.stopping and c.reading == NULL and not conn_begun(c) and not conn_is_new(c)):
            conn_linger(c)
            return
    if c.paused and c.wait_next == NULL and not c.read_out and not conn_holds_back(c):
        conn_resume(c)
        if c.state == CONN_CLOSING:
            return
    conn_settle(c)

cdef inline bint output_answers(Conn* c) noexcept nogil:
    # Writes all answers that are ready and have their turn. Returns False if the connection is broken.
    while c.first != NULL and c.first.replied:
        if not output_write(c):
            return False
    return True

cdef bint output_write(Conn* c) noexcept nogil:
    # Writes the first run of ready answers. Returns False if the connection is broken.
    cdef uv_buf_t[WRITE_BUFS] out
    cdef Request* r = c.first
    cdef unsigned int n = 0
    cdef size_t size = 0
    cdef int sent
    while r != NULL and r.replied and n < WRITE_BUFS:
        if r.out.failed:
            return False
        out[n].base = r.out.data
        out[n].len = r.out.len
        size += r.out.len
        n += 1
        r = r.next
    sent = output_try(c, out, n, size)
    if sent < 0:
        return False
    if <size_t>sent < size and not output_write_later(c, n, <size_t>sent, size):
        return False
    while n:
        n -= 1
        r = c.first
        c.first = r.next
        c.owed -= 1
        request_close(r)
    if c.first == NULL:
        c.last = NULL
    return True

cdef inline int output_try(Conn* c, const uv_buf_t* out, unsigned int n, size_t size) noexcept nogil:
    # Returns the bytes the kernel takes at once, behind all earlier ones; -1 if the connection is broken.
    cdef int sent = 0
    if c.tls != NULL:
        sent = tlswrite_try(c, out, n, size)
    elif not c.out_pending:
        sent = uv_try_write(<uv_stream_t*>&c.tcp, out, n)
        if sent == UV_EAGAIN:
            sent = 0
    if sent < 0:
        return -1
    c.worker.counters.bytes_out += size
    return sent

cdef Writing* output_new(Conn* c, size_t size) noexcept nogil:
    # Returns a Writing for bytes that the kernel did not take, NULL if memory ran out.
    cdef Writing* x = <Writing*>malloc(sizeof(Writing))
    if x != NULL:
        x.conn = c
        x.req.data = x
        x.size = size
        x.n = 0
        x.untaken = 0
    return x

cdef inline void output_adopt(Writing* x, Buf* b) noexcept nogil:
    # Moves the buffer into x.
    x.untaken += budget_weight(b)
    x.bufs[x.n] = b[0]
    x.n += 1
    buf_init(b)

cdef bint output_write_later(Conn* c, unsigned int n, size_t sent, size_t size) noexcept nogil:
    # Hands the first n answers, without their first `sent` bytes, to the loop with their buffers.
    cdef uv_buf_t[WRITE_BUFS] out
    cdef Writing* x = output_new(c, size - sent)
    cdef Request* r = c.first
    cdef unsigned int i
    if x == NULL:
        return False
    for i in range(n):
        out[i].base = r.out.data
        out[i].len = r.out.len
        if sent:
            if sent >= out[i].len:
                sent -= out[i].len
                out[i].len = 0
            else:
                out[i].base += sent
                out[i].len -= sent
                sent = 0
        reply_out_whole(r)
        output_adopt(x, &r.out)
        r = r.next
    return output_queue(c, x, out, n)

cdef bint output_write_part(Conn* c, Buf* part) noexcept nogil:
    # Writes a part of an answer that goes on. The buffer is then empty or has moved to the loop. Returns False if the
    # connection is broken.
    cdef uv_buf_t out
    cdef int sent
    cdef Writing* x
    if part.failed:
        return False
    out.base = part.data
    out.len = part.len
    sent = output_try(c, &out, 1, part.len)
    if sent < 0:
        return False
    if <size_t>sent == part.len:
        buf_clear(part)
        return True
    x = output_new(c, part.len - <size_t>sent)
    if x == NULL:
        return False
    output_adopt(x, part)
    out.base += sent
    out.len -= <size_t>sent
    return output_queue(c, x, &out, 1)

cdef bint output_queue(Conn* c, Writing* x, const uv_buf_t* out, unsigned int n) noexcept nogil:
    # Hands buffers to the loop, which calls output_on_written, or with TLS to the queue of what is to be encrypted.
    c.handed += <int64_t>x.size
    if c.tls == NULL:
        return output_hand(c, x, out, n)
    output_count(c, x)
    tlswrite_queue(c.tls, x, out, n)
    return True

cdef inline void output_count(Conn* c, Writing* x) noexcept nogil:
    c.out_pending += x.size
    budget_add_unsent(c.worker, c, x.untaken)

cdef bint output_hand(Conn* c, Writing* x, const uv_buf_t* out, unsigned int n) noexcept nogil:
    # Has the loop write the bytes. Returns False if the connection is broken.
    output_count(c, x)
    if uv_write(&x.req, <uv_stream_t*>&c.tcp, out, n, output_on_written) != 0:
        output_free(x)
        return False
    return True

cdef bint output_write_text(Conn* c, const char* text, size_t n) noexcept nogil:
    # Writes a few bytes between answers. Returns False if the kernel does not take all: the connection counts as
    # broken.
    cdef uv_buf_t out
    out.base = <char*>text
    out.len = n
    if c.tls != NULL:
        return tlswrite_try(c, &out, 1, n) == <int>n and not c.out_pending
    return uv_try_write(<uv_stream_t*>&c.tcp, &out, 1) == <int>n

cdef inline size_t output_unsent(Conn* c) noexcept nogil:
    # Returns the bytes that the kernel has not taken.
    return c.tcp.write_queue_size + (c.tls.waiting if c.tls != NULL else 0)

cdef void output_free(Writing* x) noexcept nogil:
    cdef int i
    x.conn.out_pending -= x.size
    budget_add_unsent(x.conn.worker, x.conn, -x.untaken)
    for i in range(x.n):
        arena_free_block(&x.conn.worker.chunks, x.bufs[i].data, x.bufs[i].cap)
    free(x)

cdef void output_on_written(uv_write_t* req, int status) noexcept nogil:
    cdef Writing* x = <Writing*>req.data
    cdef Conn* c = x.conn
    output_free(x)
    if c.state == CONN_CLOSING:
        return
    if status < 0 or c.tls != NULL and not tlswrite_next(c):
        conn_close(c)
        return
    conn_dirty(c)
