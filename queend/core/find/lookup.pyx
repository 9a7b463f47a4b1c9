# Names to ids. Jobs that miss a name wait in `resolving`; a round asks for everything they miss, a statement per kind,
# adds the answers to the catalog and tries the jobs again. One round at a time per worker: what misses something
# meanwhile joins the next one.

cdef enum:
    ASK_TRIES = 200           # of a statement whose connection was lost

cdef const char* NAMES_NOT = "The names could not be looked up"
cdef const char* NAMES_NOT_NOW = "The names could not be looked up; try again"

cdef Ask* ask_of(Engine* e, int kind) noexcept nogil:
    # The round's ask of this kind that still has room, or a new one.
    cdef Ask* a = e.round.waiting
    while a != NULL:
        if a.kind == kind and a.n < a.room:
            return a
        a = a.next
    a = <Ask*>arena_zero(&e.round.arena, sizeof(Ask))
    if a == NULL:
        return NULL
    a.kind = kind
    a.room = 1000
    a.first = <Slice*>arena_alloc(&e.round.arena, a.room * sizeof(Slice))
    a.second = <Slice*>arena_alloc(&e.round.arena, a.room * sizeof(Slice))
    a.ids = <int32_t*>arena_alloc(&e.round.arena, a.room * sizeof(int32_t))
    if kind == ASK_SIZE:
        a.marks = <int64_t*>arena_zero(&e.round.arena, a.room * sizeof(int64_t))
    if kind == ASK_STORED:
        a.items = <PushItem**>arena_alloc(&e.round.arena, a.room * sizeof(PushItem*))
    if (a.first == NULL or a.second == NULL or a.ids == NULL or (kind == ASK_SIZE and a.marks == NULL)
            or (kind == ASK_STORED and a.items == NULL)):
        return NULL
    a.next = e.round.waiting
    e.round.waiting = a
    return a

cdef void ask_names(Engine* e, int kind, Slice first, Slice second, int32_t id) noexcept nogil:
    cdef Ask* a = ask_of(e, kind)
    if a == NULL:
        return                # the job tries again, and gives up after some rounds
    if a.n and a.ids[a.n - 1] == id and slice_eq(a.first[a.n - 1], first) and slice_eq(a.second[a.n - 1], second):
        return
    a.first[a.n] = first
    a.second[a.n] = second
    a.ids[a.n] = id
    a.n += 1

cdef void ask_stored(Engine* e, PushItem* it) noexcept nogil:
    # Its job waits for the round.
    cdef Ask* a = ask_of(e, ASK_STORED)
    if a != NULL:
        a.items[a.n] = it
        a.n += 1

cdef void ask_group(Engine* e, Queue* q, Slice name, Slice mode, bint has_since, int64_t since_us) noexcept nogil:
    cdef Ask* a = e.round.waiting
    while a != NULL:
        if a.kind == ASK_GROUP and a.queue is q and slice_eq(a.first[0], name):
            return
        a = a.next
    a = <Ask*>arena_zero(&e.round.arena, sizeof(Ask))
    if a == NULL:
        return
    a.first = <Slice*>arena_alloc(&e.round.arena, sizeof(Slice))
    if a.first == NULL:
        return
    a.kind = ASK_GROUP
    a.queue = q
    a.first[0] = name
    a.n = 1
    a.mode = mode
    a.has_since = has_since
    a.since_us = since_us
    a.next = e.round.waiting
    e.round.waiting = a

cdef Job* round_take(JobList* waiting) noexcept nogil:
    # Those a round asks for: one that goes alone, or all up to it.
    cdef Job* first = joblist_take(waiting)
    cdef Job* last = first
    while not last.alone and waiting.first != NULL and not waiting.first.alone:
        last.next = joblist_take(waiting)
        last = last.next
    return first

