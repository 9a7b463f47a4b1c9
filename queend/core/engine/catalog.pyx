# The catalog: what this process knows of queues, partitions and groups, by name and by id. In: rows of catalog_load,
# resolve, group_resolve and the finders. Out: pointers that stay valid while who looked them up is pinned (net/era): what is
# deleted is unlinked and marked dead at once, and freed later (engine/grave).
# Owner: the process. The tables are guarded by `lock`; what the pop side keeps in them (cursors, waiters, heads) by the
# book's mutex. Lock order: catalog.lock, then book.lock, then an inbox.

cdef struct Grave:            # freed in this order: what stands in one points to what stands in the next
    Group* groups
    Partition* partitions
    Queue* queues

cdef struct Catalog:
    uv_rwlock_t lock
    int64_t version           # -1: all of it was dropped, the reload is still to come
    int64_t server            # the incarnation of the server that it tells of
    SharedFlag loaded
    unsigned char[16] seed
    uint64_t hash_seed
    Table by_name
    Table by_id
    Table partitions
    Queue* list
    Grave[2] graves           # by the era of the burial
    Grave due                 # the first worker's: may be freed
    SharedInt64 n_queues      # in memory, buried ones among them
    SharedInt64 n_partitions
    SharedInt64 n_groups
    int n_forgotten           # queues with groups that may have been deleted
    uint32_t mark
    uint64_t additions
    SharedInt64 cleanings        # reloads that told of removed partitions: a look-up that was under way may know one still
    SharedInt n_sealed              # encrypted queues
    SharedInt n_limited             # those with a bound (maxSize)
    uint64_t reload_from      # additions when the running reload was sent: what came later it may not have seen

cdef enum:
    FORGOTTEN_US = 2000000    # a group that is not found again for so long after it was forgotten is given back

cdef Catalog catalog

cdef inline int64_t catalog_server() noexcept nogil:
    # Lock held, or for a look that a later one with it confirms.
    return atomic_get64(&catalog.server)

cdef void catalog_open() noexcept nogil:
    memset(&catalog, 0, sizeof(catalog))
    memset(era_outside, 0, sizeof(era_outside))
    uv_rwlock_init(&catalog.lock)
    getrandom(&catalog.hash_seed, 8, 0)

cdef Slice slice_keep(Slice s) noexcept nogil:
    # A copy of its own, with a NUL behind it; p is NULL when memory ran out.
    cdef char* p = <char*>malloc(s.n + 1)
    if p == NULL:
        return slice_of(NULL, 0)
    if s.n:
        memcpy(p, s.p, s.n)
    p[s.n] = 0
    return slice_of(p, s.n)

cdef inline uint64_t catalog_hash(Slice name) noexcept nogil:
    return slice_hash(name, catalog.hash_seed) | 1

cdef void queue_free(Queue* q) noexcept nogil:
    # Without what belongs to it.
    table_free(&q.partitions)
    table_free(&q.groups)
    free(<void*>q.name.p)
    free(<void*>q.ns.p)
    free(<void*>q.task.p)
    free(q.tally)
    free(q)

cdef void group_free(Group* g) noexcept nogil:
    # Without its cursors.
    table_free(&g.cursors)
    free(<void*>g.name.p)
    free(g)
    catalog.n_groups -= 1

cdef void partition_free(Partition* p) noexcept nogil:
    free(<void*>p.name.p)
    free(p)
    catalog.n_partitions -= 1

cdef void catalog_close() noexcept nogil:
    # Nothing runs any more. In the order of burial.
    grave_empty(&catalog.due)
    grave_empty(&catalog.graves[(era_now + 1) & 1])
    grave_empty(grave_open())
    catalog.due.queues = catalog.list
    grave_empty(&catalog.due)
    table_free(&catalog.by_name)
    table_free(&catalog.by_id)
    table_free(&catalog.partitions)
    catalog.loaded = False
    uv_rwlock_destroy(&catalog.lock)

# ---- look-ups: the caller holds the lock (either way) -------------------------------------------------------------

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

cdef inline Partition* catalog_partition_id(int32_t id) noexcept nogil:
    return <Partition*>table_get(&catalog.partitions, <uint32_t>id)

cdef Group* catalog_group(Queue* q, Slice name) noexcept nogil:
    cdef Group* g = <Group*>table_get(&q.groups, catalog_hash(name))
    while g != NULL and not slice_eq(g.name, name):
        g = g.same_hash
    return g

