# Starts and stops all workers, each with its loop and its listening socket. In: settings. Out: a running process; no
# answer is lost when it stops. Owns the workers and the acceptor. process.lock guards `drained`.

cdef void process_drained(Process* p) noexcept nogil:
    # Counts a worker that is drained, and wakes process_stop.
    uv_mutex_lock(&p.lock)
    p.drained += 1
    uv_cond_broadcast(&p.cond)
    uv_mutex_unlock(&p.lock)

# ---- acceptor --------------------------------------------------------------------------------------------------------

cdef void process_accept_run(void* arg) noexcept nogil:
    cdef Process* p = <Process*>arg
    prctl(PR_SET_NAME, b"acceptor")
    uv_run(&p.loop, UV_RUN_DEFAULT)

cdef void process_on_stop(uv_async_t* handle) noexcept nogil:
    cdef Process* p = <Process*>handle.data
    listener_stop(p.listener)
    uv_close(<uv_handle_t*>&p.stop, NULL)

cdef void process_accept_stop(Process* p) noexcept nogil:
    # Stops the acceptor. Returns when no further connection can come.
    if not p.accepting:
        return
    p.accepting = False
    uv_async_send(&p.stop)
    uv_thread_join(&p.thread)
    uv_loop_close(&p.loop)

# ---- sockets ---------------------------------------------------------------------------------------------------------

cdef Listener* process_listen(Process* p, char* reason, size_t size) noexcept nogil:
    # Listens on the sockets that were given, else on one of its own. Port and address are the first socket's. Returns
    # NULL with the reason, or with an empty reason if memory ran out.
    cdef Settings* s = &p.settings
    cdef const char* given = s.sockets
    cdef char[64] name
    cdef Listener* l = NULL
    cdef Listener* more
    cdef int fd
    cdef int port = 0
    p.loopback = True
    while l == NULL or given[0]:
        fd = atoi(given) if given[0] else listener_bind(s.host, s.port, s.reuseport, s.backlog, reason, size)
        if fd < 0:
            return NULL
        if not listener_name(fd, name, sizeof(name), &port):
            p.loopback = False
        if l == NULL:
            p.port = port
            memcpy(p.address, name, sizeof(name))
        more = listener_new(p, NULL, fd, l)
        if more == NULL:
            listener_free(l)
            return NULL
        l = more
        given += strlen(given) + 1 if given[0] else 0
    return l

cdef bint process_share_port(Process* p, Worker* w, char* reason, size_t size) noexcept nogil:
    # Gives each worker sockets to accept from (reuseport). The first worker takes the process's sockets, the others
    # bind sockets of their own on the same port. Sockets that were given are shared by all: a connection in the queue
    # of an own socket is lost when this process ends.
    cdef Listener* l = p.listener
    cdef Listener* more
    cdef int fd
    if w.index == 0:
        while l != NULL:
            l.worker = w
            l = l.next
        w.listener = p.listener
        p.listener = NULL
        return True
    l = p.workers[0].listener
    while l != NULL:
        if p.settings.sockets[0]:
            fd = fcntl(l.fd, F_DUPFD_CLOEXEC, 3)
            if fd < 0:
                snprintf(reason, size, b"%s", strerror(errno))
        else:
            fd = listener_bind(p.settings.host, p.port, True, p.settings.backlog, reason, size)
        if fd < 0:
            return False
        more = listener_new(p, w, fd, w.listener)
        if more == NULL:
            return False
        w.listener = more
        l = l.next
    return True

# ---- start and stop --------------------------------------------------------------------------------------------------

cdef bint process_start(Process* p, char* reason, size_t size) noexcept nogil:
    # Binds, and starts the threads; connections wait until process_accept. Returns False with the reason on failure;
    # then nothing is left running.
    cdef Settings* s = &p.settings
    cdef int i
    cdef int started = 0
    cdef bint ok = True
    cdef sigset_t all_signals, before
    memory_keep()
    uv_mutex_init(&p.lock)
    uv_cond_init(&p.cond)
    p.drained = 0
    p.stopping = False
    p.n = s.workers
    p.workers = <Worker**>calloc(p.n, sizeof(Worker*))
    p.listener = process_listen(p, reason, size) if p.workers != NULL else NULL
    if p.listener == NULL:
        if not reason[0]:
            snprintf(reason, size, b"not enough memory")
        process_free(p)
        return False
    origin_rules.local = p.loopback
    for i in range(p.n):
        p.workers[i] = worker_new(p, i, s)
        if p.workers[i] == NULL:
            ok = False
            break
        if s.reuseport and not process_share_port(p, p.workers[i], reason, size):
            ok = False
            break
    if not ok or not service.boot(p):
        if not reason[0]:
            snprintf(reason, size, b"not enough memory")
        process_abort(p, 0)
        return False
    # only the main thread takes signals
    sigfillset(&all_signals)
    pthread_sigmask(SIG_SETMASK, &all_signals, &before)
    for i in range(p.n):
        if uv_thread_create(&p.workers[i].thread, worker_run, p.workers[i]) != 0:
            ok = False
            break
        started += 1
    for i in range(started):
        uv_sem_wait(&p.workers[i].opened)
        ok = ok and p.workers[i].phase == WORKER_RUNNING
    ok = ok and (s.request_log == 0 or thread_start(&p.logwriter, requestlog_run, p)) and watchdog_start(p)
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    if not ok:
        snprintf(reason, size, b"a thread could not start")
        process_abort(p, started)
        service.halt(p)
        return False
    p.running = True
    return True

