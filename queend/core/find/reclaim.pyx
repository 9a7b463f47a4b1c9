# Reclaims the memory of deleted objects. In: objects of the catalog that were retired (find/retire). Out: their memory,
# two moves of the epoch later (base/epoch). Cached rows, leases, remembered ids, and places in the heap of due times
# and the list of scans go with it. Owner: the first worker, from its timer and at the end of a turn of its loop, when
# no caller holds a pointer. Locks: catalog.lock, then book.lock; idsets.lock alone.

cdef enum:
    RECLAIM_SLICE = 256       # cursors or partitions freed under one lock
    RECLAIM_SLICES = 16       # slices in a turn
    RECLAIM_TRIM = 65536      # freed cursors, 16 MB, after which memory is given back to the system

cdef int reclaim_freed        # cursors freed since then

# ---- the epoch -------------------------------------------------------------------------------------------------------

cdef void reclaim_seen(Worker* w, InboxMsg* m) noexcept nogil:
    # Notes that this worker has ended all it did before the move of the epoch.
    pin_set(&w.epoch_seen, epoch_now)

cdef bint reclaim_settled(Process* p) noexcept nogil:
    # Returns True if every worker has ended what it did before the last move of the epoch.
    cdef int i
    for i in range(p.n):
        if p.workers[i] is not leader and pin_count(&p.workers[i].epoch_seen) != epoch_now:
            return False
    return True

cdef bint reclaim_is_pinned(Process* p) noexcept nogil:
    # Returns True if a request or thread is pinned to another epoch than the current one. Requires book.lock.
    cdef int other = <int>((epoch_now + 1) & 1)
    cdef int i
    for i in range(p.n):
        if pin_count(&p.workers[i].pins[other]):
            return True
    return pin_count(&epoch_outside[other]) != 0

cdef void reclaim_tick(Worker* w) noexcept nogil:
    # Moves the epoch on if that frees memory. Runs twice a second.
    global epoch_now, epoch_blocked
    cdef Process* p = w.process
    cdef PopJob* wake = NULL
    cdef bint moved = False
    cdef bint buried
    cdef int i
    if w is not leader or not retire_is_empty(&catalog.due) or not reclaim_settled(p):
        return
    uv_rwlock_wrlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    retire_forgotten(&wake)
    retire_unused(&wake)
    buried = not (retire_is_empty(&catalog.retired[0]) and retire_is_empty(&catalog.retired[1]))
    epoch_blocked = buried and reclaim_is_pinned(p)
    if buried and not epoch_blocked:
        moved = True
        epoch_now += 1
        catalog.due = catalog_retired()[0]
        memset(catalog_retired(), 0, sizeof(Retired))
        w.reclaims = True
    uv_mutex_unlock(&book.lock)
    uv_rwlock_wrunlock(&catalog.lock)
    waiters_send(w, wake)
    if not moved:
        return
    for i in range(p.n):
        if p.workers[i] is not w:
            p.workers[i].epoch_msg.run = reclaim_seen
            # a worker that has ended sees no epoch: the close frees what is left
            worker_post(p.workers[i], &p.workers[i].epoch_msg)

# ---- freeing ---------------------------------------------------------------------------------------------------------
# The locks are held for a slice at a time. A turn frees at most RECLAIM_SLICES, so that no thread waits long.

cdef void reclaim_turn(Worker* w) noexcept nogil:
    global reclaim_freed
    cdef int i
    if w.ending or not reclaim_settled(w.process):
        return
    for i in range(RECLAIM_SLICES):
        w.reclaims = reclaim_slice(&catalog.due)
        if not w.reclaims:
            if reclaim_freed >= RECLAIM_TRIM:
                reclaim_freed = 0
                w.trim.grown = max(w.trim.grown, <int64_t>TRIM_LEAST)
            return
    uv_async_send(&w.inbox.wake)      # the rest with the next turn, which comes at once

cdef bint reclaim_slice(Retired* retired) noexcept nogil:
    # Frees one slice of the retired objects. Returns False if nothing is left.
    cdef Queue* q = retired.queues
    cdef Group* g = retired.groups
    if g != NULL:
        if reclaim_group(g):
            retired.groups = g.next
            table_free(&g.cursors)
            free(<void*>g.name.p)
            free(g)
            atomic_add64(&catalog.n_groups, -1)
    elif retired.partitions != NULL:
        reclaim_partitions(&retired.partitions)
    elif q != NULL and (q.group_list != NULL or q.all_partitions != NULL):
        retired.groups = q.group_list       # their cursors go before the partitions that they lead to
        retired.partitions = q.all_partitions
        q.group_list = NULL
        q.all_partitions = NULL
    elif q != NULL:
        retired.queues = q.next
        catalog_free_queue(q)
        atomic_add64(&catalog.n_queues, -1)
    return not retire_is_empty(retired)

cdef bint reclaim_group(Group* g) noexcept nogil:
    # Frees some cursors of a group. Returns True if all are freed; the group has left all lists.
    global reclaim_freed
    cdef int i
    uv_mutex_lock(&book.lock)
    group_unlist_scan(g)
    group_unlist(g)
    for i in range(RECLAIM_SLICE):
        if g.all_cursors != NULL:
            cursor_free(g.all_cursors)
            reclaim_freed += 1
    uv_mutex_unlock(&book.lock)
    return g.all_cursors == NULL

cdef void reclaim_partitions(Partition** list) noexcept nogil:
    # Frees at most RECLAIM_SLICE partitions, with their ids, their cached rows and the cursors that were retired with
    # them.
    cdef Partition* p = list[0]
    cdef Partition* following
    cdef Cursor* c
    cdef int n = 0
    uv_mutex_lock(&idsets.lock)
    while p != NULL and n < RECLAIM_SLICE:
        if p.idset != NULL:
            idset_drop(p.idset)
        p = <Partition*>p.link.next
        n += 1
    uv_mutex_unlock(&idsets.lock)
    p = list[0]
    uv_mutex_lock(&book.lock)
    while n:
        n -= 1
        while p.cache_first != NULL:
            rowcache_drop(p)
        while p.retired_cursors != NULL:
            c = p.retired_cursors
            p.retired_cursors = c.all_next
            cursor_free(c)
        following = <Partition*>p.link.next
        free(<void*>p.name.p)
        free(p)
        atomic_add64(&catalog.n_partitions, -1)
        p = following
    uv_mutex_unlock(&book.lock)
    list[0] = p

cdef void reclaim_all(Retired* retired) noexcept nogil:
    # Frees all of the retired objects at once. Requires that no worker runs.
    while reclaim_slice(retired):
        pass

cdef void reclaim_close() noexcept nogil:
    # Frees the catalog, in the order in which its objects were retired. Requires that no worker runs.
    reclaim_all(&catalog.due)
    reclaim_all(&catalog.retired[(epoch_now + 1) & 1])
    reclaim_all(catalog_retired())
    catalog.due.queues = catalog.list
    reclaim_all(&catalog.due)
    table_free(&catalog.by_name)
    table_free(&catalog.by_id)
    table_free(&catalog.partitions)
    catalog.loaded = False
    uv_rwlock_destroy(&catalog.lock)