cdef void lookup_drain(Engine* e) noexcept nogil:
    # Starts a round when there is something to ask, sends what was not sent yet.
    cdef Job* job
    if not e.round.running:
        if e.resolving.first == NULL:
            return
        e.round.running = True
        e.round.failures = 0
        e.round.why = 503
        e.round.apart = False
        e.round.reload = False
        table_init(&e.round.refused)
        arena_open(&e.round.arena, &e.worker.chunks)
        e.round.waiting = NULL
        e.round.jobs = round_take(&e.resolving)
        uv_rwlock_rdlock(&catalog.lock)
        e.round.server = catalog.server
        job = e.round.jobs
        while job != NULL:
            job.kind.ask(e, job)
            job = job.next
        uv_rwlock_rdunlock(&catalog.lock)
    if e.round.server != catalog.server:
        e.round.waiting = NULL        # its numbers mean other things now: everyone asks anew
    while e.round.waiting != NULL and clock_mono_us() >= e.round.pause_until:
        if not ask_send(e, e.round.waiting):
            break
    if not e.round.running:
        return                # a call ended inside slot_send and ended the round
    if e.round.waiting == NULL and e.round.flying == 0:
        round_end(e)
    elif e.round.flying == 0 and not slotpool_ready(e.slots):
        round_expire(e)

cdef int ask_statement(int kind) noexcept nogil:
    if kind == ASK_GROUP:
        return STMT_GROUP_WITHIN
    if kind == ASK_STORED:
        return STMT_IDS_STORED
    if kind == ASK_SIZE:
        return STMT_QUEUE_SIZES
    if kind == ASK_PARTITION:
        return STMT_PARTITION_FIND
    if kind == ASK_GROUPS:
        return STMT_GROUPS_FIND
    return STMT_PARTITIONS_FIND if kind == ASK_NAMES else STMT_RESOLVE_WITHIN

cdef bint ask_send(Engine* e, Ask* a) noexcept nogil:
    if slotpool_take(e.slots) == NULL:
        return False
    call_begin(&a.base, e, ask_statement(a.kind), ask_done)
    if a.kind == ASK_GROUP:
        group_ask(e, a, <GroupArgs*>e.args.at)
    elif a.kind == ASK_STORED:
        stored_ask(a, <IdsArgs*>e.args.at)
    else:
        names_ask(e, a, <NamesArgs*>e.args.at)
    a.cleanings = catalog.cleanings
    if a.first_us == 0:
        a.first_us = clock_mono_us()
    e.round.waiting = a.next
    e.round.flying += 1
    return call_send(&a.base)

cdef void group_ask(Engine* e, Ask* a, GroupArgs* p) noexcept nogil:
    arg_int4(&p.queue, a.queue.id)
    arg_slice(&p.name, a.first[0])
    arg_slice(&p.mode, a.mode)
    if a.has_since:
        arg_int8(&p.from_us, a.since_us)
    arg_bound(&p.max_groups, e.settings.max_groups)

cdef void names_ask(Engine* e, Ask* a, NamesArgs* p) noexcept nogil:
    # By name, or by the number of what they are in.
    cdef bint resolves = a.kind == ASK_RESOLVE or a.kind == ASK_DRAINED
    cdef int i
    if a.kind == ASK_SIZE:
        sizes_begin(a)
    for i in range(a.n):
        if resolves:
            pgarray_bytes(&p.first, a.first[i].p, a.first[i].n)
        else:
            pgarray_int4(&p.first, a.ids[i])
        if a.kind != ASK_NAMES and a.kind != ASK_SIZE:
            pgarray_bytes(&p.second, a.second[i].p, a.second[i].n)
    if a.kind == ASK_RESOLVE:
        arg_bound(&p.max_queues, e.settings.max_queues)
        arg_bound(&p.max_partitions, e.settings.max_partitions)

cdef inline void arg_bound(PgArray* a, int most) noexcept nogil:
    if most:
        arg_int4(a, most)

cdef void stored_ask(Ask* a, IdsArgs* p) noexcept nogil:
    cdef int i
    uv_mutex_lock(&idsets.lock)
    for i in range(a.n):
        pgarray_int4(&p.part, a.items[i].partition.id)
        pgarray_bytes(&p.id, a.items[i].id, 16)
        pgarray_int8(&p.known, idset_from(a.items[i].partition, a.items[i].id))
    uv_mutex_unlock(&idsets.lock)

