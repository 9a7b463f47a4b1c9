# The catalog: what this process knows of queues, partitions and groups, by name and by id. In: rows of catalog_load,
# resolve, group_resolve and the finders. Out: pointers, valid while their holder is pinned (base/epoch). Owner: the
# process. Locks: catalog.lock guards the tables, book.lock what the pop side keeps in them (cursors, waiters, heads),
# capacity_lock the sizes, reload_lock the state of reloads. Lock order: catalog.lock, then book.lock, then an inbox.
# Retired objects are marked dead at once, and freed later (find/reclaim).

cdef struct Retired:          # freed in this order: each list points to members of the next
    Group* groups
    Partition* partitions
    Queue* queues

cdef struct Catalog:
    uv_rwlock_t lock
    int64_t version           # VERSION_NONE: all of it was dropped, the reload is still to come
    # incarnation of the server that it describes; read with the lock, or for a look that a later one confirms
    SharedInt64 incarnation
    SharedFlag loaded
    unsigned char[16] seed
    Table by_name
    Table by_id
    Table partitions
    Queue* list
    Queue* shared             # queues with rates over all partitions
    Retired[2] retired        # by the epoch of the retirement
    Retired due               # may be freed; the first worker's
    # Counts of what is in memory, retired entries among them. Entries are added and freed under different locks, so the
    # counts change by atomic_add64 alone.
    int64_t n_queues
    int64_t n_partitions
    int64_t n_groups
    int n_forgotten           # queues with groups that may have been deleted
    uint32_t mark
    uint64_t additions
    # reloads that told of removed partitions: a look-up in flight may still know one
    SharedInt64 cleanings
    SharedInt n_sealed              # encrypted queues
    SharedInt n_limited             # queues with a bound (maxSize)
    SharedFlag spreads              # a queue has no order, or had none since this process began
    uint64_t reload_from      # additions when the running reload was sent: it may not have seen later ones

cdef enum:
    FORGOTTEN_US = 2000000    # a forgotten group that is not found again for so long is retired

cdef Catalog catalog
cdef int tally_workers = 1

# ---- memory ----------------------------------------------------------------------------------------------------------

cdef void catalog_open() noexcept nogil:
    memset(&catalog, 0, sizeof(catalog))
    memset(epoch_outside, 0, sizeof(epoch_outside))
    uv_rwlock_init(&catalog.lock)

cdef inline uint64_t catalog_hash(Slice name) noexcept nogil:
    return slice_hash(name, hash_seed) | 1

cdef void catalog_free_queue(Queue* q) noexcept nogil:
    # Frees a queue, without its partitions and groups.
    table_free(&q.partitions)
    table_free(&q.groups)
    free(<void*>q.name.p)
    free(<void*>q.ns.p)
    free(<void*>q.task.p)
    free(<void*>q.paused.p)
    free(q.tally)
    free(q)

# ---- additions: require catalog.lock for writing ---------------------------------------------------------------------

cdef Queue* catalog_add_queue(int32_t id, Slice name) noexcept nogil:
    # Finds or adds a queue by name. A queue of that name with an older id was deleted elsewhere: it is retired first.
    # Returns NULL if memory ran out or the answer is outdated: the job that misses the name asks again.
    cdef Queue* q = catalog_queue(name)
    cdef uint64_t h = catalog_hash(name)
    cdef Slice ns
    if q != NULL:
        if q.id == id:
            return q
        if q.id > id:
            return NULL       # ids only grow: this answer is older than the queue that has the name now
        catalog_retire(q)
    q = <Queue*>calloc(1, sizeof(Queue))
    if q == NULL:
        return NULL
    q.id = id
    q.tally = <Tally*>aligned_alloc(64, <size_t>tally_workers * sizeof(Tally))
    if q.tally != NULL:
        memset(q.tally, 0, <size_t>tally_workers * sizeof(Tally))
    q.name = slice_keep(name)
    # as creation by push stores them: the first and the second part of the name, separated by dots
    ns = slice_until(name, b'.')
    q.ns = slice_keep(ns)
    q.task = slice_keep(slice_until(slice_from(name, min(ns.n + 1, name.n)), b'.'))
    q.same_hash = <Queue*>table_get(&catalog.by_name, h)
    if (q.tally == NULL or q.name.p == NULL or q.ns.p == NULL or q.task.p == NULL
        or not table_put(&catalog.by_id, <uint32_t>id, q)
            or not table_put(&catalog.by_name, h, q)):
        table_del(&catalog.by_id, <uint32_t>id)
        catalog_free_queue(q)
        return NULL
    atomic_add64(&catalog.n_queues, 1)
    catalog.additions += 1
    q.born = catalog.additions
    q.changed = True
    q.lease_us = 300000000
    q.retry_limit = 3
    q.spread_turn = <int64_t>(hash_seed & 0xffff)       # where it begins differs from daemon to daemon
    # The epoch is 0, that of a new queue. If the queue has another one, the next reload forgets what came in between.
    q.next = catalog.list
    catalog.list = q
    return q

