# Parked pops. In: pops that found nothing; cursors, groups and queues with news. Out: pops taken out of the book, each
# in the list of its own worker. The first worker is woken here too, if there is work for it. Owner: the process. Locks:
# catalog.lock, then book.lock; taking pops out of the book usually needs both.

# ---- parked ----------------------------------------------------------------------------------------------------------

cdef void waiters_add(PopJob** first, PopJob** last, PopJob* j) noexcept nogil:
    j.wait_prev = last[0]
    j.wait_next = NULL
    if last[0] != NULL:
        last[0].wait_next = j
    else:
        first[0] = j
    last[0] = j

cdef void waiters_del(PopJob** first, PopJob** last, PopJob* j) noexcept nogil:
    if j.wait_prev != NULL:
        j.wait_prev.wait_next = j.wait_next
    else:
        first[0] = j.wait_next
    if j.wait_next != NULL:
        j.wait_next.wait_prev = j.wait_prev
    else:
        last[0] = j.wait_prev
    j.wait_next = NULL
    j.wait_prev = NULL

cdef inline bint waiters_has(const PopJob* j) noexcept nogil:
    # Returns True if the pop is in the book. Requires book.lock.
    return JOB_PARKED_GROUP <= j.job.at <= JOB_PARKED_RATE

cdef bint waiters_park(PopJob* j) noexcept nogil:
    # Parks a pop: it belongs to the book until waiters_unpark or a wake. Returns False if memory ran out. Requires
    # book.lock.
    if j.rate_limited:
        waiters_add(&j.group.paced_first, &j.group.paced_last, j)
        j.group.n_paced += 1
        j.job.at = JOB_PARKED_RATE
    elif j.only != NULL:
        waiters_add(&j.only.wait_first, &j.only.wait_last, j)
        j.only.group.n_wait_only += 1
        j.job.at = JOB_PARKED_CURSOR
    elif j.group != NULL and not j.any_queue and j.want_partition.p == NULL:
        waiters_add(&j.group.wait_first, &j.group.wait_last, j)
        j.group.n_wait += 1
        j.job.at = JOB_PARKED_GROUP
    else:
        if not namewaiters_park(j):
            return False
        j.job.at = JOB_PARKED_NAME
    book.parked += 1
    return True

cdef void waiters_unpark(PopJob* j) noexcept nogil:
    # Takes a pop out of the book, if it is parked. Requires book.lock.
    if not waiters_has(j):
        return
    if j.job.at == JOB_PARKED_RATE:
        waiters_del(&j.group.paced_first, &j.group.paced_last, j)
        j.group.n_paced -= 1
    elif j.job.at == JOB_PARKED_CURSOR:
        waiters_del(&j.only.wait_first, &j.only.wait_last, j)
        j.only.group.n_wait_only -= 1
    elif j.job.at == JOB_PARKED_GROUP:
        waiters_del(&j.group.wait_first, &j.group.wait_last, j)
        j.group.n_wait -= 1
    else:
        namewaiters_unpark(j)
    j.job.at = JOB_WOKEN
    book.parked -= 1

# ---- woken -----------------------------------------------------------------------------------------------------------

cdef inline void waiters_wake(PopJob* j, PopJob** wake) noexcept nogil:
    waiters_unpark(j)
    j.wait_next = wake[0]
    wake[0] = j

cdef void waiters_wake_cursor(Cursor* c, PopJob** wake) noexcept nogil:
    # Wakes one waiter for a ready cursor: the first that named its partition, else the oldest of its group. If the
    # group is paused, wakes none: the end of the pause wakes all. Requires book.lock.
    cdef Group* g = c.group
    if g.paused:
        return
    if c.wait_first != NULL:
        waiters_wake(c.wait_first, wake)
    elif g.wait_first != NULL:
        waiters_wake(g.wait_first, wake)
    if book.n_name_waiters:
        namewaiters_wake_queue(c.partition.queue, c.partition.name, wake)

cdef void waiters_wake_queue(Queue* q, PopJob** wake) noexcept nogil:
    # Wakes all pops parked on a queue that was changed or deleted. Requires book.lock.
    cdef Group* g = q.group_list
    while g != NULL:
        waiters_wake_group(g, wake)
        g = g.next
    if book.n_name_waiters:
        namewaiters_wake_queue(q, slice_of(NULL, 0), wake)

cdef void waiters_wake_group(Group* g, PopJob** wake) noexcept nogil:
    cdef Cursor* c = g.all_cursors if g.n_wait_only or g.n_delayed else NULL     # a queue may have a million cursors
    while g.wait_first != NULL:
        waiters_wake(g.wait_first, wake)
    while g.paced_first != NULL:
        waiters_wake(g.paced_first, wake)
    while c != NULL:
        while c.wait_first != NULL:
            waiters_wake(c.wait_first, wake)
        if c.state == CURSOR_DELAYED:
            cursor_move(c, CURSOR_READY, 0)
        c = c.all_next

# ---- sent to their workers -------------------------------------------------------------------------------------------

cdef void waiters_send(Worker* w, PopJob* wake) noexcept nogil:
    # Sends pops that were taken out of the book to their workers; none if `wake` is NULL. w: the worker of the caller's
    # thread, NULL if it has none. Requires that book.lock is free.
    cdef PopJob* following
    cdef PopJob* j = NULL
    # the list was built by pushing: reverse it, so that the oldest waiter is tried first
    while wake != NULL:
        following = wake.wait_next
        wake.wait_next = j
        j = wake
        wake = following
    while j != NULL:
        following = j.wait_next
        j.wait_next = NULL
        if j.job.r.worker is w:
            waiters_woken(w, &j.job.msg)
        else:
            j.job.msg.run = waiters_woken
            worker_post(j.job.r.worker, &j.job.msg)
        j = following

cdef void waiters_woken(Worker* w, InboxMsg* m) noexcept nogil:
    cdef PopJob* j = <PopJob*>m
    heap_del(&engine_of(w).deadlines, &j.deadline)
    popjob_adopt(j)
    j.asked = False
    j.job.tries = 0
    job_queue(&j.job, &engine_of(w).woken)

# ---- the first worker is woken ---------------------------------------------------------------------------------------

cdef void waiters_post_leader(void (*run)(Worker* w, InboxMsg* m) noexcept nogil) noexcept nogil:
    # Has the first worker run a function, which frees the message. Any thread.
    if leader != NULL:
        worker_call(leader, run)

cdef void waiters_leader_woken(Worker* w, InboxMsg* m) noexcept nogil:
    # Lets the worker look around: its drain comes next.
    free(m)

# ---- counted ---------------------------------------------------------------------------------------------------------
# For sampled stats: Core.tallies, Core.parked.

cdef int waiters_per_queue(TallySeen** out) noexcept nogil:
    # Lists all queues and how many pops are parked on each. Returns their number, -1 if memory ran out. The caller
    # frees the list, and is pinned (base/epoch) while it uses it.
    cdef Queue* q
    cdef Group* g
    cdef int n = 0
    index_lock_all()
    # none is added meanwhile, and those listed are among those counted
    out[0] = <TallySeen*>malloc(<size_t>(atomic_get64(&catalog.n_queues) + 1) * sizeof(TallySeen))
    q = catalog.list if out[0] != NULL else NULL
    while q != NULL:
        out[0][n].queue = q
        out[0][n].parked = 0
        g = q.group_list
        while g != NULL:
            out[0][n].parked += g.n_wait + g.n_wait_only + g.n_paced
            g = g.next
        n += 1
        q = q.next
    index_unlock_all(NULL, NULL)
    return n if out[0] != NULL else -1
