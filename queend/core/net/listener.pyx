# Accepts connections from a listening socket on a loop. In: a descriptor. Out: connections, to the workers in turn
# (acceptor) or to the loop's own worker (reuseport). Owns its descriptors; runs on its loop's thread, without locks.
# Sockets that systemd has bound may be several; closing them here leaves them open in systemd.

cdef enum:
    ACCEPT_RUN = 64           # connections taken in one turn
    ACCEPT_PAUSE_MS = 100     # when the process has no descriptor left

cdef const char* TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
    b"Retry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 41\r\n\r\n"
    b'{"error":"Too many connections are open"}')
cdef const char* TOO_MANY_OF_ONE = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
    b"Retry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 57\r\n\r\n"
    b'{"error":"Too many connections of this address are open"}')

cdef struct FdMsg:
    InboxMsg msg
    int fd
    ClientAddress* address    # of the client

cdef void listener_why(const char* host, int port, int code, char* reason, size_t size) noexcept nogil:
    # Writes which setting is wrong, and why.
    cdef const char* where = b"*"
    if host[0]:
        where = host
    if code == EADDRNOTAVAIL:
        snprintf(reason, size, b"HOST: %.100s is no address of this machine: %s", where, strerror(code))
    elif code == EADDRINUSE:
        snprintf(reason, size, b"PORT: %.100s port %d is taken: %s", where, port, strerror(code))
    elif code == EACCES:
        snprintf(reason, size, b"PORT: %.100s port %d needs a right that this account lacks: %s", where, port,
                 strerror(code))
    else:
        snprintf(reason, size, b"HOST and PORT: cannot serve on %.100s port %d: %s", where, port, strerror(code))

cdef int listener_bind(const char* host, int port, bint reuseport, int backlog, char* reason,
                       size_t size) noexcept nogil:
    # Returns a listening descriptor, or -1 and the reason. Host "" is every address of both families the system has.
    cdef addrinfo hints
    cdef addrinfo* found = NULL
    cdef addrinfo* a
    cdef char[16] number
    cdef int one = 1
    cdef int zero = 0
    cdef int fd = -1
    cdef int code
    memset(&hints, 0, sizeof(hints))
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = SOCK_STREAM
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
    snprintf(number, sizeof(number), b"%d", port)
    code = getaddrinfo(host if host[0] else NULL, number, &hints, &found)
    if code != 0:
        snprintf(reason, size, b"HOST: %.100s is no address of this machine: %s", host, gai_strerror(code))
        return -1
    a = found
    if not host[0]:
        while a != NULL and a.ai_family != AF_INET6:
            a = a.ai_next
        if a == NULL:
            a = found
    while a != NULL and fd < 0:
        fd = socket(a.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
        if fd >= 0:
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one))
            if reuseport:
                setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one))
            if a.ai_family == AF_INET6 and not host[0]:
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero))
            if bind(fd, a.ai_addr, a.ai_addrlen) != 0 or listen(fd, backlog) != 0:
                listener_why(host, port, errno, reason, size)
                close(fd)
                fd = -1
        else:
            listener_why(host, port, errno, reason, size)
        a = a.ai_next
    freeaddrinfo(found)
    return fd

cdef bint listener_name(int fd, char* out, size_t size, int* port) noexcept nogil:
    # Writes the socket's address, in brackets where a URL has them, and its port. Returns True if only this machine can
    # reach it.
    cdef sockaddr_storage address
    cdef char[48] text
    cdef socklen_t n = sizeof(address)
    out[0] = 0
    if getsockname(fd, <sockaddr*>&address, &n) != 0 or uv_ip_name(<sockaddr*>&address, text, sizeof(text)) != 0:
        return False
    port[0] = conn_port(&address)
    snprintf(out, size, b"[%s]" if address.ss_family == AF_INET6 else b"%s", text)
    return strncmp(text, b"127.", 4) == 0 or strcmp(text, b"::1") == 0 or strncmp(text, b"::ffff:127.", 11) == 0

