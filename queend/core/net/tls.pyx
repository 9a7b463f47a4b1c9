# A connection's TLS session. In: encrypted bytes of the socket. Out: plain bytes, to net/connection, which reads them
# as those of a plain connection; whom the client's certificate names. Owns Tls (each its connection's) and TlsRoom
# (each its worker's). OpenSSL does no I/O: it reads the bytes of the last read and writes to a buffer that net/tlswrite
# sends. All runs on the worker's thread. Locks: tlscontext.lock, for new sessions and for the count of failed
# handshakes.

cdef enum:
    TLS_TURN_US = 5000        # time for handshakes in a turn; an RSA signature of 4096 bits takes 4 ms
    TLS_TOLD_US = 60000000    # at most one line about failed handshakes in this time
    TLS_HANDSHAKE = 22        # first byte of a record of a handshake

# A fatal alert, internal_error: for a client that is refused without OpenSSL.
cdef const char* TLS_REFUSED = b"\x15\x03\x03\x00\x02\x02\x50"
cdef enum:
    TLS_REFUSED_SIZE = 7

cdef const char* TLS_PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
    b"Connection: close\r\n"
    b"Content-Length: 53\r\n\r\n"
    b'{"error":"This port speaks TLS; use an https:// URL"}')

# ---- buffers of a worker, sessions -----------------------------------------------------------------------------------

cdef bint tls_room_open(Worker* w) noexcept nogil:
    # Makes the worker's buffers if the port speaks TLS. Returns False if memory ran out.
    if tlscontext.on:
        w.tls = <TlsRoom*>calloc(1, sizeof(TlsRoom))
    return w.tls != NULL or not tlscontext.on

cdef bint tls_open(Worker* w, Conn* c) noexcept nogil:
    # Makes the connection one of TLS; tls_free undoes it. Returns False if memory ran out. OpenSSL's part of the
    # session follows with the client's first bytes (tls_begin).
    c.tls = <Tls*>calloc(1, sizeof(Tls))
    if c.tls == NULL:
        return False
    c.tls.worker = w
    return True

cdef bint tls_begin(Tls* t) noexcept nogil:
    # Makes OpenSSL's part of the session. Returns False if memory ran out.
    cdef BIO* b
    t.ssl = tlscontext_session()
    b = BIO_new(tlscontext.method) if t.ssl != NULL else NULL
    if b == NULL:
        ERR_clear_error()
        return False
    BIO_set_data(b, t)
    BIO_set_init(b, 1)
    SSL_set_bio(t.ssl, b, b)
    SSL_set_accept_state(t.ssl)
    return True

cdef void tls_free(Conn* c) noexcept nogil:
    # Frees the connection's session, if it has one, with the answers that wait in it.
    if c.tls == NULL:
        return
    tlswrite_drop(c.tls)
    SSL_free(c.tls.ssl)
    free(<void*>c.tls.subject.p)
    free(c.tls)
    c.tls = NULL

cdef void tls_end(Conn* c) noexcept nogil:
    # Ends the session: sends close_notify, unless the session has failed or bytes wait before it.
    cdef Tls* t = c.tls
    t.worker.tls.used = 0
    if t.phase == TLS_OPEN or t.phase == TLS_ENDED:
        ERR_clear_error()
        SSL_shutdown(t.ssl)
        tlswrite_last(c)
    t.phase = TLS_CLOSED

cdef inline bint tls_incomplete(const Tls* t) noexcept nogil:
    # Returns True if a handshake or a record has begun and is incomplete.
    return t.record_left or t.header_got or t.begun and t.phase == TLS_SHAKING

cdef inline int64_t tls_holds(const Tls* t) noexcept nogil:
    # Returns about how many bytes the session holds for what is incomplete.
    if not tls_incomplete(t):
        return 0
    return TLS_SHAKING_BYTES if t.phase == TLS_SHAKING else TLS_RECORD_MOST

# ---- OpenSSL's view of the socket ------------------------------------------------------------------------------------

cdef BIO_METHOD* tls_method() noexcept nogil:
    # Returns the method of the BIO, NULL if memory ran out. One for the process, made before the threads start.
    cdef BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, b"queend")
    if m != NULL:
        BIO_meth_set_read(m, tls_bio_read)
        BIO_meth_set_write(m, tls_bio_write)
        BIO_meth_set_ctrl(m, tls_bio_ctrl)
    return m

