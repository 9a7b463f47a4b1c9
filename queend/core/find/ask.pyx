# The questions of a round of look-ups (find/lookup): names, ids and sizes, gathered by kind. In: what jobs miss; rows
# of the answers. Out: a statement for each kind; entries of the catalog; 409 for jobs that asked for a name which may
# not be made. Owner: the worker. Locks: catalog.lock, then book.lock; idsets.lock alone.

cdef enum:
    ASK_ROOM = 250            # of one statement; the statements of a round are in flight side by side

# ---- gathered ------------------------------------------------------------------------------------------------------

cdef Ask* ask_new(Round* r, int kind) noexcept nogil:
    # Adds a statement to the round. Returns NULL if memory ran out: its job tries again, and gives up after its last
    # try.
    cdef Ask* a = <Ask*>arena_zero(&r.arena, sizeof(Ask))
    if a == NULL:
        return NULL
    a.kind = kind
    a.at = <Asked*>arena_alloc(&r.arena, (1 if kind == ASK_GROUP else ASK_ROOM) * sizeof(Asked))
    if a.at == NULL:
        return NULL
    a.next = r.waiting
    r.waiting = a
    return a

cdef Ask* ask_of(Engine* e, int kind) noexcept nogil:
    # Returns the round's statement of this kind that still has room, or a new one.
    cdef Ask* a = e.round.waiting
    while a != NULL and not (a.kind == kind and a.n < ASK_ROOM):
        a = a.next
    return a if a != NULL else ask_new(&e.round, kind)

cdef bint ask_names(Engine* e, int kind, Slice first, Slice second, int32_t id) noexcept nogil:
    # Adds names to the round, unless they are the last ones there. Returns False if room or memory is short.
    cdef Ask* a = ask_of(e, kind) if e.round.room else NULL
    cdef Asked* last = &a.at[a.n - 1] if a != NULL and a.n else NULL
    if a == NULL:
        return False
    if last != NULL and last.id == id and slice_eq(last.first, first) and slice_eq(last.second, second):
        return True
    a.at[a.n].first = first
    a.at[a.n].second = second
    a.at[a.n].id = id
    a.n += 1
    e.round.room -= 1
    return True

cdef void ask_stored(Engine* e, PushItem* it) noexcept nogil:
    # Asks whether the id of an item is stored; the item's job waits for the round.
    cdef Ask* a = ask_of(e, ASK_STORED)
    if a != NULL:
        a.at[a.n].item = it
        a.n += 1

cdef void ask_group(Engine* e, Queue* q, Slice name, Slice mode, bint has_since, int64_t since_us,
                    bint conflates) noexcept nogil:
    cdef Ask* a = e.round.waiting
    while a != NULL and not (a.kind == ASK_GROUP and a.at[0].id == q.id and slice_eq(a.at[0].second, name)):
        a = a.next
    if a != NULL:
        return
    a = ask_new(&e.round, ASK_GROUP)
    if a == NULL:
        return
    a.at[0].first = q.name
    a.at[0].second = name
    a.at[0].id = q.id
    a.n = 1
    a.mode = mode
    a.has_since = has_since
    a.since_us = since_us
    a.conflates = conflates

# ---- sent ----------------------------------------------------------------------------------------------------------

cdef int[8] ASK_STATEMENTS    # by AskKind
ASK_STATEMENTS[:] = [STMT_RESOLVE_WITHIN, STMT_PARTITION_FIND, STMT_PARTITIONS_FIND, STMT_GROUPS_FIND,
                     STMT_GROUP_WITHIN, STMT_QUEUE_SIZES, STMT_IDS_STORED, STMT_RESOLVE_WITHIN]

cdef void ask_write(Engine* e, Ask* a) noexcept nogil:
    if a.kind == ASK_GROUP and not a.finds:
        ask_write_group(e, a, <GroupArgs*>e.args.at)
    elif a.kind == ASK_STORED:
        ask_write_stored(a, <IdsArgs*>e.args.at)
    else:
        ask_write_names(e, a, <NamesArgs*>e.args.at)

