# Strangers: parked pops that no group's list can hold, because their queue or partition is not known yet or because
# they ask for a namespace or task. In: who waits for what. Out: those to whom a queue's news is news. They stand in one
# list per thing waited for (a queue's name, or a namespace with a task), found by its hash: news of one queue costs
# nothing for those who wait for another. Guarded by the book's lock.

cdef struct Strangers:
    Strangers* same_hash
    uint64_t hash
    bint any_queue
    Slice name                # of the queue; any_queue: the namespace, empty for all
    Slice task
    PopJob* first
    PopJob* last

cdef inline uint64_t strangers_hash(bint any_queue, Slice name, Slice task) noexcept nogil:
    return (hash_mix(slice_hash(name, catalog.hash_seed) + any_queue) + slice_hash(task, catalog.hash_seed)) | 1

cdef Strangers* strangers_find(bint any_queue, Slice name, Slice task) noexcept nogil:
    cdef Strangers* s = <Strangers*>table_get(&book.strangers, strangers_hash(any_queue, name, task))
    while s != NULL and not (s.any_queue == any_queue and slice_eq(s.name, name) and slice_eq(s.task, task)):
        s = s.same_hash
    return s

cdef inline Strangers* strangers_of(PopJob* j) noexcept nogil:
    return strangers_find(j.any_queue, j.req.ns if j.any_queue else j.req.queue,
                          j.req.task if j.any_queue else slice_of(NULL, 0))

cdef bint strangers_park(PopJob* j) noexcept nogil:
    # False when memory ran out.
    cdef Strangers* s = strangers_of(j)
    if s == NULL:
        s = <Strangers*>calloc(1, sizeof(Strangers))
        if s == NULL:
            return False
        s.any_queue = j.any_queue
        s.name = slice_keep(j.req.ns if j.any_queue else j.req.queue)
        s.task = slice_keep(j.req.task if j.any_queue else slice_of(NULL, 0))
        s.hash = strangers_hash(s.any_queue, s.name, s.task)
        s.same_hash = <Strangers*>table_get(&book.strangers, s.hash)
        if s.name.p == NULL or s.task.p == NULL or not table_put(&book.strangers, s.hash, s):
            free(<void*>s.name.p)
            free(<void*>s.task.p)
            free(s)
            return False
    waiters_add(&s.first, &s.last, j)
    book.n_strangers += 1
    return True

cdef void strangers_unpark(PopJob* j) noexcept nogil:
    # The list goes with the last of it.
    cdef Strangers* s = strangers_of(j)
    cdef Strangers* at
    waiters_del(&s.first, &s.last, j)
    book.n_strangers -= 1
    if s.first != NULL:
        return
    at = <Strangers*>table_get(&book.strangers, s.hash)
    if at is not s:
        while at.same_hash is not s:
            at = at.same_hash
        at.same_hash = s.same_hash
    elif s.same_hash != NULL:
        table_put(&book.strangers, s.hash, s.same_hash)
    else:
        table_del(&book.strangers, s.hash)
    free(<void*>s.name.p)
    free(<void*>s.task.p)
    free(s)

cdef void strangers_wake(Strangers* s, Slice partition, PopJob** wake) noexcept nogil:
    # All of a list; with a partition, only those that named it or none. The list may be gone afterwards.
    cdef PopJob* j = s.first if s != NULL else NULL
    cdef PopJob* following
    while j != NULL:
        following = j.wait_next
        if partition.p == NULL or j.want_partition.p == NULL or slice_eq(j.want_partition, partition):
            wake_push(j, wake)
        j = following

cdef void book_wake_strangers(Queue* q, Slice partition, PopJob** wake) noexcept nogil:
    # News of a queue, or (with a name) of one partition of it: pops of that name, and of what it is filed under.
    cdef Slice none = slice_of(NULL, 0)
    strangers_wake(strangers_find(False, q.name, none), partition, wake)
    if q.dead:
        return
    strangers_wake(strangers_find(True, q.ns, q.task), none, wake)
    strangers_wake(strangers_find(True, q.ns, none), none, wake)
    strangers_wake(strangers_find(True, none, q.task), none, wake)
    strangers_wake(strangers_find(True, none, none), none, wake)

cdef void book_wake_known(PopJob** wake) noexcept nogil:
    # All who wait for a namespace or task, or for something of a queue that is known by now. Those of unknown queues
    # keep their places. Catalog and book locked.
    cdef size_t i = 0
    cdef Strangers* s
    while book.n_strangers and i <= book.strangers.mask:
        s = <Strangers*>book.strangers.cells[i].value if book.strangers.cells[i].key else NULL
        while s != NULL and not s.any_queue and catalog_queue(s.name) == NULL:
            s = s.same_hash
        if s == NULL:
            i += 1
        else:
            strangers_wake(s, slice_of(NULL, 0), wake)      # it leaves the table, and another may take its cell

cdef void book_wake_all_strangers(PopJob** wake) noexcept nogil:
    cdef size_t i = 0
    while book.n_strangers and i <= book.strangers.mask:
        if book.strangers.cells[i].key == 0:
            i += 1
        else:
            # it leaves the table, and another may take its cell
            strangers_wake(<Strangers*>book.strangers.cells[i].value, slice_of(NULL, 0), wake)