# ---- additions: the caller holds the lock for writing --------------------------------------------------------------

cdef void catalog_derive(Slice name, Slice* ns, Slice* task) noexcept nogil:
    # What creation by push stores: the first and the second part of the name, parted by dots.
    cdef size_t i = 0
    cdef size_t k
    while i < name.n and name.p[i] != b'.':
        i += 1
    ns[0] = slice_keep(slice_of(name.p, i))
    if i < name.n:
        i += 1
    k = i
    while k < name.n and name.p[k] != b'.':
        k += 1
    task[0] = slice_keep(slice_of(name.p + i, k - i))

cdef Queue* catalog_add_queue(int32_t id, Slice name) noexcept nogil:
    # Finds or adds by name. A queue of that name with another id was deleted elsewhere: it is buried first. NULL when memory
    # ran out, as of the other two: who misses the name asks for it again.
    cdef Queue* q = catalog_queue(name)
    cdef uint64_t h = catalog_hash(name)
    if q != NULL:
        if q.id == id:
            return q
        if q.id > id:
            return NULL       # ids only grow: this answer is older than the queue that has the name now
        catalog_bury(q)
    q = <Queue*>calloc(1, sizeof(Queue))
    if q == NULL:
        return NULL
    q.id = id
    q.tally = tally_make()
    q.name = slice_keep(name)
    catalog_derive(name, &q.ns, &q.task)
    q.same_hash = <Queue*>table_get(&catalog.by_name, h)
    if (q.tally == NULL or q.name.p == NULL or q.ns.p == NULL or q.task.p == NULL or not table_put(&catalog.by_id, <uint32_t>id, q)
            or not table_put(&catalog.by_name, h, q)):
        table_del(&catalog.by_id, <uint32_t>id)
        queue_free(q)
        return NULL
    catalog.n_queues += 1
    catalog.additions += 1
    q.born = catalog.additions
    q.changed = True
    q.lease_us = 300000000
    q.retry_limit = 3
    # Its epoch is 0, that of a new queue. Where it is another one, the next reload forgets what came in between.
    q.retry_delay_us = 1000000
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
    code_id_make(catalog.seed, 112, id, uuid)
    uuid_format(uuid, p.uuid)
    p.all_next = q.all_partitions
    if p.all_next != NULL:
        p.all_next.all_prev = p
    q.all_partitions = p
    catalog.n_partitions += 1
    return p

cdef Group* catalog_add_group(Queue* q, int32_t id, Slice name) noexcept nogil:
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
        if g.scan == SCAN_DONE:       # while it was forgotten, what was committed did not reach its cursors
            g.scan = SCAN_WANTED
        elif g.scan == SCAN_RUNNING:
            g.scan_twice = True
        return g
    g = <Group*>calloc(1, sizeof(Group))
    if g == NULL:
        return NULL
    g.id = id
    g.queue = q
    g.name = slice_keep(name)
    g.same_hash = <Group*>table_get(&q.groups, h)
    if g.name.p == NULL or not table_put(&q.groups, h, g):
        free(<void*>g.name.p)
        free(g)
        return NULL
    g.next = q.group_list
    q.group_list = g
    catalog.n_groups += 1
    return g

# ---- burial: the caller holds the lock for writing -------------------------------------------------------------------
# What is buried is found no more by name or id, nor from anything that is: a cursor leads to its partition and group, so one that
# goes alone takes its cursors out of everything that lives on. What holds it goes on with it. A queue's cursors, partitions and
# groups lead to one another only; the lists of the whole process that a cursor, row, id or scan of them may stand in are left
# when they are freed.

cdef inline Grave* grave_open() noexcept nogil:
    return &catalog.graves[era_now & 1]

cdef void catalog_bury(Queue* q) noexcept nogil:
    # With all that belongs to it.
    cdef Queue* at
    cdef Queue** link
    cdef uint64_t h = catalog_hash(q.name)
    q.dead = True
    q.changed = True
    at = <Queue*>table_get(&catalog.by_name, h)
    if at is q:
        if q.same_hash != NULL:
            table_put(&catalog.by_name, h, q.same_hash)
        else:
            table_del(&catalog.by_name, h)
    else:
        while at != NULL and at.same_hash is not q:
            at = at.same_hash
        if at != NULL:
            at.same_hash = q.same_hash
    table_del(&catalog.by_id, <uint32_t>q.id)
    catalog_forget_partitions(q)
    link = &catalog.list
    while link[0] != NULL and link[0] is not q:
        link = &link[0].next
    if link[0] != NULL:
        link[0] = q.next
    if q.forgotten_us:
        q.forgotten_us = 0
        catalog.n_forgotten -= 1
    q.next = grave_open().queues
    grave_open().queues = q