cdef Partition* catalog_add_partition(Queue* q, int32_t id, Slice name) noexcept nogil:
    cdef Partition* p = catalog_partition_id(id)
    cdef uint64_t h = catalog_hash(name)
    cdef unsigned char[16] uuid
    if p != NULL:
        return p
    p = <Partition*>calloc(1, sizeof(Partition))
    if p == NULL:
        return NULL
    p.name = slice_keep(name)
    p.same_hash = <Partition*>table_get(&q.partitions, h)
    if p.name.p == NULL or not table_put(&catalog.partitions, <uint32_t>id, p) or not table_put(&q.partitions, h, p):
        table_del(&catalog.partitions, <uint32_t>id)
        free(<void*>p.name.p)
        free(p)
        return NULL
    p.id = id
    p.queue = q
    uuid_serial(catalog.seed, b'p', id, uuid)
    uuid_format(uuid, p.uuid)
    link_add(<Links*>&q.all_partitions, &p.link)
    atomic_add64(&catalog.n_partitions, 1)
    return p

cdef Group* catalog_add_group(Queue* q, int32_t id, Slice name, bint conflates) noexcept nogil:
    cdef Group* g = catalog_group(q, name)
    cdef uint64_t h = catalog_hash(name)
    if g != NULL:
        return g
    g = q.group_list
    while g != NULL and not (g.dead and g.id == id):
        g = g.next
    if g != NULL:             # forgotten, and found again: it was not deleted
        g.same_hash = <Group*>table_get(&q.groups, h)
        if not table_put(&q.groups, h, g):
            return NULL
        g.dead = False
        g.paused = catalog_paused(q, id)
        if g.scan == SCAN_DONE:       # later commits did not reach its cursors
            g.scan = SCAN_WANTED
        elif g.scan != SCAN_WANTED:
            g.scan_twice = True
        return g
    g = <Group*>calloc(1, sizeof(Group))
    if g == NULL:
        return NULL
    g.id = id
    g.conflates = conflates
    g.queue = q
    g.paused = catalog_paused(q, id)
    g.name = slice_keep(name)
    g.same_hash = <Group*>table_get(&q.groups, h)
    if g.name.p == NULL or not table_put(&q.groups, h, g):
        free(<void*>g.name.p)
        free(g)
        return NULL
    g.next = q.group_list
    if g.next != NULL:
        g.next.prev = g
    q.group_list = g
    q.n_groups += 1
    atomic_add64(&catalog.n_groups, 1)
    return g

# ---- look-ups: require catalog.lock for reading or writing -----------------------------------------------------------

cdef Queue* catalog_queue(Slice name) noexcept nogil:
    cdef Queue* q = <Queue*>table_get(&catalog.by_name, catalog_hash(name))
    while q != NULL and not slice_eq(q.name, name):
        q = q.same_hash
    return q

cdef inline Queue* catalog_queue_id(int32_t id) noexcept nogil:
    return <Queue*>table_get(&catalog.by_id, <uint32_t>id)

cdef Partition* catalog_partition(Queue* q, Slice name) noexcept nogil:
    cdef Partition* p = <Partition*>table_get(&q.partitions, catalog_hash(name))
    while p != NULL and not slice_eq(p.name, name):
        p = p.same_hash
    return p

cdef Partition* catalog_place(Slice queue, Slice name, Queue** q) noexcept nogil:
    # Returns a partition by both names. q: the queue that was looked up last, or NULL; it becomes this one.
    if q[0] == NULL or not slice_eq(q[0].name, queue):
        q[0] = catalog_queue(queue)
    return catalog_partition(q[0], name) if q[0] != NULL else NULL

cdef inline Partition* catalog_partition_id(int32_t id) noexcept nogil:
    return <Partition*>table_get(&catalog.partitions, <uint32_t>id)

cdef Group* catalog_group(Queue* q, Slice name) noexcept nogil:
    cdef Group* g = <Group*>table_get(&q.groups, catalog_hash(name))
    while g != NULL and not slice_eq(g.name, name):
        g = g.same_hash
    return g

cdef Group* catalog_group_id(Queue* q, int32_t id) noexcept nogil:
    # Returns a group of the queue by id; NULL if it is unknown or forgotten. Requires catalog.lock or book.lock.
    cdef Group* g = q.group_list
    while g != NULL and (g.dead or g.id != id):
        g = g.next
    return g

cdef Partition* catalog_ids(int32_t partition, Slice group, Group** g) noexcept nogil:
    # Looks up what an acknowledgment names: a partition by id, which is returned, and a group of its queue.
    cdef Partition* p = catalog_partition_id(partition)
    g[0] = catalog_group(p.queue, group) if p != NULL else NULL
    return p

