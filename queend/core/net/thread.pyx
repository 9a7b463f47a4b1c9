# Messages between threads, and threads that repeat a task. In: messages, from any thread; a task. Out: the messages, in
# order, to the owner of the inbox; the task, run until its thread is told to end. Owns the inbox of each worker
# (inbox.lock guards its list), and the threads of the request log and the watchdog (routine.lock guards `ends`).

# ---- messages --------------------------------------------------------------------------------------------------------
# The first message of an empty list wakes the receiving loop. A message is embedded in what it carries, as its first
# field, and belongs to the receiver once it is posted.

cdef inline bint thread_post(Inbox* box, InboxMsg* m) noexcept nogil:
    # Posts a message, from any thread. Returns False if the receiver has ended; the message then still belongs to the
    # sender.
    cdef bint open
    uv_mutex_lock(&box.lock)
    open = not box.closed
    if open and box.first == NULL:
        uv_async_send(&box.wake)      # under the lock: the handle cannot close meanwhile
    if open:
        link_append(<void**>&box.first, m)
    uv_mutex_unlock(&box.lock)
    return open

cdef inline InboxMsg* thread_receive(Inbox* box) noexcept nogil:
    # Takes all messages that have arrived, in order.
    cdef InboxMsg* m
    uv_mutex_lock(&box.lock)
    m = box.first
    box.first = NULL
    box.last = NULL
    uv_mutex_unlock(&box.lock)
    return m

cdef void thread_close_inbox(Inbox* box) noexcept nogil:
    # Closes the inbox. The owner calls it last, before it closes the wake-up handle.
    uv_mutex_lock(&box.lock)
    box.closed = True
    uv_mutex_unlock(&box.lock)

# ---- threads ---------------------------------------------------------------------------------------------------------
# A thread sleeps in thread_sleeps, so its end does not wait for its pause.

cdef bint thread_start(Routine* x, uv_thread_cb run, void* arg) noexcept nogil:
    # Starts the thread. Returns False if it could not start; all is freed then.
    uv_mutex_init(&x.lock)
    uv_cond_init(&x.cond)
    x.ends = False
    x.running = uv_thread_create(&x.thread, run, arg) == 0
    if not x.running:
        thread_free(x)
    return x.running

cdef bint thread_stop(Routine* x) noexcept nogil:
    # Ends the thread and waits for it. Returns False if it does not run.
    if not x.running:
        return False
    uv_mutex_lock(&x.lock)
    x.ends = True
    uv_cond_broadcast(&x.cond)
    uv_mutex_unlock(&x.lock)
    uv_thread_join(&x.thread)
    x.running = False
    thread_free(x)
    return True

cdef void thread_free(Routine* x) noexcept nogil:
    uv_cond_destroy(&x.cond)
    uv_mutex_destroy(&x.lock)

cdef bint thread_sleeps(Routine* x, int64_t ms) noexcept nogil:
    # Sleeps for this time, or until `told` is signalled. Returns False if the thread is to end. Requires the lock.
    if not x.ends:
        uv_cond_timedwait(&x.cond, &x.lock, <uint64_t>ms * 1000000)
    return not x.ends
