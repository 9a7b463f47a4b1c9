# Retires objects that were deleted in the database, and groups that pops have stopped asking for. In: rows of
# catalog_load; groups in the order of their last pops (ready/groups). Out: the catalog as the database has it; waiters
# of retired objects; the objects, for find/reclaim. Locks: catalog.lock for writing (retire_apply takes it, the other
# functions require it), then book.lock.

# ---- a reload of the catalog -----------------------------------------------------------------------------------------

# Columns of catalog_load.
cdef enum:
    CATALOG_VERSION = 0
    CATALOG_SEED
    CATALOG_QUEUE             # NULL: there are no queues
    CATALOG_EPOCH
    CATALOG_NAME
    CATALOG_NAMESPACE
    CATALOG_TASK
    CATALOG_LEASE_TIME
    CATALOG_RETRY_LIMIT
    CATALOG_RETRY_DELAY
    CATALOG_DELAYED
    CATALOG_WINDOW_BUFFER
    CATALOG_MAX_SIZE
    CATALOG_ENCRYPTION
    CATALOG_PRIORITY
    CATALOG_TTL
    CATALOG_CLEANED
    CATALOG_CLEANED_LAST
    CATALOG_PAUSED
    CATALOG_RATE_US
    CATALOG_RATE_BURST
    CATALOG_SHARED
    CATALOG_SPREAD

cdef void retire_apply(PGresult* res, PopJob** wake) noexcept nogil:
    # Takes all rows of catalog_load: replaces options, retires queues that are gone, forgets groups of a new epoch. In
    # `wake`: pops that waited for retired objects of living queues; reload_wake_queues wakes the others.
    cdef int i, n = PQntuples(res)
    cdef int sealed = 0
    cdef int limited = 0
    cdef Queue* shared = NULL
    cdef bint whole = True
    cdef Queue* q
    cdef Queue* following
    cdef Group* g
    cdef int64_t version, delay_us, window_us
    cdef Slice s
    uv_rwlock_wrlock(&catalog.lock)
    catalog.mark += 1
    version = pg_int8(res, 0, CATALOG_VERSION) if n else catalog.version
    if n:
        s = pg_bytes(res, 0, CATALOG_SEED)
        if s.n == 16 and memcmp(catalog.seed, s.p, 16) != 0:      # it is read without the lock
            memcpy(catalog.seed, s.p, 16)
    for i in range(n):
        if PQgetisnull(res, i, CATALOG_QUEUE):
            continue
        q = catalog_add_queue(pg_int4(res, i, CATALOG_QUEUE), pg_bytes(res, i, CATALOG_NAME))
        if q == NULL:
            whole = False
            continue
        q.mark = catalog.mark
        if q.epoch != pg_int4(res, i, CATALOG_EPOCH):
            retire_forget_groups(q)
            q.moved_us = clock_mono_us()
            q.epoch = pg_int4(res, i, CATALOG_EPOCH)
            q.changed = True
        whole = retire_set_namespace(q, pg_bytes(res, i, CATALOG_NAMESPACE), pg_bytes(res, i, CATALOG_TASK)) and whole
        q.lease_us = <int64_t>pg_int4(res, i, CATALOG_LEASE_TIME) * 1000000
        if q.lease_us <= 0:
            q.lease_us = 60000000
        q.retry_limit = pg_int4(res, i, CATALOG_RETRY_LIMIT)
        delay_us = <int64_t>pg_int4(res, i, CATALOG_DELAYED) * 1000000
        window_us = <int64_t>pg_int4(res, i, CATALOG_WINDOW_BUFFER) * 1000000
        if delay_us != q.delay_us or window_us != q.window_us:
            q.changed = True      # these two decide when a pop is tried, other options count when it is
        q.delay_us = delay_us
        q.window_us = window_us
        q.max_size = pg_int4(res, i, CATALOG_MAX_SIZE)
        limited += 1 if q.max_size > 0 else 0
        q.sealed = pg_bool(res, i, CATALOG_ENCRYPTION)
        sealed += 1 if q.sealed else 0
        q.priority = pg_int4(res, i, CATALOG_PRIORITY)
        q.ttl_us = <int64_t>pg_int4(res, i, CATALOG_TTL) * 1000000
        if retire_set_slice(&q.paused, pg_bytes(res, i, CATALOG_PAUSED)):
            q.changed = True
            g = q.group_list
            while g != NULL:      # their waiters are woken after this (reload_wake_queues)
                g.paused = catalog_paused(q, g.id)
                g = g.next
            whole = whole and slice_eq(q.paused, pg_bytes(res, i, CATALOG_PAUSED))
        q.spread = pg_int4(res, i, CATALOG_SPREAD)
        if q.spread:
            catalog.spreads = True
        q.rate_us = pg_int8(res, i, CATALOG_RATE_US)
        q.rate_burst = pg_int4(res, i, CATALOG_RATE_BURST)
        if q.shared != pg_int8(res, i, CATALOG_SHARED):
            q.shared = pg_int8(res, i, CATALOG_SHARED)
            q.changed = True      # pops that wait for tokens ask anew
            rates_changed(q)
        if q.shared:
            q.shared_next = shared
            shared = q
        retire_idle(q, pg_int8(res, i, CATALOG_CLEANED), pg_bytes(res, i, CATALOG_CLEANED_LAST), wake)
    catalog.shared = shared
    q = catalog.list
    while q != NULL:
        following = q.next
        if q.mark != catalog.mark and q.born <= catalog.reload_from:
            catalog_retire(q)
        q = following
    catalog.n_sealed = sealed
    catalog.n_limited = limited
    catalog.version = version if whole else VERSION_NONE        # the next statement asks for it again
    catalog.loaded = True
    uv_rwlock_wrunlock(&catalog.lock)