cdef int tls_bio_read(BIO* b, char* out, int n) noexcept nogil:
    # Gives OpenSSL bytes of the last read. It asks for a header, then for the rest of that record.
    cdef Tls* t = <Tls*>BIO_get_data(b)
    cdef TlsRoom* room = t.worker.tls
    BIO_clear_retry_flags(b)
    if room.left == 0:
        BIO_set_retry_read(b)
        return -1
    if <size_t>n > room.left:
        n = <int>room.left
    if not tls_frame(t, room.at, n):
        t.too_large = True
        return -1             # the handshake fails
    if t.silent > TLS_SILENT_MOST:
        return -1             # the session fails
    memcpy(out, room.at, n)
    room.at += n
    room.left -= n
    return n

cdef bint tls_frame(Tls* t, const char* p, int n) noexcept nogil:
    # Notes how much of the current record is still to come. Returns False if a message of the handshake is too large.
    cdef int k
    while n:
        if t.record_left:
            k = min(n, t.record_left)
            t.record_left -= k
            if t.phase == TLS_SHAKING and t.header[0] == TLS_HANDSHAKE and not tls_message(t, p, k):
                return False
        else:
            k = min(n, 5 - t.header_got)
            memcpy(t.header + t.header_got, p, k)
            t.header_got += k
            if t.header_got == 5:
                t.header_got = 0
                t.record_left = t.header[3] << 8 | t.header[4]
                if t.phase == TLS_OPEN:
                    t.silent += 1
        p += k
        n -= k
    return True

cdef bint tls_message(Tls* t, const char* p, int n) noexcept nogil:
    # Notes how much of the current plain message is still to come. Returns False if it is too large: OpenSSL makes
    # room for 128 KiB of a ClientHello once its length has come. After the ClientHello, the messages of TLS 1.2 have
    # lower bounds.
    cdef int k
    if SSL_version(t.ssl) == TLS1_2_VERSION:
        return True
    while n:
        if t.message_left:
            k = min(n, t.message_left)
            t.message_left -= k
        else:
            k = 1
            t.message[t.message_got] = p[0]
            t.message_got += 1
            if t.message_got == 4:
                t.message_got = 0
                t.message_left = t.message[1] << 16 | t.message[2] << 8 | t.message[3]
                if t.message_left > TLS_MESSAGE_MOST:
                    return False
        p += k
        n -= k
    return True

cdef int tls_bio_write(BIO* b, const char* p, int n) noexcept nogil:
    # Takes encrypted bytes of OpenSSL. There is room for a round of answers (TLS_OUTPUT). The session fails
    # if it makes more by itself for one read. That needs a client that asks for thousands of new keys.
    cdef TlsRoom* room = (<Tls*>BIO_get_data(b)).worker.tls
    BIO_clear_retry_flags(b)
    if room.used + n > TLS_OUTPUT:
        return -1
    memcpy(room.output + room.used, p, n)
    room.used += n
    return n

cdef long tls_bio_ctrl(BIO* b, int what, long n, void* p) noexcept nogil:
    return what == BIO_CTRL_FLUSH

# ---- reading ---------------------------------------------------------------------------------------------------------
# One read of the socket is decrypted at once. Only an incomplete record stays in the session; it counts in the budget
# of incomplete requests and has the time of a head.

cdef void tls_on_alloc(uv_handle_t* handle, size_t suggested, uv_buf_t* buf) noexcept nogil:
    # A length of 0: this turn has read enough, or has done enough handshakes; conn_on_read then gets UV_ENOBUFS.
    cdef Conn* c = <Conn*>handle.data
    buf.base = c.worker.tls.input
    if c.tls.phase == TLS_SHAKING:
        buf.len = TLS_RECORD if tls_may_shake(c) else 0
    elif c.large and c.mode == READ_HEAD:
        buf.len = conn_read_most(c, TLS_RECORD_MOST)     # the rest is decrypted to the place of its body
    else:
        # with the rest of an incomplete record, the plain bytes fit into the worker's input
        buf.len = conn_read_most(c, INPUT_SIZE - TLS_RECORD_MOST)