cdef bint process_accept(Process* p) noexcept nogil:
    # Accepts connections from now on; before, they wait in the kernel. Returns False if a thread could not start.
    cdef sigset_t all_signals, before
    cdef int i
    if p.listens:
        return True
    p.listens = True
    if p.settings.reuseport:
        for i in range(p.n):
            p.workers[i].listen_msg.run = worker_listen
            worker_post(p.workers[i], &p.workers[i].listen_msg)
        return True
    sigfillset(&all_signals)
    pthread_sigmask(SIG_SETMASK, &all_signals, &before)
    uv_loop_init(&p.loop)
    uv_async_init(&p.loop, &p.stop, process_on_stop)
    p.stop.data = p
    listener_start(p.listener, &p.loop)
    p.accepting = uv_thread_create(&p.thread, process_accept_run, p) == 0
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    return p.accepting

cdef void process_connect(Process* p) noexcept nogil:
    # Connects the workers to the database, which was missing at the start and is ready now.
    cdef int i
    for i in range(p.n):
        p.workers[i].connect_msg.run = service.connect
        worker_post(p.workers[i], &p.workers[i].connect_msg)

cdef bint process_stop(Process* p, int grace_ms) noexcept nogil:
    # Stops accepting, drains, closes and joins the workers; process_halt follows. Returns True if all was answered in
    # time.
    cdef int64_t until = clock_mono_us() + <int64_t>grace_ms * 1000
    cdef int64_t left
    cdef int i
    p.stopping = True
    process_accept_stop(p)
    for i in range(p.n):
        p.workers[i].stop_msg.run = worker_stop
        worker_post(p.workers[i], &p.workers[i].stop_msg)
    uv_mutex_lock(&p.lock)
    while p.drained < p.n:
        left = until - clock_mono_us()
        if left <= 0:
            break
        uv_cond_timedwait(&p.cond, &p.lock, <uint64_t>left * 1000)
    uv_mutex_unlock(&p.lock)
    watchdog_stop(p)          # workers end from here on
    for i in range(p.n):
        p.workers[i].halt_msg.run = worker_halt
        worker_post(p.workers[i], &p.workers[i].halt_msg)
    for i in range(p.n):
        uv_thread_join(&p.workers[i].thread)
    thread_stop(&p.logwriter)
    return p.drained == p.n

cdef void process_halt(Process* p) noexcept nogil:
    # Frees what the workers shared. Requires the interpreter: no other thread reads the process through it meanwhile,
    # and later ones find `running` false.
    p.running = False
    service.halt(p)

cdef void process_abort(Process* p, int started) noexcept nogil:
    # Undoes a start that failed half-way. `started` workers have threads.
    cdef int i
    process_accept_stop(p)
    for i in range(p.n if p.workers != NULL else 0):
        if p.workers[i] == NULL:
            continue
        if i < started:
            p.workers[i].halt_msg.run = worker_halt
            worker_post(p.workers[i], &p.workers[i].halt_msg)
            uv_thread_join(&p.workers[i].thread)
        else:
            p.workers[i].phase = WORKER_FAILED
            worker_end(p.workers[i])
            uv_run(&p.workers[i].loop, UV_RUN_DEFAULT)
    thread_stop(&p.logwriter)
    process_free(p)

cdef void process_free(Process* p) noexcept nogil:
    # Frees the workers, after their threads have ended.
    cdef int i
    listener_free(p.listener)
    p.listener = NULL
    for i in range(p.n if p.workers != NULL else 0):
        if p.workers[i] != NULL:
            listener_free(p.workers[i].listener)
            worker_free(p.workers[i])
    free(p.workers)
    p.workers = NULL
    p.n = 0
    uv_cond_destroy(&p.cond)
    uv_mutex_destroy(&p.lock)