cdef void stored_take(Ask* a, PGresult* res) noexcept nogil:
    # Rows (ord, found, stored_at).
    cdef int row, i
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, 0)
        if 0 <= i < a.n:
            a.items[i].status = 1
            a.items[i].full = 0
            a.items[i].offset = pg_int8(res, row, 1)
            a.items[i].created_us = pg_int8(res, row, 2)

cdef void sizes_begin(Ask* a) noexcept nogil:
    cdef int i
    uv_rwlock_rdlock(&catalog.lock)
    for i in range(a.n):
        a.marks[i] = capacity_mark(a.ids[i])
    uv_rwlock_rdunlock(&catalog.lock)

cdef void sizes_take(Ask* a, PGresult* res) noexcept nogil:
    # Rows (queue_id, size, max_size), each queue once. Catalog locked.
    cdef int row
    cdef int i = 0
    for row in range(PQntuples(res)):
        for i in range(a.n):
            if a.ids[i] == pg_int4(res, row, 0):
                capacity_learn(a.ids[i], pg_int8(res, row, 1), pg_int4(res, row, 2), a.marks[i], a.base.sent_us)
                break

cdef void ask_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Ask* a = <Ask*>c
    cdef Engine* e = c.engine
    cdef const Verdict* v = verdict_of(res)
    e.round.flying -= 1
    if outcome >= SLOT_UNSENT:
        ask_again(e, a)
        return
    if outcome == SLOT_OK:
        ask_take(a, res)
    elif (a.tries < ASK_TRIES if outcome != SLOT_ERROR else
            blame_again(v.blame, a.tries + 1, c.ended_us - a.first_us, e.patience_us)):
        # Every slot may have lost its connection at once: more tries than slots, and a pause once it looks like that.
        a.tries += 1
        ask_again(e, a)
        if a.tries > 2:
            e.round.pause_until = c.ended_us + 20000
    else:
        e.round.failures += 1
        e.round.apart = blames_request(v.blame)
        if v.blame == BLAME_DATA:
            e.round.why = 500
        log_line(b"error", b"lookup_refused", pg_error(res))
    lookup_drain(e)

cdef inline void ask_again(Engine* e, Ask* a) noexcept nogil:
    a.next = e.round.waiting
    e.round.waiting = a

cdef void ask_take(Ask* a, PGresult* res) noexcept nogil:
    # The rows become catalog entries.
    cdef int row, i
    cdef int n = PQntuples(res)
    cdef Queue* q
    cdef Group* g
    cdef Partition* p
    cdef PopJob* wake = NULL
    if a.kind == ASK_STORED:
        stored_take(a, res)
        return
    uv_rwlock_wrlock(&catalog.lock)
    if (a.kind == ASK_GROUP or a.kind == ASK_GROUPS) and a.base.forgets != atomic_get64(&book.forgets):
        n = 0             # a group it tells of may have been deleted: it is asked again
    if a.kind == ASK_GROUP:
        if n and PQgetisnull(res, 0, 0):
            refused_add(&a.base.engine.round, BOUND_GROUPS, a.queue.name, a.first[0])
        elif n and not a.queue.dead:
            uv_mutex_lock(&book.lock)
            g = catalog_add_group(a.queue, pg_int4(res, 0, 0), a.first[0])
            if g != NULL:
                scan_want(g)
            uv_mutex_unlock(&book.lock)
    elif a.kind == ASK_SIZE:
        sizes_take(a, res)
    elif a.kind == ASK_NAMES:
        uv_rwlock_wrunlock(&catalog.lock)
        names_take(a.base.engine, res, a.cleanings)
        return
    elif a.kind == ASK_GROUPS or a.cleanings == catalog.cleanings:     # else it is asked again
        q = NULL
        for row in range(n):
            i = pg_int4(res, row, 0)
            if i < 0 or i >= a.n:
                continue
            if a.kind == ASK_RESOLVE and not PQgetisnull(res, row, 3):
                refused_add(&a.base.engine.round, pg_int4(res, row, 3), a.first[i], a.second[i])
                continue
            if a.kind == ASK_RESOLVE or a.kind == ASK_DRAINED:
                q = catalog_add_queue(pg_int4(res, row, 1), a.first[i])
                if q == NULL:
                    continue      # asked again
                catalog_add_partition(q, pg_int4(res, row, 2), a.second[i])
                uv_mutex_lock(&book.lock)
                if book.n_name_waiters:
                    book_wake_name_waiters(q, a.second[i], &wake)
                uv_mutex_unlock(&book.lock)
                continue
            q = catalog_queue_id(a.ids[i])
            if q == NULL:
                continue
            if a.kind == ASK_PARTITION:
                catalog_add_partition(q, pg_int4(res, row, 1), a.second[i])
            else:
                uv_mutex_lock(&book.lock)
                g = catalog_add_group(q, pg_int4(res, row, 1), a.second[i])
                uv_mutex_unlock(&book.lock)
    uv_rwlock_wrunlock(&catalog.lock)
    popjobs_wake(a.base.engine.worker, wake)