cdef void ask_write_group(Engine* e, Ask* a, GroupArgs* p) noexcept nogil:
    arg_int4(&p.queue, a.at[0].id)
    arg_slice(&p.name, a.at[0].second)
    arg_slice(&p.mode, a.mode)
    if a.has_since:
        arg_int8(&p.from_us, a.since_us)
    ask_write_bound(&p.max_groups, e.settings.max_groups)
    arg_bool(&p.conflates, a.conflates)

cdef void ask_write_names(Engine* e, Ask* a, NamesArgs* p) noexcept nogil:
    # Encodes names with the name of their queue (ASK_RESOLVE, ASK_DRAINED) or its id. ASK_NAMES and ASK_SIZE have ids
    # alone.
    cdef bint resolves = a.kind == ASK_RESOLVE or a.kind == ASK_DRAINED
    cdef int i
    if a.kind == ASK_SIZE:
        uv_rwlock_rdlock(&catalog.lock)
        for i in range(a.n):
            a.at[i].mark = catalog_size_mark(a.at[i].id)
        uv_rwlock_rdunlock(&catalog.lock)
    for i in range(a.n):
        if resolves:
            pgarray_bytes(&p.first, a.at[i].first.p, a.at[i].first.n)
        else:
            pgarray_int4(&p.first, a.at[i].id)
        if a.kind != ASK_NAMES and a.kind != ASK_SIZE:
            pgarray_bytes(&p.second, a.at[i].second.p, a.at[i].second.n)
    if a.kind == ASK_RESOLVE:
        ask_write_bound(&p.max_queues, e.settings.max_queues)
        ask_write_bound(&p.max_partitions, e.settings.max_partitions)

cdef inline void ask_write_bound(PgArray* a, int most) noexcept nogil:
    if most:
        arg_int4(a, most)

cdef void ask_write_stored(Ask* a, IdsArgs* p) noexcept nogil:
    cdef PushItem* it
    cdef int i
    uv_mutex_lock(&idsets.lock)
    for i in range(a.n):
        it = a.at[i].item
        pgarray_int4(&p.part, it.partition.id)
        pgarray_bytes(&p.id, it.id, 16)
        pgarray_int8(&p.known, idset_from(it.partition, it.id))
    uv_mutex_unlock(&idsets.lock)

# ---- answered ------------------------------------------------------------------------------------------------------

cdef void ask_take(Ask* a, PGresult* res) noexcept nogil:
    cdef Engine* e = a.base.engine
    cdef PopJob* wake = NULL
    if a.kind == ASK_STORED:
        ask_take_stored(a, res)
        return
    if a.kind == ASK_NAMES:
        ask_take_names(e, res, a.cleanings)
        return
    uv_rwlock_wrlock(&catalog.lock)
    if a.kind == ASK_SIZE:
        ask_take_sizes(a, res)
    elif a.kind == ASK_GROUP or a.kind == ASK_GROUPS:
        if a.base.forgets == atomic_get64(&book.forgets):     # else a group in it may have been deleted: asked again
            ask_take_groups(a, res)
    elif a.cleanings == catalog.cleanings:                    # else a partition in it may have been removed
        ask_take_partitions(a, res, &wake)
    uv_rwlock_wrunlock(&catalog.lock)
    waiters_send(e.worker, wake)

# Columns of ids_stored.
cdef enum:
    IDS_STORED_ORD = 0
    IDS_STORED_FOUND
    IDS_STORED_AT
    IDS_STORED_DELETED

cdef void ask_take_stored(Ask* a, PGresult* res) noexcept nogil:
    # Marks items as stored, by rows of ids_stored.
    cdef PushItem* it
    cdef int row, i
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, IDS_STORED_ORD)
        if 0 <= i < a.n:
            it = a.at[i].item
            it.status = ITEM_DUPLICATE
            it.full = FULL_NOT
            it.offset = pg_int8(res, row, IDS_STORED_FOUND)
            it.created_us = pg_int8(res, row, IDS_STORED_AT)
            it.of_deleted = pg_bool(res, row, IDS_STORED_DELETED)

# Columns of queue_sizes.
cdef enum:
    QUEUE_SIZES_QUEUE = 0
    QUEUE_SIZES_SIZE
    QUEUE_SIZES_MOST

