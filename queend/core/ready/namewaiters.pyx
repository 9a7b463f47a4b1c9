# Pops that wait by name: their queue or partition is not known yet, or they ask for a namespace or task. In: pops; news
# of queues. Out: the pops to try again; when a group first asked for a name. Owner: the process; guarded by book.lock.

# ---- lists of waiters, by name ---------------------------------------------------------------------------------------
# Each name (of a queue, or a namespace with a task) has a list, found by its hash. News of one queue costs nothing for
# waiters of another.

cdef struct NameWaiters:
    NameWaiters* same_hash
    uint64_t hash
    bint any_queue
    Slice name                # of the queue; any_queue: the namespace, empty for all
    Slice task
    PopJob* first
    PopJob* last

cdef inline uint64_t namewaiters_hash(bint any_queue, Slice name, Slice task) noexcept nogil:
    return (slice_mix(slice_hash(name, hash_seed) + any_queue) + slice_hash(task, hash_seed)) | 1

cdef NameWaiters* namewaiters_find(bint any_queue, Slice name, Slice task) noexcept nogil:
    cdef NameWaiters* s = <NameWaiters*>table_get(&book.name_waiters, namewaiters_hash(any_queue, name, task))
    while s != NULL and not (s.any_queue == any_queue and slice_eq(s.name, name) and slice_eq(s.task, task)):
        s = s.same_hash
    return s

cdef inline NameWaiters* namewaiters_of(PopJob* j) noexcept nogil:
    return namewaiters_find(j.any_queue, j.req.ns if j.any_queue else j.req.queue,
                          j.req.task if j.any_queue else slice_of(NULL, 0))

cdef inline NameWaiters* namewaiters_filed(Queue* q, int i) noexcept nogil:
    # Returns list i, from 0 to 3, of the pops by namespace or task that a queue concerns: those that name both of them,
    # its namespace, its task, or neither.
    cdef Slice none = slice_of(NULL, 0)
    return namewaiters_find(True, q.ns if i < 2 else none, none if i % 2 else q.task)

cdef bint namewaiters_park(PopJob* j) noexcept nogil:
    # Parks a pop under its name. Returns False if memory ran out.
    cdef NameWaiters* s = namewaiters_of(j)
    if s == NULL:
        s = <NameWaiters*>calloc(1, sizeof(NameWaiters))
        if s == NULL:
            return False
        s.any_queue = j.any_queue
        s.name = slice_keep(j.req.ns if j.any_queue else j.req.queue)
        s.task = slice_keep(j.req.task if j.any_queue else slice_of(NULL, 0))
        s.hash = namewaiters_hash(s.any_queue, s.name, s.task)
        s.same_hash = <NameWaiters*>table_get(&book.name_waiters, s.hash)
        if s.name.p == NULL or s.task.p == NULL or not table_put(&book.name_waiters, s.hash, s):
            free(<void*>s.name.p)
            free(<void*>s.task.p)
            free(s)
            return False
    waiters_add(&s.first, &s.last, j)
    book.n_name_waiters += 1
    return True

cdef void namewaiters_unpark(PopJob* j) noexcept nogil:
    # Takes a pop out of its list, and frees the list with its last pop.
    cdef NameWaiters* s = namewaiters_of(j)
    waiters_del(&s.first, &s.last, j)
    book.n_name_waiters -= 1
    if s.first != NULL:
        return
    catalog_unchain(&book.name_waiters, s.hash, s, &s.same_hash)
    free(<void*>s.name.p)
    free(<void*>s.task.p)
    free(s)

# ---- news of a queue -------------------------------------------------------------------------------------------------

cdef void namewaiters_wake(NameWaiters* s, Slice partition, PopJob** wake) noexcept nogil:
    # Wakes all pops of a list; with a partition, only those that named it or none. May free the list.
    cdef PopJob* j = s.first if s != NULL else NULL
    cdef PopJob* following
    while j != NULL:
        following = j.wait_next
        if partition.p == NULL or j.want_partition.p == NULL or slice_eq(j.want_partition, partition):
            waiters_wake(j, wake)
        j = following

cdef void namewaiters_wake_queue(Queue* q, Slice partition, PopJob** wake) noexcept nogil:
    # Wakes pops after news of a queue, or of one partition of it: pops of that name, and of its namespace and task.
    cdef Slice none = slice_of(NULL, 0)
    cdef int i
    namewaiters_wake(namewaiters_find(False, q.name, none), partition, wake)
    if q.dead:
        return
    for i in range(4):
        namewaiters_wake(namewaiters_filed(q, i), none, wake)

cdef void namewaiters_wake_all(bint known, PopJob** wake) noexcept nogil:
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
            namewaiters_wake(s, slice_of(NULL, 0), wake)      # the list leaves the table, and another may take its cell

# ---- questions of other rooms ----------------------------------------------------------------------------------------

cdef bint namewaiters_for(Queue* q, const Group* g) noexcept nogil:
    # Returns True if a pop by namespace or task waits for a queue filed there. g: only if it is of this group; NULL: of
    # any. Requires book.lock.
    cdef NameWaiters* s
    cdef PopJob* j
    cdef int i
    for i in range(4 if book.n_name_waiters else 0):
        s = namewaiters_filed(q, i)
        j = s.first if s != NULL else NULL
        while j != NULL and g != NULL and not slice_eq(j.req.group, g.name):
            j = j.wait_next
        if j != NULL:
            return True
    return False

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

cdef inline uint64_t namewaiters_first_key(bint any_queue, Slice name, Slice task, Slice group) noexcept nogil:
    return slice_mix(namewaiters_hash(any_queue, name, task) + slice_hash(group, hash_seed)) | 1

cdef Awaited* namewaiters_first(uint64_t key, int64_t now) noexcept nogil:
    # Returns the group's entry, or NULL if it has none or was forgotten.
    cdef Awaited* a = &awaited[(key >> 1) % AWAITED_SETS * AWAITED_WAYS]
    cdef int i
    for i in range(AWAITED_WAYS):
        if a[i].key == key and now - a[i].last_us <= AWAITED_US:
            return &a[i]
    return NULL

cdef void namewaiters_first_note(uint64_t key, int64_t started_us, int64_t now) noexcept nogil:
    # Notes a request. The time of the first one stays.
    cdef Awaited* a = namewaiters_first(key, now)
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

cdef void namewaiters_first_forget(uint64_t key) noexcept nogil:
    # Forgets a group that was made: its row says where it begins from now on.
    cdef Awaited* a = namewaiters_first(key, clock_mono_us())
    if a != NULL:
        memset(a, 0, sizeof(Awaited))