cdef bint catalog_paused(Queue* q, int32_t group) noexcept nogil:
    # Returns True if a group of this id is paused, by itself or with all of the queue.
    cdef size_t i
    cdef uint32_t id
    for i in range(0, q.paused.n & ~<size_t>3, 4):
        id = be32(q.paused.p + i)
        if id == GROUP_EVERY or id == <uint32_t>group:
            return True
    return False

# ---- retired queues: require catalog.lock for writing (partitions and groups: find/retire) ---------------------------

cdef inline Retired* catalog_retired() noexcept nogil:
    return &catalog.retired[epoch_now & 1]

cdef void catalog_unchain(Table* t, uint64_t h, void* one, void* link) noexcept nogil:
    # Takes an entry out of the chain of entries with the same hash. link: its pointer to the next one. All entries of
    # the table have that pointer at the same offset.
    cdef size_t at = <size_t>(<char*>link - <char*>one)
    cdef void* following = (<void**>link)[0]
    cdef char* before = <char*>table_get(t, h)
    if before is not <char*>one:
        while before != NULL and (<void**>(before + at))[0] is not one:
            before = <char*>(<void**>(before + at))[0]
        if before != NULL:
            (<void**>(before + at))[0] = following
    elif following != NULL:
        table_put(t, h, following)
    else:
        table_del(t, h)

cdef void catalog_retire(Queue* q) noexcept nogil:
    # Retires a queue with all that belongs to it.
    cdef Queue** link
    q.dead = True
    q.changed = True
    catalog_unchain(&catalog.by_name, catalog_hash(q.name), q, &q.same_hash)
    table_del(&catalog.by_id, <uint32_t>q.id)
    catalog_forget_partitions(q)
    link = &catalog.list
    while link[0] != NULL and link[0] is not q:
        link = &link[0].next
    if link[0] != NULL:
        link[0] = q.next
    link = &catalog.shared
    while link[0] != NULL and link[0] is not q:
        link = &link[0].shared_next
    if link[0] != NULL:
        link[0] = q.shared_next
    if q.forgotten_us:
        q.forgotten_us = 0
        catalog.n_forgotten -= 1
    q.next = catalog_retired().queues
    catalog_retired().queues = q

cdef void catalog_forget_partitions(Queue* q) noexcept nogil:
    # Removes all partitions of a queue from the tables of names and ids.
    cdef Partition* p = q.all_partitions
    while p != NULL:
        p.dead = True
        table_del(&catalog.partitions, <uint32_t>p.id)
        p = <Partition*>p.link.next
    table_free(&q.partitions)

# ---- sizes -----------------------------------------------------------------------------------------------------------
# Sizes of queues with a bound (maxSize), as far as they were asked for; push/capacity counts between answers. In:
# answers of queue_sizes. Out: Queue.capacity. capacity_lock is taken alone or below catalog.lock, and released before
# any other lock is taken.

cdef uv_mutex_t capacity_lock

cdef int64_t catalog_size_mark(int32_t queue) noexcept nogil:
    # Returns what this process has stored in the queue so far: an answer asked for from now on holds at least that.
    # Requires catalog.lock.
    cdef Queue* q = catalog_queue_id(queue)
    cdef int64_t stored = 0
    if q != NULL:
        uv_mutex_lock(&capacity_lock)
        stored = q.capacity.stored
        uv_mutex_unlock(&capacity_lock)
    return stored

cdef void catalog_size_learn(int32_t queue, int64_t size, int32_t most, int64_t mark, int64_t asked_us) noexcept nogil:
    # Takes an answer of queue_sizes, unless one that was asked for later came already. Requires catalog.lock for
    # writing.
    cdef Queue* q = catalog_queue_id(queue)
    if q == NULL:
        return
    uv_mutex_lock(&capacity_lock)
    q.capacity.wanted = False
    if asked_us > q.capacity.asked_us:
        q.max_size = most     # the bound may have changed since the catalog was loaded
        q.capacity.answer = size - mark
        q.capacity.asked_us = asked_us
        q.capacity.took_us = clock_mono_us() - asked_us
    uv_mutex_unlock(&capacity_lock)

# ---- reload ----------------------------------------------------------------------------------------------------------
# In: a call that found the catalog out of date. Out: one reload for the whole process (run/reload).

cdef uv_mutex_t reload_lock

cdef SharedFlag reload_running    # set under reload_lock
cdef const Verdict* reload_error  # by the server, of the last reload; NULL: it succeeded

cdef SharedInt64 reload_at        # monotonic, when the last reload ended

cdef SharedInt64 reload_of        # when the last reload that was answered began

cdef void catalog_want_reload(Worker* w) noexcept nogil:
    # Wants a reload of the catalog. The process runs one reload at a time; all workers hear of its end.
    engine_of(w).want_reload = True
