# Runs a thread that repeats a task until it is told to end: the request log's writer, or the watch. Owns the thread;
# routine.lock guards `ends`. The thread sleeps in routine_sleeps, so its end does not wait for its pause.

cdef bint routine_start(Routine* x, uv_thread_cb run, void* arg) noexcept nogil:
    # Starts the thread. Returns False if it could not start; all is freed then.
    uv_mutex_init(&x.lock)
    uv_cond_init(&x.told)
    x.ends = False
    x.running = uv_thread_create(&x.thread, run, arg) == 0
    if not x.running:
        routine_free(x)
    return x.running

cdef bint routine_stop(Routine* x) noexcept nogil:
    # Ends the thread and waits for it. Returns False if it does not run.
    if not x.running:
        return False
    uv_mutex_lock(&x.lock)
    x.ends = True
    uv_cond_broadcast(&x.told)
    uv_mutex_unlock(&x.lock)
    uv_thread_join(&x.thread)
    x.running = False
    routine_free(x)
    return True

cdef void routine_free(Routine* x) noexcept nogil:
    uv_cond_destroy(&x.told)
    uv_mutex_destroy(&x.lock)

cdef bint routine_sleeps(Routine* x, int64_t ms) noexcept nogil:
    # Sleeps for this time, or until `told` is signalled. Returns False if the thread is to end. Requires the lock.
    if not x.ends:
        uv_cond_timedwait(&x.told, &x.lock, <uint64_t>ms * 1000000)
    return not x.ends
