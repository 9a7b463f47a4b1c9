# Tables of the engine: its routes (jobtypes_routes). For each worker: the queue, policy and limit of each job type
# (jobtypes_queues), and the drains of a turn (jobtypes_drains). In: settings. Out: rows. Owns hot_routes, filled at
# import; no lock. A new job type is one row in each. The file of the job type defines the rest (JobKind).

cdef void jobtypes_routes() noexcept nogil:
    cdef HotRoute* t
    global n_hot_routes
    n_hot_routes = 0
    t = jobtype_route(b"push", METHOD_POST, b"/api/v1/push", push_submit, ROUTE_PUSH)
    t.query = PUSH_QUERY_NAMES
    t.buffered = True
    jobtype_pop_route(b"pop_queue", b"/api/v1/pop/queue/:queue", ROUTE_POP_QUEUE, False)
    jobtype_pop_route(b"pop_partition", b"/api/v1/pop/queue/:queue/partition/:partition?", ROUTE_POP_PARTITION, False)
    jobtype_pop_route(b"pop_any", b"/api/v1/pop", ROUTE_POP_ANY, False)
    jobtype_pop_route(b"stream_queue", b"/api/v1/stream/:queue", ROUTE_STREAM_QUEUE, True)
    jobtype_pop_route(b"stream_partition", b"/api/v1/stream/:queue/partition/:partition?", ROUTE_STREAM_PARTITION, True)
    jobtype_route(b"ack", METHOD_POST, b"/api/v1/ack", ack_submit, ROUTE_ACK)
    jobtype_route(b"ack_batch", METHOD_POST, b"/api/v1/ack/batch", ack_submit, ROUTE_ACK_BATCH)
    jobtype_route(b"transaction", METHOD_POST, b"/api/v1/transaction", tx_submit, ROUTE_ONLY)
    t = jobtype_route(b"lease", METHOD_POST, b"/api/v1/lease/:lease/extend", lease_submit, ROUTE_ONLY)
    t.verb = VERB_POP         # a lease's id names no queue
    t.small = True
    jobtype_route(b"cycle", METHOD_POST, b"/streams/v1/cycle", cycle_submit, ROUTE_ONLY)
    t = jobtype_route(b"kv", METHOD_POST, b"/api/v1/kv", kv_submit, ROUTE_ONLY)
    t.delivers = True         # values
    t = jobtype_route(b"kv_get", METHOD_GET, b"/api/v1/kv/:ns/:key*", kv_submit, ROUTE_KV_KEY)
    t.query = NULL
    t.level = GRANT_READ
    t.delivers = True
    t = jobtype_route(b"kv_set", METHOD_PUT, b"/api/v1/kv/:ns/:key*", kv_submit, ROUTE_KV_KEY)
    t.methods |= 1 << METHOD_DELETE
    t.query = NULL
    jobtype_route(b"locks", METHOD_POST, b"/api/v1/locks", lock_submit, ROUTE_ONLY)
    jobtype_memory_route(b"ephemeral_push", METHOD_POST, b"/api/v1/ephemeral/push", ephjob_push)
    t = jobtype_memory_route(b"ephemeral_pop", METHOD_GET, b"/api/v1/ephemeral/pop", ephjob_pop)
    t.query = EPH_POP_NAMES
    t.delivers = True
    jobtype_memory_route(b"ephemeral_ack", METHOD_POST, b"/api/v1/ephemeral/ack", ephjob_ack)
    jobtype_route(b"timers", METHOD_POST, b"/api/v1/timers", timer_submit, ROUTE_ONLY)
    t = jobtype_route(b"events", METHOD_POST, b"/api/v1/events/:queue", push_submit, ROUTE_EVENTS)
    t.query = EVENTS_QUERY_NAMES
    jobtype_probe_route(b"livez", b"/livez", watchdog_livez)
    jobtype_probe_route(b"readyz", b"/readyz", engine_readyz)

cdef HotRoute* jobtype_route(const char* name, int method, const char* path,
                             void (*submit)(Worker* w, Request* r, int route) noexcept nogil, int route) noexcept nogil:
    global n_hot_routes
    cdef HotRoute* t = &hot_routes[n_hot_routes]
    cdef const char* first = strchr(path, b':')
    n_hot_routes += 1
    memset(t, 0, sizeof(HotRoute))
    t.name = name
    t.methods = 1 << method
    t.path = path
    t.fixed = <size_t>(first - path) if first != NULL else strlen(path)
    t.level = GRANT_WRITE
    t.query = NO_NAMES
    t.submit = submit
    t.route = route
    return t

cdef void jobtype_pop_route(const char* name, const char* path, int route, bint streams) noexcept nogil:
    cdef HotRoute* t = jobtype_route(name, METHOD_GET, path, feed_submit if streams else pop_submit, route)
    t.query = NULL
    t.streams = streams
    t.delivers = True

cdef HotRoute* jobtype_memory_route(const char* name, int method, const char* path,
                                    void (*submit)(Worker* w, Request* r, int route) noexcept nogil) noexcept nogil:
    cdef HotRoute* t = jobtype_route(name, method, path, submit, ROUTE_ONLY)
    t.memory = True
    return t

