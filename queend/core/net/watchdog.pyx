# Watches whether every worker's loop turns and the control plane's loop runs. In: counters of the workers. Out: log
# lines, /livez, and WATCHDOG=1 for a supervisor. Owns one thread; routine.lock guards the supervisor's address. It
# shares no lock with a loop, and runs without the interpreter. So a busy control plane cannot end a healthy data plane.

cdef enum:
    WATCH_MS = 500            # between two looks; an idle worker turns as often
    WATCH_LATE_MS = 1500      # since a worker's last turn: not reported, but the watchdog is not fed
    WATCH_CONTROL_MS = 10000  # since the control plane's last beat: reported, without further effect

cdef void watchdog_run(void* arg) noexcept nogil:
    # Runs the thread.
    cdef Process* p = <Process*>arg
    cdef Watch* x = &p.watch
    cdef int64_t now, look_ms
    cdef int64_t before = clock_mono_us() // 1000
    cdef int64_t fed = 0
    prctl(PR_SET_NAME, b"watch")
    uv_mutex_lock(&x.routine.lock)
    while True:
        look_ms = WATCH_MS if x.period_ms == 0 or x.period_ms > 4 * WATCH_MS else x.period_ms // 4 + 1
        if not thread_sleeps(&x.routine, look_ms):
            break
        now = clock_mono_us() // 1000
        if now - before > look_ms + WATCH_MS:
            watchdog_restart(p, now)  # this thread did not run either: the machine or the process was stopped
        before = now
        if watchdog_check(p, now) and x.period_ms and now - fed >= x.period_ms // 3:
            fed = now
            sendto(x.fd, b"WATCHDOG=1", 10, MSG_DONTWAIT | MSG_NOSIGNAL, <sockaddr*>&x.address, x.address_size)
    uv_mutex_unlock(&x.routine.lock)

cdef void watchdog_restart(Process* p, int64_t now) noexcept nogil:
    cdef int i
    for i in range(p.n):
        p.workers[i].watched_ms = now
    if atomic_get64(&p.watch.beat_ms):
        atomic_set64(&p.watch.beat_ms, now)

cdef bint watchdog_check(Process* p, int64_t now) noexcept nogil:
    # Checks all workers and the control plane. Returns True if the watchdog may be fed.
    cdef Watch* x = &p.watch
    cdef Worker* w
    cdef int64_t late = 0
    cdef int64_t stuck = STUCK_NONE
    cdef int64_t turns, silent
    cdef bint is_stuck
    cdef int i
    for i in range(p.n):
        w = p.workers[i]
        turns = atomic_get64(&w.turns)
        if turns != w.watched_turns or w.watched_ms == 0:
            w.watched_turns = turns
            w.watched_ms = now
        silent = now - w.watched_ms
        late = max(late, silent)
        is_stuck = p.settings.stuck_ms and silent >= p.settings.stuck_ms
        if is_stuck and stuck == STUCK_NONE:
            stuck = i + 1
        watchdog_log(&w.watched_stuck, is_stuck, b"worker_stuck", b"worker_turns_again", i, silent)
    silent = atomic_get64(&x.beat_ms)
    silent = now - silent if silent else 0
    watchdog_log(&x.control_reported, silent >= WATCH_CONTROL_MS, b"control_plane_busy", b"control_plane_runs_again",
                 -1,
                 silent)
    if p.settings.control_stuck_ms and silent >= p.settings.control_stuck_ms and stuck == STUCK_NONE:
        stuck = STUCK_CONTROL
    if stuck != atomic_get64(&x.stuck):
        atomic_set64(&x.stuck, stuck)
    return stuck == STUCK_NONE and late < max(WATCH_LATE_MS, x.period_ms // 2)

cdef void watchdog_log(bint* reported, bint stuck, const char* event, const char* over, int worker,
                       int64_t silent) noexcept nogil:
    # Logs the begin and the end of a hang, once each.
    cdef char[96] text
    if stuck == reported[0]:
        return
    reported[0] = stuck
    if not stuck:
        log_line(b"info", over, NULL)
        return
    if worker >= 0:
        snprintf(text, sizeof(text), b"worker %d has not turned for %d ms", worker, <int>silent)
    else:
        snprintf(text, sizeof(text), b"its loop has not run for %d ms; the data plane serves", <int>silent)
    log_line(b"error", event, text)

cdef bint watchdog_start(Process* p) noexcept nogil:
    memset(&p.watch, 0, sizeof(Watch))
    p.watch.fd = -1
    return thread_start(&p.watch.routine, watchdog_run, p)

cdef void watchdog_stop(Process* p) noexcept nogil:
    if thread_stop(&p.watch.routine) and p.watch.fd >= 0:
        close(p.watch.fd)

cdef bint watchdog_feed(Process* p, const char* address, size_t n, int period_ms) noexcept nogil:
    # Sends WATCHDOG=1 from now on to this Unix domain address (an abstract one begins with a NUL). Returns False if the
    # address is too long or the watchdog has ended.
    cdef Watch* x = &p.watch
    cdef bint ok
    if not x.routine.running or n == 0 or n >= sizeof(x.address.sun_path):
        return False
    uv_mutex_lock(&x.routine.lock)
    if x.fd < 0:
        x.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
    x.address.sun_family = AF_UNIX
    memcpy(x.address.sun_path, address, n)
    x.address_size = <socklen_t>(2 + n)
    ok = x.fd >= 0
    if ok:
        x.period_ms = period_ms
        uv_cond_broadcast(&x.routine.cond)
    uv_mutex_unlock(&x.routine.lock)
    return ok

cdef void watchdog_livez(Worker* w, Request* r, int route) noexcept nogil:
    # Answers /livez.
    cdef char[40] text
    cdef int64_t stuck = atomic_get64(&w.process.watch.stuck)
    if stuck == STUCK_NONE:
        reply_simple(r, b"{\"status\":\"alive\"}")
    elif stuck != STUCK_CONTROL:
        snprintf(text, sizeof(text), b"Worker %d does not turn", <int>stuck - 1)
        reply_unhealthy(r, b"stuck", text)
    else:
        reply_unhealthy(r, b"stuck", b"The control plane does not run")