cdef void ask_take_sizes(Ask* a, PGresult* res) noexcept nogil:
    # Takes rows of queue_sizes, each queue once. Requires catalog.lock.
    cdef int row, i
    for row in range(PQntuples(res)):
        for i in range(a.n):
            if a.at[i].id == pg_int4(res, row, QUEUE_SIZES_QUEUE):
                catalog_size_learn(a.at[i].id, pg_int8(res, row, QUEUE_SIZES_SIZE), pg_int4(res, row, QUEUE_SIZES_MOST),
                                   a.at[i].mark, a.base.sent_us)
                break

# Columns of group_within.
cdef enum:
    GROUP_WITHIN_ID = 0       # NULL: the group may not be made
    GROUP_WITHIN_CONFLATES = 3

# Columns of groups_find, and of partition_find.
cdef enum:
    NAMES_FIND_ORD = 0
    NAMES_FIND_ID
    NAMES_FIND_CONFLATES      # of groups_find

cdef void ask_take_groups(Ask* a, PGresult* res) noexcept nogil:
    # Takes the rows of groups. ASK_GROUP: one row of group_within. ASK_GROUPS, and ASK_GROUP that finds: rows of
    # groups_find. Requires catalog.lock.
    cdef Queue* q
    cdef Group* g
    cdef bint found = a.finds or a.kind == ASK_GROUPS
    cdef int row, i
    if a.finds and (PQntuples(res) == 0 or slice_is(a.mode, b"waited")):
        # The group does not exist, or its start may have to be moved: both need a commit.
        a.base.engine.round.failures += 1
        a.base.engine.round.apart = True
        return
    if a.kind == ASK_GROUP and PQntuples(res) and pg_null(res, 0, GROUP_WITHIN_ID):
        ask_refuse(&a.base.engine.round, BOUND_GROUPS, a.at[0].first, a.at[0].second)
        return
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, NAMES_FIND_ORD) if found else 0
        q = catalog_queue_id(a.at[i].id) if 0 <= i < a.n else NULL
        if q == NULL:
            continue
        g = catalog_add_group(q, pg_int4(res, row, NAMES_FIND_ID if found else GROUP_WITHIN_ID), a.at[i].second,
                              pg_bool(res, row, NAMES_FIND_CONFLATES if found else GROUP_WITHIN_CONFLATES))
        if g != NULL and a.kind == ASK_GROUP:
            group_want_scan(g)
            waiters_first_forget(waiters_first_key(False, q.name, slice_of(NULL, 0), g.name))
    uv_mutex_unlock(&book.lock)

# Columns of resolve_within.
cdef enum:
    RESOLVE_ORD = 0
    RESOLVE_QUEUE
    RESOLVE_PARTITION
    RESOLVE_REFUSED           # BOUND_* for which the name may not be made, or NULL

cdef void ask_take_partitions(Ask* a, PGresult* res, PopJob** wake) noexcept nogil:
    # Takes the rows of partitions. ASK_PARTITION: rows of partition_find. Other kinds: rows of resolve_within. Requires
    # catalog.lock.
    cdef Queue* q
    cdef int row, i
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, NAMES_FIND_ORD if a.kind == ASK_PARTITION else RESOLVE_ORD)
        if not 0 <= i < a.n:
            continue
        if a.kind == ASK_PARTITION:
            q = catalog_queue_id(a.at[i].id)
            if q != NULL:
                catalog_add_partition(q, pg_int4(res, row, NAMES_FIND_ID), a.at[i].second)
        elif a.kind == ASK_RESOLVE and not pg_null(res, row, RESOLVE_REFUSED):
            ask_refuse(&a.base.engine.round, pg_int4(res, row, RESOLVE_REFUSED), a.at[i].first, a.at[i].second)
        else:
            q = catalog_add_queue(pg_int4(res, row, RESOLVE_QUEUE), a.at[i].first)
            if q != NULL:     # else it is asked again
                catalog_add_partition(q, pg_int4(res, row, RESOLVE_PARTITION), a.at[i].second)
                uv_mutex_lock(&book.lock)
                if book.n_name_waiters:
                    waiters_name_wake_queue(q, a.at[i].second, wake)
                uv_mutex_unlock(&book.lock)