cdef void tls_on_read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buf) noexcept nogil:
    cdef Conn* c = <Conn*>stream.data
    cdef Tls* t = c.tls
    cdef TlsRoom* room = c.worker.tls
    cdef uint64_t* bytes_in = &c.worker.counters.bytes_in
    cdef uint64_t before = bytes_in[0]
    cdef int pieces = c.worker.turn_pieces
    if got < 0 and got != UV_ENOBUFS:
        tls_left(c)
    if got == UV_ENOBUFS and t.phase == TLS_SHAKING:
        tls_wait(c)
        return
    if got <= 0 or c.state >= CONN_LINGER:
        conn_on_read(stream, got, buf)
        return
    if t.phase >= TLS_ENDED or t.deaf:
        bytes_in[0] += <size_t>got
        return
    room.at = buf.base
    room.left = <size_t>got
    room.used = 0             # nothing of another connection
    t.silent = 0
    ERR_clear_error()
    if t.phase == TLS_OPEN or tls_shake(c):
        tls_take(c)
    room.left = 0
    # A turn is bounded by the bytes of the socket: short records cost more than their plain bytes tell.
    t.uncounted += got - <int64_t>(bytes_in[0] - before)
    if t.uncounted > 0:
        bytes_in[0] += <uint64_t>t.uncounted
        t.uncounted = 0
    if c.state >= CONN_LINGER:
        return
    if not tlswrite_send(c):  # what the session answered by itself: its handshake, tickets, new keys
        tls_left(c)
        conn_close(c)
        return
    if t.phase == TLS_ENDED:
        if not c.paused:
            conn_on_eof(c)
            return
        if not c.half:
            conn_half_closed(c)   # conn_on_eof follows the requests that are held back (conn_resume)
    if c.mode != READ_NOTHING and (c.arriving or c.head.cap > ARRIVING_FREE or tls_incomplete(t)):
        budget_account(c)
    if c.state < CONN_LINGER and conn_output_full(c):
        conn_pause(c)
    if (c.state < CONN_LINGER and not c.paused and t.phase == TLS_OPEN and tls_incomplete(t)
            and c.worker.turn_pieces == pieces):
        conn_read_piece(c)    # of a record
    conn_settle(c)

cdef void tls_take(Conn* c) noexcept nogil:
    # Decrypts the bytes of a read, piece by piece, each to the place where the connection wants it. Keeps the rest once
    # the connection is paused. Sends the session's own records, such as new keys, before other code runs.
    cdef Tls* t = c.tls
    cdef uv_buf_t place
    cdef size_t n
    while c.state < CONN_LINGER:
        if c.mode == READ_NOTHING:
            tls_drain(c)
            break
        if c.paused and c.mode != READ_FIXED:
            tls_keep(c)
            break
        conn_place(c, &place)
        n = tls_decrypt(t, place.base, place.len)
        if not tlswrite_send(c):
            conn_close(c)
            return
        if n:
            conn_on_read(<uv_stream_t*>&c.tcp, <ssize_t>n, &place)
        if n < place.len:
            break
    if t.phase == TLS_CLOSED and c.state < CONN_LINGER:
        tlswrite_last(c)      # the alert
        conn_close(c)

cdef void tls_keep(Conn* c) noexcept nogil:
    # Keeps what has come for the time when the connection goes on (conn_resume).
    cdef size_t room = c.worker.tls.left + <size_t>SSL_pending(c.tls.ssl)
    cdef size_t n
    if room == 0:
        return
    if not buf_room(&c.head, room):
        conn_close(c)
        return
    n = tls_decrypt(c.tls, c.head.data + c.head.len, room)
    c.head.len += n
    c.worker.counters.bytes_in += n

cdef void tls_drain(Conn* c) noexcept nogil:
    # Decrypts and drops what comes after the last request: close_notify ends the client's side, and new keys are
    # answered. An incomplete record counts in the budget of incomplete requests. If that is full, the client is not
    # heard any more, but still gets its answers.
    cdef Tls* t = c.tls
    cdef int64_t more = TLS_RECORD_MOST - c.arriving
    if more > 0 and not budget_take(more, atomic_get64(&c.address.client.arriving) + more):
        t.deaf = True
        t.record_left = t.header_got = 0
        return
    while tls_decrypt(t, c.worker.input, INPUT_SIZE) == INPUT_SIZE:
        pass
    if more > 0:
        budget_set_share(&c.arriving, &c.address.client.arriving, TLS_RECORD_MOST)
    if not tls_incomplete(t):
        budget_give(c.arriving)
        budget_set_share(&c.arriving, &c.address.client.arriving, 0)

