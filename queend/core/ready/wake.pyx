# Parked pops that are to be tried again: each goes to its own worker. In: jobs taken out of the book. Out: the worker's
# list. The first worker is woken here as well, when there is something for it to do. Who takes jobs out of the book
# needs catalog and book, as a rule: both are locked here.

cdef inline void boss_wake() noexcept nogil:
    # Any thread: the first worker looks around.
    boss_post(boss_woken)

cdef void boss_post(void (*run)(Worker* w, InboxMsg* m) noexcept nogil) noexcept nogil:
    cdef InboxMsg* m = <InboxMsg*>calloc(1, sizeof(InboxMsg))
    if m == NULL or boss == NULL:
        free(m)
        return
    m.run = run
    if not worker_post(boss, m):
        free(m)

cdef void boss_woken(Worker* w, InboxMsg* m) noexcept nogil:
    # Its drain comes next.
    free(m)

cdef void popjobs_wake(Worker* w, PopJob* wake) noexcept nogil:
    # Jobs taken out of the book by whoever found work: each goes to its own worker. Book not locked. w: the caller's,
    # NULL: its thread is no worker's.
    cdef PopJob* following
    cdef PopJob* j = NULL
    # the list was built by pushing: turn it, so that the oldest waiter is tried first
    while wake != NULL:
        following = wake.wait_next
        wake.wait_next = j
        j = wake
        wake = following
    while j != NULL:
        following = j.wait_next
        j.wait_next = NULL
        if j.job.r.worker is w:
            pop_woken(w, &j.job.msg)
        else:
            j.job.msg.run = pop_woken
            worker_post(j.job.r.worker, &j.job.msg)
        j = following

cdef inline void catalog_book_lock() noexcept nogil:
    # Catalog (for reading) and book, in their order.
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)

cdef inline void catalog_book_unlock(Worker* w, PopJob* wake) noexcept nogil:
    # wake: jobs taken out of the book meanwhile.
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    if wake != NULL:
        popjobs_wake(w, wake)

cdef void pop_woken(Worker* w, InboxMsg* m) noexcept nogil:
    cdef PopJob* j = <PopJob*>m
    heap_del(&engine_of(w).deadlines, &j.deadline)
    j.asked = False
    j.job.tries = 0
    pop_move(j, POP_LEASING)
    job_queue(&j.job, &engine_of(w).woken)

# ---- who waits, in the book ----------------------------------------------------------------------------------------

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

cdef bint book_park(PopJob* j) noexcept nogil:
    # Lock held. The job belongs to the book until book_unpark or a wake. False when memory ran out.
    if j.paced:
        waiters_add(&j.group.paced_first, &j.group.paced_last, j)
        j.group.n_paced += 1
        j.parked_at = PARKED_PACED
    elif j.only != NULL:
        waiters_add(&j.only.wait_first, &j.only.wait_last, j)
        j.only.group.n_wait_only += 1
        j.parked_at = PARKED_CURSOR
    elif j.group != NULL and not j.any_queue and j.want_partition.p == NULL:
        waiters_add(&j.group.wait_first, &j.group.wait_last, j)
        j.group.n_wait += 1
        j.parked_at = PARKED_GROUP
    else:
        if not namewaiters_park(j):
            return False
        j.parked_at = PARKED_STRANGER
    book.parked += 1
    return True

cdef void book_unpark(PopJob* j) noexcept nogil:
    # Lock held; nothing when it is not parked.
    if j.parked_at == PARKED_NOT:
        return
    if j.parked_at == PARKED_PACED:
        waiters_del(&j.group.paced_first, &j.group.paced_last, j)
        j.group.n_paced -= 1
    elif j.parked_at == PARKED_CURSOR:
        waiters_del(&j.only.wait_first, &j.only.wait_last, j)
        j.only.group.n_wait_only -= 1
    elif j.parked_at == PARKED_GROUP:
        waiters_del(&j.group.wait_first, &j.group.wait_last, j)
        j.group.n_wait -= 1
    else:
        namewaiters_unpark(j)
    j.parked_at = PARKED_NOT
    book.parked -= 1

cdef inline void wake_push(PopJob* j, PopJob** wake) noexcept nogil:
    book_unpark(j)
    j.wait_next = wake[0]
    wake[0] = j

cdef void book_wake_cursor(Cursor* c, PopJob** wake) noexcept nogil:
    # One ready partition is worth one waiter: one that named it first, else the oldest of its group. Nobody of a group
    # that is paused: the end of the pause wakes all of them.
    cdef Group* g = c.group
    if g.paused:
        return
    if c.wait_first != NULL:
        wake_push(c.wait_first, wake)
    elif g.wait_first != NULL:
        wake_push(g.wait_first, wake)
    if book.n_name_waiters:
        book_wake_name_waiters(c.partition.queue, c.partition.name, wake)

cdef void book_wake_queue(Queue* q, PopJob** wake) noexcept nogil:
    # Everyone parked on the queue tries again (it was changed or deleted). Lock held.
    cdef Group* g = q.group_list
    while g != NULL:
        group_wake(g, wake)
        g = g.next
    if book.n_name_waiters:
        book_wake_name_waiters(q, slice_of(NULL, 0), wake)

cdef void group_wake(Group* g, PopJob** wake) noexcept nogil:
    cdef Cursor* c = g.all_cursors if g.n_wait_only or g.n_delayed else NULL     # a queue may have a million
    while g.wait_first != NULL:
        wake_push(g.wait_first, wake)
    while g.paced_first != NULL:
        wake_push(g.paced_first, wake)
    while c != NULL:
        while c.wait_first != NULL:
            wake_push(c.wait_first, wake)
        if c.state == CURSOR_DELAYED:
            cursor_move(c, CURSOR_READY, 0)
        c = c.all_next