cdef void names_take(Engine* e, PGresult* res, int64_t cleanings) noexcept nogil:
    # Rows (id, queue_id, name) of partitions_find, of no use if partitions were removed since it was asked for. A queue
    # this process has not heard of asks for a reload.
    cdef int row
    cdef Queue* q
    cdef bint unknown = False
    uv_rwlock_wrlock(&catalog.lock)
    for row in range(PQntuples(res) if cleanings == catalog.cleanings else 0):
        q = catalog_queue_id(pg_int4(res, row, 1))
        if q != NULL:
            catalog_add_partition(q, pg_int4(res, row, 0), pg_bytes(res, row, 2))
        else:
            unknown = True
    uv_rwlock_wrunlock(&catalog.lock)
    if unknown:
        e.round.reload = True
        engine_reload(e.worker)

cdef void round_end(Engine* e) noexcept nogil:
    # Everyone who waited tries again; who misses the same name too often gives up by itself.
    cdef Job* job = e.round.jobs
    cdef Job* following
    cdef bint failed = e.round.failures > 0
    cdef bint apart = failed and e.round.apart and job.next != NULL
    while e.round.refused.used and job != NULL:
        if job.kind.barred != NULL:
            job.kind.barred(&e.round, job)
        job = job.next
    job = e.round.jobs
    table_free(&e.round.refused)
    e.round.running = False
    e.round.jobs = NULL
    arena_close(&e.round.arena)
    while job != NULL:
        following = job.next
        job.next = NULL
        if apart:
            job.alone = True
        if job.bound:
            refused_answer(e, job)
        elif failed and not apart:
            job.kind.refuse(job, e.round.why, NAMES_NOT_NOW if e.round.why == 503 else NAMES_NOT)
        elif e.round.reload and e.want_reload and job.kind.reloads:
            joblist_add(&e.wait_reload, job)
        else:
            job.kind.retry(e, job)
        job = following

cdef void round_expire(Engine* e) noexcept nogil:
    # No connection for too long: the oldest of the round decides for all of it.
    cdef Job* job = e.round.jobs
    cdef Job* following
    cdef const JobKind* t
    cdef int64_t now = clock_mono_us()
    cdef bint lost = e.unready_since != 0 and now - e.unready_since >= e.patience_us
    if job == NULL or e.unready_since == 0 or not (lost or (spill_hurries() and round_hurries(job))):
        return
    e.round.running = False
    e.round.jobs = NULL
    e.round.waiting = NULL
    table_free(&e.round.refused)
    arena_close(&e.round.arena)
    while job != NULL:
        following = job.next
        job.next = NULL
        t = job.kind
        if not job_outlasts(job, &e.resolving, now):
            if t.hurries or lost:
                t.refuse(job, 503, b"The database is not reachable")
            else:
                joblist_add(&e.resolving, job)
        job = following

cdef bint round_hurries(Job* job) noexcept nogil:
    while job != NULL and not job.kind.hurries:
        job = job.next
    return job != NULL