cdef size_t tls_decrypt(Tls* t, char* out, size_t room) noexcept nogil:
    # Returns the plain bytes, less than `room` if there are no more; then the phase tells whether the session goes on.
    cdef size_t n = 0
    cdef size_t got = 0
    cdef int error
    while n < room and (t.worker.tls.left or SSL_pending(t.ssl)):
        ERR_clear_error()     # of others: SSL_get_error would blame the session
        if SSL_read_ex(t.ssl, out + n, room - n, &got) == 1:
            t.silent -= t.silent > 0      # it has data
            n += got
            continue
        error = SSL_get_error(t.ssl, 0)
        if error == SSL_ERROR_ZERO_RETURN:
            t.phase = TLS_ENDED
            t.record_left = 0
            t.header_got = 0
        elif error != SSL_ERROR_WANT_READ:
            t.phase = TLS_CLOSED
        break
    return n

# ---- handshake -------------------------------------------------------------------------------------------------------

cdef bint tls_shake(Conn* c) noexcept nogil:
    # Goes on with the handshake. Returns True once it is complete. A failed one ends the connection.
    cdef Tls* t = c.tls
    cdef Worker* w = c.worker
    cdef int64_t began, took
    cdef int error
    t.waited = False
    if not t.begun:
        t.begun = True
        if w.tls.at[0] != TLS_HANDSHAKE:
            tls_refuse_other(c, b'A' <= w.tls.at[0] <= b'Z')
            return False
        budget_account(c)     # closes the connection if there is no room
        if c.state >= CONN_LINGER:
            return False
        if not tls_begin(t):
            tls_failed(c, b"out of memory")
            conn_close(c)
            return False
    began = clock_mono_us()
    error = SSL_get_error(t.ssl, SSL_do_handshake(t.ssl))
    took = clock_mono_us() - began
    w.turn_shake_us += took
    w.shake_us += (took - w.shake_us) // 8 if w.shake_us else took
    if error == SSL_ERROR_NONE:
        t.phase = TLS_OPEN
        w.counters.tls_handshakes += 1
        w.counters.tls_resumed += SSL_session_reused(t.ssl) == 1
        if not tls_identify(t):
            tls_failed(c, b"the names of the certificate could not be read")
            conn_close(c)
            return False
        return True
    if error == SSL_ERROR_WANT_READ:
        return False
    if t.too_large:
        ERR_clear_error()
        tls_failed(c, b"a message of the handshake is larger than 16 KiB")
        tlswrite_raw(c, TLS_REFUSED, TLS_REFUSED_SIZE)
    else:
        tls_failed(c, tls_reason(t))
        tlswrite_last(c)      # the alert
    t.phase = TLS_CLOSED
    conn_linger(c)
    return False

# Handshakes of a turn have TLS_TURN_US; then those that go on wait for later turns, in order. New ones go behind them.

cdef inline bint tls_may_shake(const Conn* c) noexcept nogil:
    cdef const Worker* w = c.worker
    return w.turn_shake_us < TLS_TURN_US and (c.tls.waited or w.waits_shakes.first == NULL)

cdef inline void tls_wait(Conn* c) noexcept nogil:
    # One whose turn had no time left goes before the others.
    if c.tls.waited:
        worker_waits_put(c, &c.worker.waits_shakes)
    else:
        worker_waits_add(c, &c.worker.waits_shakes)
    c.tls.waited = True
    c.in_pieces = True        # its time goes on
    conn_pause(c)

