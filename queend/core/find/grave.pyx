# Frees what was deleted. In: what the catalog buried. Out: its memory, two moves of the era later (base/era). Cached
# rows, leases, remembered ids, and places in the heap of due times and the list of scans go with it. Owner: the first
# worker, from its timer and at the end of a turn of its loop, when no caller holds a pointer. Locks: book.lock and
# idsets.lock, for a slice at a time; a turn frees at most GRAVE_SLICES, so that no thread waits long.

cdef enum:
    GRAVE_SLICE = 256         # cursors or partitions freed under one lock
    GRAVE_SLICES = 16         # slices in a turn

cdef inline bint grave_is_empty(Grave* g) noexcept nogil:
    return g.groups == NULL and g.partitions == NULL and g.queues == NULL

cdef void era_told(Worker* w, InboxMsg* m) noexcept nogil:
    # Notes that this worker has ended all it did before the move of the era.
    pin_set(&w.era_seen, era_now)

cdef bint era_settled(Process* p) noexcept nogil:
    # Returns True if every worker has ended what it did before the last move of the era.
    cdef int i
    for i in range(p.n):
        if p.workers[i] is not boss and pin_count(&p.workers[i].era_seen) != era_now:
            return False
    return True

cdef bint era_lasts(Process* p) noexcept nogil:
    # Returns True if a request or thread is pinned to another era than the current one. Requires book.lock.
    cdef int other = <int>((era_now + 1) & 1)
    cdef int i
    for i in range(p.n):
        if pin_count(&p.workers[i].pins[other]):
            return True
    return pin_count(&era_outside[other]) != 0

cdef void era_tick(Worker* w) noexcept nogil:
    # Moves the era on if that frees memory. Runs twice a second.
    global era_now, era_blocked
    cdef Process* p = w.process
    cdef PopJob* wake = NULL
    cdef bint moved = False
    cdef bint buried
    cdef int i
    if w is not boss or not grave_is_empty(&catalog.due) or not era_settled(p):
        return
    uv_rwlock_wrlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    catalog_bury_groups(&wake)
    catalog_bury_unused(&wake)
    buried = not (grave_is_empty(&catalog.graves[0]) and grave_is_empty(&catalog.graves[1]))
    era_blocked = buried and era_lasts(p)
    if buried and not era_blocked:
        moved = True
        era_now += 1
        catalog.due = grave_open()[0]
        memset(grave_open(), 0, sizeof(Grave))
        w.digs = True
    uv_mutex_unlock(&book.lock)
    uv_rwlock_wrunlock(&catalog.lock)
    popjobs_wake(w, wake)
    if not moved:
        return
    for i in range(p.n):
        if p.workers[i] is not w:
            p.workers[i].told_era.run = era_told
            # a worker that has ended sees no era: the close frees what is left
            worker_post(p.workers[i], &p.workers[i].told_era)

# ---- freeing -------------------------------------------------------------------------------------------------------

cdef void grave_turn(Worker* w) noexcept nogil:
    cdef int i
    if w.ending or not era_settled(w.process):
        return
    for i in range(GRAVE_SLICES):
        w.digs = grave_slice(&catalog.due)
        if not w.digs:
            return
    uv_async_send(&w.inbox.wake)      # the rest with the next turn, which comes at once

cdef bint grave_slice(Grave* grave) noexcept nogil:
    # Frees one slice of a grave. Returns False if nothing is left.
    cdef Queue* q = grave.queues
    cdef Group* g = grave.groups
    if g != NULL:
        if group_emptied(g):
            grave.groups = g.next
            group_free(g)
    elif grave.partitions != NULL:
        partitions_emptied(&grave.partitions)
    elif q != NULL:
        g = q.group_list
        if g != NULL:
            # cursors of all groups go before the partitions that they lead to
            if group_emptied(g):
                q.group_list = g.next
                group_free(g)
        elif q.all_partitions != NULL:
            partitions_emptied(&q.all_partitions)
        else:
            grave.queues = q.next
            queue_free(q)
            catalog.n_queues -= 1
    return not grave_is_empty(grave)

cdef bint group_emptied(Group* g) noexcept nogil:
    # Frees some cursors of a group. Returns True if all are freed; the group has left all lists.
    cdef int i
    uv_mutex_lock(&book.lock)
    scan_unlist(g)
    unused_leave(g)
    for i in range(GRAVE_SLICE):
        if g.all_cursors != NULL:
            cursor_free(g.all_cursors)
    uv_mutex_unlock(&book.lock)
    return g.all_cursors == NULL

cdef void partitions_emptied(Partition** list) noexcept nogil:
    # Frees at most GRAVE_SLICE partitions, with their ids, their cached rows and the cursors that were buried with
    # them.
    cdef Partition* p = list[0]
    cdef Partition* following
    cdef Cursor* c
    cdef int n = 0
    uv_mutex_lock(&idsets.lock)
    while p != NULL and n < GRAVE_SLICE:
        if p.idset != NULL:
            idset_drop(p.idset)
        p = p.all_next
        n += 1
    uv_mutex_unlock(&idsets.lock)
    p = list[0]
    uv_mutex_lock(&book.lock)
    while n:
        n -= 1
        while p.cache_first != NULL:
            rowcache_drop(p)
        while p.buried != NULL:
            c = p.buried
            p.buried = c.all_next
            cursor_free(c)
        following = p.all_next
        partition_free(p)
        p = following
    uv_mutex_unlock(&book.lock)
    list[0] = p

cdef void grave_empty(Grave* grave) noexcept nogil:
    # Frees a whole grave at once. Requires that no worker runs.
    while grave_slice(grave):
        pass