cdef bint retire_set_slice(Slice* at, Slice s) noexcept nogil:
    cdef Slice kept
    if slice_eq(at[0], s):
        return False
    kept = slice_keep(s)
    if kept.p != NULL:
        free(<void*>at.p)
        at[0] = kept
    return True

cdef bint retire_set_namespace(Queue* q, Slice ns, Slice task) noexcept nogil:
    # Sets the namespace and task of a queue. Returns False if memory ran out. Wakers read them under book.lock alone.
    if slice_eq(q.ns, ns) and slice_eq(q.task, task):
        return True
    uv_mutex_lock(&book.lock)
    retire_set_slice(&q.ns, ns)
    retire_set_slice(&q.task, task)
    uv_mutex_unlock(&book.lock)
    q.changed = True
    return slice_eq(q.ns, ns) and slice_eq(q.task, task)

# ---- partitions ------------------------------------------------------------------------------------------------------
# A retired object is found neither by its name or id, nor through a living object. A cursor leads to its partition and
# its group. So a partition or group that is retired alone takes its cursors out of all lists that live on.

cdef void retire_idle(Queue* q, int64_t cleaned, Slice last, PopJob** wake) noexcept nogil:
    # Forgets idle partitions that were removed since the last reload; all of the queue's if some are not among the
    # `last`. Their names may belong to other partitions by now, which are looked up when they are needed.
    cdef int64_t i
    cdef int64_t n = cleaned - q.cleaned
    cdef Partition* p
    if n == 0:
        return
    q.cleaned = cleaned
    q.changed = True          # pops that wait for one of them look again
    catalog.cleanings += 1
    if n * 4 > <int64_t>last.n:
        retire_all_partitions(q, wake)
        return
    for i in range(<int64_t>last.n // 4 - n, <int64_t>last.n // 4):
        p = catalog_partition_id(<int32_t>be32(last.p + 4 * i))
        if p != NULL and p.queue is q:
            p.dead = True
            table_del(&catalog.partitions, <uint32_t>p.id)
            catalog_unchain(&q.partitions, catalog_hash(p.name), p, &p.same_hash)
            retire_partition(q, p, wake)

cdef void retire_all_partitions(Queue* q, PopJob** wake) noexcept nogil:
    # Retires all partitions of a queue that lives on, and its groups with them. A pop finds its group again, without
    # the former cursors.
    cdef Group* g
    catalog_forget_partitions(q)
    if q.all_partitions == NULL:
        return
    q.last_partition.link.next = <Link*>catalog_retired().partitions
    catalog_retired().partitions = q.all_partitions
    q.all_partitions = NULL
    q.last_partition = NULL
    uv_mutex_lock(&book.lock)
    while q.group_list != NULL:
        g = q.group_list
        q.group_list = g.next
        retire_group(g, wake)
    uv_mutex_unlock(&book.lock)
    table_clear(&q.groups)

cdef void retire_partition(Queue* q, Partition* p, PopJob** wake) noexcept nogil:
    # Retires one partition of a queue that lives on. Takes book.lock.
    cdef Group* g = q.group_list
    cdef Cursor* c
    link_del(<Links*>&q.all_partitions, &p.link)
    p.link.next = <Link*>catalog_retired().partitions
    catalog_retired().partitions = p
    uv_mutex_lock(&book.lock)
    while g != NULL:
        c = <Cursor*>table_del(&g.cursors, <uint32_t>p.id)
        if c != NULL:
            cursor_retire(c, wake)
        g = g.next
    uv_mutex_unlock(&book.lock)

# ---- groups ----------------------------------------------------------------------------------------------------------
# A holder of a retired object may use it to the end. The cursors, partitions and groups of a retired queue lead to one
# another only. Their cursors, rows, ids and scans leave the process-wide lists when they are freed.

cdef void retire_group(Group* g, PopJob** wake) noexcept nogil:
    # Retires a group and wakes its waiters. Requires book.lock, and that the group is out of its queue's list.
    g.dead = True
    g.queue.n_groups -= 1
    waiters_wake_group(g, wake)
    group_unlist_scan(g)
    g.next = catalog_retired().groups
    catalog_retired().groups = g

cdef void retire_forget_groups(Queue* q) noexcept nogil:
    # Forgets the groups of a queue: they may have been deleted, or their cursors moved by hand. Pops resolve them
    # again, and what the book knows of them is void.
    cdef Group* g = q.group_list
    if g != NULL:
        catalog.n_forgotten += q.forgotten_us == 0
        q.forgotten_us = clock_mono_us()
    uv_mutex_lock(&book.lock)
    atomic_set64(&book.forgets, book.forgets + 1)
    while g != NULL:
        if not g.dead:
            g.dead = True
            index_forget(g)
        g = g.next
    uv_mutex_unlock(&book.lock)
    table_clear(&q.groups)

cdef void retire_forgotten(PopJob** wake) noexcept nogil:
    # Retires groups that were forgotten more than FORGOTTEN_US ago and not found again. Requires book.lock.
    cdef Queue* q = catalog.list if catalog.n_forgotten else NULL
    cdef Group* g
    cdef Group* following
    cdef int64_t now = clock_mono_us()
    while q != NULL:
        if q.forgotten_us and now - q.forgotten_us > FORGOTTEN_US:
            q.forgotten_us = 0
            catalog.n_forgotten -= 1
            g = q.group_list
            while g != NULL:
                following = g.next
                if g.dead:
                    retire_unlist_group(g)
                    retire_group(g, wake)
                g = following
        q = q.next

cdef void retire_unused(PopJob** wake) noexcept nogil:
    # Retires groups that no pop waits for or asked for recently, while there are more than CURSORS_KEPT cursors; above
    # CURSORS_MOST also those asked for recently. Waits until the cursors of groups retired before are freed, because
    # n_cursors counts them until then. At most UNUSED_TURN groups go at once. Requires book.lock.
    cdef int n = 0
    cdef int over = book.n_cursors - CURSORS_KEPT
    cdef Group* g
    book.ticks += 1
    if over <= 0 or not (retire_is_empty(&catalog.retired[0]) and retire_is_empty(&catalog.retired[1])):
        return
    while over > 0 and n < UNUSED_TURN:
        n += 1
        g = group_next_unused(over > CURSORS_MOST - CURSORS_KEPT)
        if g == NULL:
            return
        over -= <int>g.cursors.used
        retire_unlist_group(g)
        catalog_unchain(&g.queue.groups, catalog_hash(g.name), g, &g.same_hash)
        retire_group(g, wake)

cdef inline void retire_unlist_group(Group* g) noexcept nogil:
    # Takes the group out of the list of its queue, which may have thousands.
    if g.prev != NULL:
        g.prev.next = g.next
    else:
        g.queue.group_list = g.next
    if g.next != NULL:
        g.next.prev = g.prev
    g.prev = NULL

cdef inline bint retire_is_empty(Retired* g) noexcept nogil:
    return g.groups == NULL and g.partitions == NULL and g.queues == NULL