cdef inline int tls_turn_shakes(const Worker* w) noexcept nogil:
    # Returns how many of the handshakes that wait go on in this turn.
    return <int>max(1, TLS_TURN_US // max(w.shake_us, 100))

cdef void tls_refuse_other(Conn* c, bint plain) noexcept nogil:
    # Refuses a client that speaks another protocol. plain: it seems to be HTTP, and is answered in plain text.
    if plain:
        tls_failed(c, b"the client speaks plain HTTP")
        tlswrite_raw(c, TLS_PLAIN, strlen(TLS_PLAIN))
    else:
        tls_failed(c, b"the client speaks another protocol")
    c.tls.phase = TLS_CLOSED
    conn_linger(c)

cdef const char* tls_reason(Tls* t) noexcept nogil:
    # Returns why the handshake failed. Empties OpenSSL's list of errors.
    cdef unsigned long error = ERR_peek_error()
    cdef const char* reason = ERR_reason_error_string(error)
    if error and ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED:
        reason = X509_verify_cert_error_string(SSL_get_verify_result(t.ssl))
    if reason == NULL:
        reason = b"unknown reason"
    ERR_clear_error()
    return reason

cdef inline void tls_left(Conn* c) noexcept nogil:
    # Counts a client that left during its handshake.
    if c.tls.phase == TLS_SHAKING and c.tls.begun:
        tls_failed(c, b"the client left during the handshake")

cdef void tls_failed(Conn* c, const char* reason) noexcept nogil:
    # Counts a failed handshake. Logs one of them in TLS_TOLD_US, with the number of all since the line before.
    cdef char[64] client
    cdef char[320] text
    cdef int64_t now = clock_mono_us()
    cdef int64_t number = 0
    c.worker.counters.tls_failed += 1
    uv_mutex_lock(&tlscontext.lock)
    tlscontext.not_told += 1
    if tlscontext.told_us == 0 or now - tlscontext.told_us > TLS_TOLD_US:
        tlscontext.told_us = now
        number = tlscontext.not_told
        tlscontext.not_told = 0
    uv_mutex_unlock(&tlscontext.lock)
    if number:
        conn_name(c, client, sizeof(client))
        snprintf(text, sizeof(text), b"%s: %s; failed handshakes since the last such line: %lld", client, reason,
                 <long long>number)
        log_line(b"warn", b"tls_handshake_failed", text)

# ---- identity --------------------------------------------------------------------------------------------------------

cdef bint tls_identify(Tls* t) noexcept nogil:
    # Notes whom the client's verified certificate names. Takes the first URI among its alternative names, else the
    # first DNS name or mail address, in this order. Takes the common name if there are none. Skips names longer than
    # TLS_SUBJECT bytes, and those with control characters. Returns False if memory ran out, or the alternative names
    # are malformed.
    cdef X509* x = SSL_get0_peer_certificate(t.ssl)
    cdef GENERAL_NAMES* names
    cdef int[3] kinds = [GEN_URI, GEN_DNS, GEN_EMAIL]
    cdef int found = 0
    cdef int i
    cdef bint good = True
    if x == NULL or SSL_get_verify_result(t.ssl) != X509_V_OK:
        return True
    names = <GENERAL_NAMES*>X509_get_ext_d2i(x, NID_subject_alt_name, &found, NULL)
    if names == NULL and found != TLS_NOT_THERE:
        return False          # the common name may be another one's
    for i in range(3):
        if good and t.subject.p == NULL:
            good = tls_identify_by(t, names, kinds[i])
    GENERAL_NAMES_free(names)
    return good and (t.subject.p != NULL or tls_identify_common(t, x))

cdef bint tls_identify_by(Tls* t, GENERAL_NAMES* names, int kind) noexcept nogil:
    # Takes the first name of the kind.
    cdef ASN1_STRING* text
    cdef int found = 0
    cdef int i
    for i in range(sk_GENERAL_NAME_num(names) if names != NULL else 0):
        text = <ASN1_STRING*>GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &found)
        if found == kind and tls_is_name(ASN1_STRING_get0_data(text), ASN1_STRING_length(text), 0x7f):
            return tls_take_name(t, ASN1_STRING_get0_data(text), ASN1_STRING_length(text))
    return True

cdef bint tls_identify_common(Tls* t, X509* x) noexcept nogil:
    cdef X509_NAME* name = X509_get_subject_name(x)
    cdef int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1)
    cdef unsigned char* text = NULL
    cdef int n
    cdef bint good = True
    if at < 0:
        return True
    n = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)))
    if n > 0 and tls_is_name(text, n, 0x100):
        good = tls_take_name(t, text, n)
    OPENSSL_free(text)
    return good

cdef bint tls_is_name(const unsigned char* p, int n, int below) noexcept nogil:
    # Returns True for text without control characters whose bytes are below a number.
    cdef int i
    for i in range(n):
        if p[i] < c' ' or p[i] == 0x7f or p[i] >= below:
            return False
    return 0 < n <= TLS_SUBJECT

cdef bint tls_take_name(Tls* t, const unsigned char* p, int n) noexcept nogil:
    cdef char* copy = <char*>malloc(<size_t>n)
    if copy == NULL:
        return False
    memcpy(copy, p, <size_t>n)
    t.subject = slice_of(copy, <size_t>n)
    return True

cdef bint tls_name_request(Request* r) noexcept nogil:
    # Copies whom the client's certificate names to the request, which may outlive its connection. Returns False if
    # memory ran out.
    cdef Tls* t = r.conn.tls
    if t.subject.n == 0:
        return True
    r.subject = arena_copy(&r.arena, t.subject)
    return r.subject.p != NULL