cdef Partition* catalog_forget_partitions(Queue* q) noexcept nogil:
    # Nobody finds them by name or id any more. The last of them.
    cdef Partition* last = NULL
    cdef Partition* p = q.all_partitions
    while p != NULL:
        p.dead = True
        table_del(&catalog.partitions, <uint32_t>p.id)
        last = p
        p = p.all_next
    table_free(&q.partitions)
    return last

cdef void catalog_bury_partitions(Queue* q, PopJob** wake) noexcept nogil:
    # All of a queue that lives on, and its groups with them: who needs one finds it again, without the cursors of before.
    cdef Partition* last = catalog_forget_partitions(q)
    cdef Group* g
    if last == NULL:
        return
    last.all_next = grave_open().partitions
    grave_open().partitions = q.all_partitions
    q.all_partitions = NULL
    uv_mutex_lock(&book.lock)
    while q.group_list != NULL:
        g = q.group_list
        q.group_list = g.next
        group_bury(g, wake)
    uv_mutex_unlock(&book.lock)
    table_clear(&q.groups)

cdef void catalog_cleaned(Queue* q, int64_t cleaned, Slice last, PopJob** wake) noexcept nogil:
    # Idle partitions were removed: those removed since the last reload are forgotten, all of the queue's if some of them are
    # not among the `last`. Their names may belong to others by now, which are looked up when they are needed.
    cdef int64_t i
    cdef int64_t n = cleaned - q.cleaned
    cdef uint32_t id
    cdef Partition* p
    if n == 0:
        return
    q.cleaned = cleaned
    q.changed = True          # who waits for one of them looks again
    catalog.cleanings += 1
    if n * 4 > <int64_t>last.n:
        catalog_bury_partitions(q, wake)
        return
    for i in range(<int64_t>last.n // 4 - n, <int64_t>last.n // 4):
        memcpy(&id, last.p + 4 * i, 4)
        p = catalog_partition_id(<int32_t>be32toh(id))
        if p != NULL and p.queue is q:
            catalog_forget_partition(q, p)
            partition_bury(q, p, wake)

cdef void catalog_forget_partition(Queue* q, Partition* p) noexcept nogil:
    cdef uint64_t h = catalog_hash(p.name)
    cdef Partition* at = <Partition*>table_get(&q.partitions, h)
    p.dead = True
    table_del(&catalog.partitions, <uint32_t>p.id)
    if at is p:
        if p.same_hash != NULL:
            table_put(&q.partitions, h, p.same_hash)
        else:
            table_del(&q.partitions, h)
        return
    while at != NULL and at.same_hash is not p:
        at = at.same_hash
    if at != NULL:
        at.same_hash = p.same_hash

cdef void partition_bury(Queue* q, Partition* p, PopJob** wake) noexcept nogil:
    # Alone.
    cdef Group* g = q.group_list
    cdef Cursor* c
    if p.all_prev != NULL:
        p.all_prev.all_next = p.all_next
    else:
        q.all_partitions = p.all_next
    if p.all_next != NULL:
        p.all_next.all_prev = p.all_prev
    p.all_next = grave_open().partitions
    grave_open().partitions = p
    uv_mutex_lock(&book.lock)
    while g != NULL:
        c = <Cursor*>table_del(&g.cursors, <uint32_t>p.id)
        if c != NULL:
            cursor_bury(c, wake)
        g = g.next
    uv_mutex_unlock(&book.lock)

cdef void group_bury(Group* g, PopJob** wake) noexcept nogil:
    # The caller has taken it out of its queue's list. Book locked.
    g.dead = True
    group_wake(g, wake)
    scan_unlist(g)
    g.next = grave_open().groups
    grave_open().groups = g

cdef void catalog_bury_groups(PopJob** wake) noexcept nogil:
    # Those that were forgotten a while ago and not found again. Book locked.
    cdef Queue* q = catalog.list if catalog.n_forgotten else NULL
    cdef Group** link
    cdef Group* g
    cdef int64_t now = clock_mono_us()
    while q != NULL:
        if q.forgotten_us and now - q.forgotten_us > FORGOTTEN_US:
            q.forgotten_us = 0
            catalog.n_forgotten -= 1
            link = &q.group_list
            while link[0] != NULL:
                g = link[0]
                if not g.dead:
                    link = &g.next
                    continue
                link[0] = g.next
                group_bury(g, wake)
        q = q.next

cdef void catalog_forget_groups(Queue* q) noexcept nogil:
    # Groups may have been deleted, or their cursors moved by hand: pops resolve them again, and what the book believes of
    # them is void.
    cdef Group* g = q.group_list
    if g != NULL:
        catalog.n_forgotten += q.forgotten_us == 0
        q.forgotten_us = clock_mono_us()
    uv_mutex_lock(&book.lock)
    atomic_set64(&book.forgets, book.forgets + 1)
    while g != NULL:
        if not g.dead:
            g.dead = True
            book_forget(g)
        g = g.next
    uv_mutex_unlock(&book.lock)
    table_clear(&q.groups)

cdef bint slice_replace(Slice* at, Slice s) noexcept nogil:
    cdef Slice kept
    if slice_eq(at[0], s):
        return False
    kept = slice_keep(s)
    if kept.p != NULL:
        free(<void*>at.p)
        at[0] = kept
    return True

# ---- reload --------------------------------------------------------------------------------------------------------

cdef void catalog_take(PGresult* res, PopJob** wake) noexcept nogil:
    # All rows of catalog_load: options replaced, queues that are gone buried, groups of a new epoch forgotten. wake: those who
    # waited for what is buried of queues that live on; of the others book_reloaded tells.
    cdef int i, n = PQntuples(res)
    cdef int sealed = 0
    cdef int limited = 0
    cdef bint whole = True
    cdef Queue* q
    cdef Queue* following
    cdef int64_t version, delay_us, window_us
    cdef Slice s
    uv_rwlock_wrlock(&catalog.lock)
    catalog.mark += 1
    version = pg_int8(res, 0, 0) if n else catalog.version
    if n:
        s = pg_bytes(res, 0, 1)
        if s.n == 16 and memcmp(catalog.seed, s.p, 16) != 0:      # read without the lock
            memcpy(catalog.seed, s.p, 16)
    for i in range(n):
        if PQgetisnull(res, i, 2):
            continue
        q = catalog_add_queue(pg_int4(res, i, 2), pg_bytes(res, i, 4))
        if q == NULL:
            whole = False
            continue
        q.mark = catalog.mark
        if q.epoch != pg_int4(res, i, 3):
            catalog_forget_groups(q)
            q.epoch = pg_int4(res, i, 3)
            q.changed = True
        if slice_replace(&q.ns, pg_bytes(res, i, 5)) | slice_replace(&q.task, pg_bytes(res, i, 6)):
            q.changed = True
            whole = whole and slice_eq(q.ns, pg_bytes(res, i, 5)) and slice_eq(q.task, pg_bytes(res, i, 6))
        q.lease_us = <int64_t>pg_int4(res, i, 7) * 1000000
        if q.lease_us <= 0:
            q.lease_us = 60000000
        q.retry_limit = pg_int4(res, i, 8)
        q.retry_delay_us = <int64_t>pg_int4(res, i, 9) * 1000
        delay_us = <int64_t>pg_int4(res, i, 10) * 1000000
        window_us = <int64_t>pg_int4(res, i, 11) * 1000000
        if delay_us != q.delay_us or window_us != q.window_us:
            q.changed = True      # other options count when a pop is tried; these decide when to try
        q.delay_us = delay_us
        q.window_us = window_us
        q.max_size = pg_int4(res, i, 12)
        limited += 1 if q.max_size > 0 else 0
        q.sealed = pg_bool(res, i, 13)
        sealed += 1 if q.sealed else 0
        q.priority = pg_int4(res, i, 14)
        q.ttl_us = <int64_t>pg_int4(res, i, 15) * 1000000
        catalog_cleaned(q, pg_int8(res, i, 16), pg_bytes(res, i, 17), wake)
    q = catalog.list
    while q != NULL:
        following = q.next
        if q.mark != catalog.mark and q.born <= catalog.reload_from:
            catalog_bury(q)
        q = following
    catalog.n_sealed = sealed
    catalog.n_limited = limited
    catalog.version = version if whole else -1      # of no database: the next statement asks for it again
    catalog.loaded = True
    uv_rwlock_wrunlock(&catalog.lock)
