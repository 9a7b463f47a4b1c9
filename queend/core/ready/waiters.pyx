# Waiters: parked pops, also those that wait by name. In: pops that found nothing; cursors, groups and queues with news.
# Out: pops taken out of the book, each in the list of its own worker; when a group first asked for a name. The first
# worker is woken here too, if there is work for it. Owner: the process. Locks: catalog.lock, then book.lock; to take
# pops out of the book usually needs both.

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
        if not waiters_name_park(j):
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
        waiters_name_unpark(j)
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
        waiters_name_wake_queue(c.partition.queue, c.partition.name, wake)

cdef void waiters_wake_queue(Queue* q, PopJob** wake) noexcept nogil:
    # Wakes all pops parked on a queue that was changed or deleted. Requires book.lock.
    cdef Group* g = q.group_list
    while g != NULL:
        waiters_wake_group(g, wake)
        g = g.next
    if book.n_name_waiters:
        waiters_name_wake_queue(q, slice_of(NULL, 0), wake)

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

# ---- parked by name --------------------------------------------------------------------------------------------------
# A pop waits by name if its queue or partition is not known yet, or if it asks for a namespace or task. Each name (of a
# queue, or a namespace with a task) has a list, found by its hash. News of one queue costs nothing for waiters of
# another.

cdef struct NameWaiters:
    NameWaiters* same_hash
    uint64_t hash
    bint any_queue
    Slice name                # of the queue; any_queue: the namespace, empty for all
    Slice task
    PopJob* first
    PopJob* last

cdef inline uint64_t waiters_name_hash(bint any_queue, Slice name, Slice task) noexcept nogil:
    return (slice_mix(slice_hash(name, hash_seed) + any_queue) + slice_hash(task, hash_seed)) | 1

cdef NameWaiters* waiters_name_find(bint any_queue, Slice name, Slice task) noexcept nogil:
    cdef NameWaiters* s = <NameWaiters*>table_get(&book.name_waiters, waiters_name_hash(any_queue, name, task))
    while s != NULL and not (s.any_queue == any_queue and slice_eq(s.name, name) and slice_eq(s.task, task)):
        s = s.same_hash
    return s

cdef inline NameWaiters* waiters_name_of(PopJob* j) noexcept nogil:
    return waiters_name_find(j.any_queue, j.req.ns if j.any_queue else j.req.queue,
                             j.req.task if j.any_queue else slice_of(NULL, 0))

cdef inline NameWaiters* waiters_name_filed(Queue* q, int i) noexcept nogil:
    # Returns list i, from 0 to 3, of the pops by namespace or task that a queue concerns: those that name both of them,
    # its namespace, its task, or neither.
    cdef Slice none = slice_of(NULL, 0)
    return waiters_name_find(True, q.ns if i < 2 else none, none if i % 2 else q.task)

cdef bint waiters_name_park(PopJob* j) noexcept nogil:
    # Parks a pop under its name. Returns False if memory ran out.
    cdef NameWaiters* s = waiters_name_of(j)
    if s == NULL:
        s = <NameWaiters*>calloc(1, sizeof(NameWaiters))
        if s == NULL:
            return False
        s.any_queue = j.any_queue
        s.name = slice_keep(j.req.ns if j.any_queue else j.req.queue)
        s.task = slice_keep(j.req.task if j.any_queue else slice_of(NULL, 0))
        s.hash = waiters_name_hash(s.any_queue, s.name, s.task)
        s.same_hash = <NameWaiters*>table_get(&book.name_waiters, s.hash)
        if s.name.p == NULL or s.task.p == NULL or not table_put(&book.name_waiters, s.hash, s):
            free(<void*>s.name.p)
            free(<void*>s.task.p)
            free(s)
            return False
    waiters_add(&s.first, &s.last, j)
    book.n_name_waiters += 1
    return True

cdef void waiters_name_unpark(PopJob* j) noexcept nogil:
    # Takes a pop out of its list, and frees the list with its last pop.
    cdef NameWaiters* s = waiters_name_of(j)
    waiters_del(&s.first, &s.last, j)
    book.n_name_waiters -= 1
    if s.first != NULL:
        return
    catalog_unchain(&book.name_waiters, s.hash, s, &s.same_hash)
    free(<void*>s.name.p)
    free(<void*>s.task.p)
    free(s)

# ---- woken by name ---------------------------------------------------------------------------------------------------