cdef Listener* listener_new(Process* process, Worker* worker, int fd, Listener* next_) noexcept nogil:
    # Creates a listener that owns fd, in front of the others of its loop. The caller frees it with listener_free.
    cdef Listener* l = <Listener*>calloc(1, sizeof(Listener))
    if l == NULL:
        close(fd)
        return NULL
    l.process = process
    l.worker = worker
    l.fd = fd
    l.next = next_
    return l

cdef void listener_free(Listener* l) noexcept nogil:
    # Frees the listener and those behind it, after their loop has ended.
    cdef Listener* following
    while l != NULL:
        following = l.next
        if l.fd >= 0:
            close(l.fd)
        free(l)
        l = following

cdef void listener_start(Listener* l, uv_loop_t* loop) noexcept nogil:
    # Starts the listener and those behind it.
    while l != NULL:
        l.loop = loop
        uv_timer_init(loop, &l.timer)
        l.timer.data = l
        uv_poll_init(loop, &l.poll, l.fd)
        l.poll.data = l
        uv_poll_start(&l.poll, UV_READABLE, listener_on_ready)
        l.running = True
        l = l.next

cdef void listener_stop(Listener* l) noexcept nogil:
    # Stops the listener and those behind it, on their loop. A second call does nothing. The port is free when the
    # handles are closed.
    while l != NULL and l.running:
        l.running = False
        uv_poll_stop(&l.poll)
        uv_close(<uv_handle_t*>&l.poll, NULL)
        uv_close(<uv_handle_t*>&l.timer, NULL)
        close(l.fd)
        l.fd = -1
        l = l.next

cdef void listener_on_ready(uv_poll_t* handle, int status, int events) noexcept nogil:
    cdef Listener* l = <Listener*>handle.data
    cdef sockaddr_storage address
    cdef socklen_t size
    cdef int i
    cdef int fd
    for i in range(ACCEPT_RUN):
        size = sizeof(address)
        fd = accept4(l.fd, <sockaddr*>&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)
        if fd >= 0:
            listener_admit(l, fd, budget_key(&address))
        elif errno == EAGAIN:
            return
        elif errno == EMFILE or errno == ENFILE or errno == ENOBUFS or errno == ENOMEM:
            # the waiting connection stays readable: without a pause this would spin
            log_line(b"error", b"accept_paused", strerror(errno))
            uv_poll_stop(&l.poll)
            uv_timer_start(&l.timer, listener_on_timer, ACCEPT_PAUSE_MS, 0)
            return

cdef void listener_on_timer(uv_timer_t* handle) noexcept nogil:
    cdef Listener* l = <Listener*>handle.data
    uv_poll_start(&l.poll, UV_READABLE, listener_on_ready)

cdef void listener_admit(Listener* l, int fd, uint64_t key) noexcept nogil:
    # Admits an accepted socket, or refuses it beyond the bound: before its request is read, without a loop, memory or a
    # wait.
    cdef ClientAddress* address = NULL
    cdef int outcome = budget_admit(key, &address)
    cdef const char* answer = TOO_MANY if outcome == CROWDED else TOO_MANY_OF_ONE
    if outcome == ADMITTED:
        listener_give(l, fd, address)
        return
    if tlscontext.on:
        send(fd, TLS_REFUSED, TLS_REFUSED_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL)
    else:
        send(fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL)
    shutdown(fd, SHUT_WR)
    close(fd)

cdef void listener_drop(int fd, ClientAddress* address) noexcept nogil:
    # Closes an admitted socket that no connection takes over.
    close(fd)
    budget_leave(address)

cdef void listener_give(Listener* l, int fd, ClientAddress* address) noexcept nogil:
    cdef FdMsg* m
    if l.worker != NULL:
        conn_open(l.worker, fd, address)
        return
    m = <FdMsg*>malloc(sizeof(FdMsg))
    if m == NULL:
        listener_drop(fd, address)
        return
    m.fd = fd
    m.address = address
    m.msg.run = listener_given
    if not worker_post(l.process.workers[l.turn % <unsigned int>l.process.n], &m.msg):
        listener_drop(fd, address)
        free(m)
    l.turn += 1

cdef void listener_given(Worker* w, InboxMsg* msg) noexcept nogil:
    cdef FdMsg* m = <FdMsg*>msg
    conn_open(w, m.fd, m.address)
    free(m)