cdef void jobtype_probe_route(const char* name, const char* path,
                              void (*submit)(Worker* w, Request* r, int route) noexcept nogil) noexcept nogil:
    cdef HotRoute* t = jobtype_route(name, METHOD_GET, path, submit, ROUTE_ONLY)
    t.methods |= 1 << METHOD_HEAD
    t.level = GRANT_NONE
    t.tells = True

jobtypes_routes()

# ---- queues and drains of each worker --------------------------------------------------------------------------------

cdef void jobtypes_queues(Engine* e) noexcept nogil:
    joblist_open(&e.resolving, JOB_RESOLVING)
    joblist_open(&e.wait_reload, JOB_RELOADING)
    joblist_open(&e.paused, JOB_PAUSED)
    joblist_open(&e.flushes, JOB_FLUSHING)
    joblist_open(&e.woken, JOB_RETRYING)
    joblist_open(&e.leased, JOB_LEASING)
    joblist_open(&e.memory_woken, JOB_RETRYING)
    joblist_open(&e.cycles.jobs, JOB_LEASING)
    joblist_open(&e.lease_asks.jobs, JOB_LEASING)
    jobtype_queue(e, &e.pops, TYPE_POP, NULL)
    jobtype_queue(e, &e.claims, TYPE_POP, &LINGER_TURN)
    jobtype_queue(e, &e.acks, TYPE_ACK, NULL)
    jobtype_queue(e, &e.txs, TYPE_TRANSACTION, NULL)
    e.txs.linger.preferred = 1        # transactions do not wait for others
    jobtype_queue(e, &e.leases, TYPE_LEASE, NULL)
    jobtype_queue(e, &e.kv_reads, TYPE_KV, NULL)
    jobtype_queue(e, &e.kv_writes, TYPE_KV, NULL)
    jobtype_queue(e, &e.locks, TYPE_KV, NULL)
    jobtype_queue(e, &e.timers, TYPE_KV, NULL)
    # cycles wait for each other in the database
    limit_fixed(&e.cycles.limit,
                limit_clamp(e.settings.cycles, 1, e.settings.slots // 2 if e.settings.slots > 3 else 1))
    limit_fixed(&e.lease_asks.limit, 2)
    limit_fixed(&e.releases.limit, 1)
    limit_fixed(&e.takebacks.limit, 1)

cdef void jobtype_queue(Engine* e, JobQueue* q, int job_type, const LingerRule* rule) noexcept nogil:
    cdef LimitConfig config = limit_config(e.settings, job_type)
    joblist_open(&q.jobs, JOB_LEASING)
    limit_open(&q.limit, &config)
    linger_of_type(e.settings, &q.linger, job_type, rule)

cdef void jobtypes_drains(Engine* e) noexcept nogil:
    cdef Drain* d
    d = jobtype_drain(e, lookup_drain, <ListHead*>&e.resolving.first, False)  # names first: resolved names yield jobs
    d.lists[1] = <ListHead*>&e.round.waiting
    # The following drains rotate (DRAINS_IN_TURN).
    jobtype_drain(e, drain_pushes, NULL, False)
    d = jobtype_drain(e, claimcall_drain, <ListHead*>&e.woken.first, True)
    d.lists[1] = <ListHead*>&e.pops.jobs.first
    d.lists[2] = <ListHead*>&e.claims.jobs.first
    d.lists[3] = <ListHead*>&e.leased.first
    d.op = OP_POP
    d.queue = &e.pops
    jobtype_queue_drain(e, ack_send, &e.acks, OP_ACK)
    jobtype_queue_drain(e, txcall_send, &e.txs, OP_TRANSACTION)
    # The following drains keep their order.
    jobtype_queue_drain(e, cyclecall_send, &e.cycles, OP_COUNT)
    jobtype_drain(e, cycle_flush_drain, <ListHead*>&e.flushes.first, False)
    jobtype_queue_drain(e, lease_asks_send, &e.lease_asks, OP_COUNT)
    jobtype_queue_drain(e, lease_send, &e.leases, OP_LEASE)
    jobtype_queue_drain(e, kv_reads_send, &e.kv_reads, OP_COUNT)
    jobtype_queue_drain(e, kv_writes_send, &e.kv_writes, OP_KV)
    jobtype_queue_drain(e, lock_send, &e.locks, OP_COUNT)
    jobtype_queue_drain(e, timer_send, &e.timers, OP_COUNT)
    d = jobtype_drain(e, claim_release_drain, <ListHead*>&e.releases.first, True)
    d.lists[1] = <ListHead*>&e.takebacks.first
    jobtype_drain(e, ephjob_drain, <ListHead*>&e.memory_woken.first, False)
    jobtype_drain(e, popend_pauses_drain, <ListHead*>&e.paused.first, False)

cdef Drain* jobtype_drain(Engine* e, void (*run)(Engine* e) noexcept nogil, ListHead* first, bint rests) noexcept nogil:
    cdef Drain* d = &e.drains[e.n_drains]
    e.n_drains += 1
    d.run = run
    d.lists[0] = first
    d.rests = rests
    return d

cdef void jobtype_queue_drain(Engine* e, bint (*send)(Engine* e) noexcept nogil, JobQueue* q, int op) noexcept nogil:
    cdef Drain* d = jobtype_drain(e, NULL, <ListHead*>&q.jobs.first, True)
    d.send = send
    d.op = op
    d.queue = q