cdef void waiters_name_wake(NameWaiters* s, Slice partition, PopJob** wake) noexcept nogil:
    # Wakes all pops of a list; with a partition, only those that named it or none. May free the list.
    cdef PopJob* j = s.first if s != NULL else NULL
    cdef PopJob* following
    while j != NULL:
        following = j.wait_next
        if partition.p == NULL or j.want_partition.p == NULL or slice_eq(j.want_partition, partition):
            waiters_wake(j, wake)
        j = following

cdef void waiters_name_wake_queue(Queue* q, Slice partition, PopJob** wake) noexcept nogil:
    # Wakes pops after news of a queue, or of one partition of it: pops of that name, and of its namespace and task.
    cdef Slice none = slice_of(NULL, 0)
    cdef int i
    waiters_name_wake(waiters_name_find(False, q.name, none), partition, wake)
    if q.dead:
        return
    for i in range(4):
        waiters_name_wake(waiters_name_filed(q, i), none, wake)

cdef void waiters_name_wake_all(bint known, PopJob** wake) noexcept nogil:
    # Wakes all pops. known: only pops that wait for a namespace or task, or for something of a queue that is known by
    # now; pops of unknown queues keep their places. Requires catalog.lock and book.lock.
    cdef size_t i = 0
    cdef NameWaiters* s
    while book.n_name_waiters and i <= book.name_waiters.mask:
        s = <NameWaiters*>book.name_waiters.cells[i].value if book.name_waiters.cells[i].key else NULL
        while known and s != NULL and not s.any_queue and catalog_queue(s.name) == NULL:
            s = s.same_hash
        if s == NULL:
            i += 1
        else:
            waiters_name_wake(s, slice_of(NULL, 0), wake)     # the list leaves the table, another may take its cell

cdef bint waiters_name_for(Queue* q, const Group* g) noexcept nogil:
    # Returns True if a pop by namespace or task waits for a queue filed there. g: only if it is of this group; NULL: of
    # any. Requires book.lock.
    cdef NameWaiters* s
    cdef PopJob* j
    cdef int i
    for i in range(4 if book.n_name_waiters else 0):
        s = waiters_name_filed(q, i)
        j = s.first if s != NULL else NULL
        while j != NULL and g != NULL and not slice_eq(j.req.group, g.name):
            j = j.wait_next
        if j != NULL:
            return True
    return False

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

# ---- first requests --------------------------------------------------------------------------------------------------
# A group that begins `new` may ask before its queue exists, or for a namespace or task. The time of its first request
# is kept in a hash table of fixed size. The group is made when its queue exists, and begins at that time: it gets what
# was pushed in between.

cdef enum:
    AWAITED_SETS = 1024
    AWAITED_WAYS = 4              # entries in which a group may stand; the entry with the oldest last request gives way

cdef int64_t AWAITED_US = <int64_t>3600 * 1000000       # a group is forgotten so long after its last request

cdef struct Awaited:
    uint64_t key                  # 0: free
    int64_t first_us              # monotonic, of the first request
    int64_t last_us               # monotonic, of the last request

cdef Awaited[AWAITED_SETS * AWAITED_WAYS] awaited

cdef inline uint64_t waiters_first_key(bint any_queue, Slice name, Slice task, Slice group) noexcept nogil:
    return slice_mix(waiters_name_hash(any_queue, name, task) + slice_hash(group, hash_seed)) | 1

cdef Awaited* waiters_first(uint64_t key, int64_t now) noexcept nogil:
    # Returns the group's entry, or NULL if it has none or was forgotten.
    cdef Awaited* a = &awaited[(key >> 1) % AWAITED_SETS * AWAITED_WAYS]
    cdef int i
    for i in range(AWAITED_WAYS):
        if a[i].key == key and now - a[i].last_us <= AWAITED_US:
            return &a[i]
    return NULL

cdef void waiters_first_note(uint64_t key, int64_t started_us, int64_t now) noexcept nogil:
    # Notes a request. The time of the first one stays.
    cdef Awaited* a = waiters_first(key, now)
    cdef Awaited* all_ = &awaited[(key >> 1) % AWAITED_SETS * AWAITED_WAYS]
    cdef int i
    if a == NULL:
        a = all_
        for i in range(AWAITED_WAYS):
            if all_[i].last_us < a.last_us:
                a = &all_[i]
        a.key = key
        a.first_us = started_us
    a.last_us = now

cdef void waiters_first_forget(uint64_t key) noexcept nogil:
    # Forgets a group that was made: its row says where it begins from now on.
    cdef Awaited* a = waiters_first(key, clock_mono_us())
    if a != NULL:
        memset(a, 0, sizeof(Awaited))