# Columns of partitions_find.
cdef enum:
    PARTITIONS_FIND_ID = 0
    PARTITIONS_FIND_QUEUE
    PARTITIONS_FIND_NAME

cdef void ask_take_names(Engine* e, PGresult* res, int64_t cleanings) noexcept nogil:
    # Takes rows of partitions_find. They are ignored if partitions were removed since the statement was sent. An
    # unknown queue lets the catalog be reloaded.
    cdef int row
    cdef Queue* q
    cdef bint unknown = False
    uv_rwlock_wrlock(&catalog.lock)
    for row in range(PQntuples(res) if cleanings == catalog.cleanings else 0):
        q = catalog_queue_id(pg_int4(res, row, PARTITIONS_FIND_QUEUE))
        if q != NULL:
            catalog_add_partition(q, pg_int4(res, row, PARTITIONS_FIND_ID), pg_bytes(res, row, PARTITIONS_FIND_NAME))
        else:
            unknown = True
    uv_rwlock_wrunlock(&catalog.lock)
    if unknown:
        e.round.reload = True
        catalog_want_reload(e.worker)

# ---- names that may not be made --------------------------------------------------------------------------------------
# The operator's bound on queues, partitions of a queue or groups of a queue is reached. The database counts
# (sql/function/names.sql), and only when a name is made. The bounds do not apply to records of the failover buffer:
# these were accepted before. Owner: the round.

cdef enum:
    BOUND_LOG_US = 60000000   # between two log lines

cdef struct Refused:
    Refused* next             # of the same key
    Slice queue
    Slice name                # partition or group
    int bound

cdef SharedInt64 bound_logged_us    # when the last line was logged, by any worker

cdef inline uint64_t ask_refused_key(bint group, Slice queue, Slice name) noexcept nogil:
    return slice_hash(queue, slice_hash(name, hash_seed + group)) | 1

cdef void ask_refuse(Round* r, int bound, Slice queue, Slice name) noexcept nogil:
    # Notes a refused name. If memory ran out, its jobs try again, and give up after their last try.
    cdef uint64_t key = ask_refused_key(bound == BOUND_GROUPS, queue, name)
    cdef Refused* one = <Refused*>arena_alloc(&r.arena, sizeof(Refused))
    if one == NULL:
        return
    one.queue = queue
    one.name = name
    one.bound = bound
    one.next = <Refused*>table_get(&r.refused, key)
    table_put(&r.refused, key, one)

cdef bint ask_is_refused(Round* r, Job* job, bint group, Slice queue, Slice name) noexcept nogil:
    # Returns True if a name was refused. Sets the job's `bound`, 0 if it was not.
    cdef Refused* one = <Refused*>table_get(&r.refused, ask_refused_key(group, queue, name))
    while one != NULL and not ((one.bound == BOUND_GROUPS) == group and slice_eq(one.queue, queue)
                               and slice_eq(one.name, name)):
        one = one.next
    job.bound = <uint8_t>(one.bound if one != NULL else 0)
    job.bound_at = queue
    return one != NULL

cdef void ask_answer_refused(Engine* e, Job* job) noexcept nogil:
    global bound_logged_us
    cdef char[1200] text
    cdef int64_t now = clock_mono_us()
    if job.bound == BOUND_QUEUES:
        snprintf(text, sizeof(text), b"There are as many queues as QUEEND_MAX_QUEUES allows: %d", e.settings.max_queues)
    else:
        snprintf(text, sizeof(text), b"Queue %.*s has as many %s allows: %d", <int>min(job.bound_at.n, <size_t>1024),
                 job.bound_at.p,
                 b"partitions as QUEEND_MAX_PARTITIONS" if job.bound == BOUND_PARTITIONS
             else b"consumer groups as QUEEND_MAX_GROUPS",
                 e.settings.max_partitions if job.bound == BOUND_PARTITIONS else e.settings.max_groups)
    if bound_logged_us == 0 or now - bound_logged_us > BOUND_LOG_US:
        bound_logged_us = now
        log_line(b"warn", b"bound_reached", text)
    job.bound = 0
    job.kind.refuse(job, 409, text)
