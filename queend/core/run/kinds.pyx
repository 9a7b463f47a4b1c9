# Tables of the engine: its routes; and for each worker each job type's queue, policy and limit (queues_open), and the
# drains of a turn (drains_open). A new job type is one row in each. The file of the job type defines the rest
# (JobKind).

cdef void routes_open() noexcept nogil:
    cdef HotRoute* t
    global n_hot_routes
    n_hot_routes = 0
    t = route_is(b"push", METHOD_POST, b"/api/v1/push", push_submit, ROUTE_PUSH)
    t.query = PUSH_QUERY_NAMES
    t.buffered = True
    pop_route(b"pop_queue", b"/api/v1/pop/queue/:queue", ROUTE_POP_QUEUE)
    pop_route(b"pop_partition", b"/api/v1/pop/queue/:queue/partition/:partition?", ROUTE_POP_PARTITION)
    pop_route(b"pop_any", b"/api/v1/pop", ROUTE_POP_ANY)
    stream_route(b"stream_queue", b"/api/v1/stream/:queue", ROUTE_STREAM_QUEUE)
    stream_route(b"stream_partition", b"/api/v1/stream/:queue/partition/:partition?", ROUTE_STREAM_PARTITION)
    route_is(b"ack", METHOD_POST, b"/api/v1/ack", ack_submit, ROUTE_ACK)
    route_is(b"ack_batch", METHOD_POST, b"/api/v1/ack/batch", ack_submit, ROUTE_ACK_BATCH)
    route_is(b"transaction", METHOD_POST, b"/api/v1/transaction", tx_submit, ROUTE_ONLY)
    t = route_is(b"lease", METHOD_POST, b"/api/v1/lease/:lease/extend", lease_submit, ROUTE_ONLY)
    t.verb = VERB_POP         # a lease's id names no queue
    t.small = True
    route_is(b"cycle", METHOD_POST, b"/streams/v1/cycle", cycle_submit, ROUTE_ONLY)
    t = route_is(b"events", METHOD_POST, b"/api/v1/events/:queue", push_submit, ROUTE_EVENTS)
    t.query = EVENTS_QUERY_NAMES
    t = route_is(b"livez", METHOD_GET, b"/livez", watch_tells, ROUTE_ONLY)
    t.methods |= 1 << METHOD_HEAD
    t.level = GRANT_NONE
    t.tells = True
    t = route_is(b"readyz", METHOD_GET, b"/readyz", engine_tell, ROUTE_ONLY)
    t.methods |= 1 << METHOD_HEAD
    t.level = GRANT_NONE
    t.tells = True

cdef HotRoute* route_is(const char* name, int method, const char* path,
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

cdef void pop_route(const char* name, const char* path, int route) noexcept nogil:
    cdef HotRoute* t = route_is(name, METHOD_GET, path, pop_submit, route)
    t.query = NULL
    t.delivers = True

cdef void stream_route(const char* name, const char* path, int route) noexcept nogil:
    cdef HotRoute* t = route_is(name, METHOD_GET, path, feed_submit, route)
    t.query = NULL
    t.streams = True
    t.delivers = True

routes_open()

# ---- queues and drains of each worker ------------------------------------------------------------------------------

cdef void queues_open(Engine* e) noexcept nogil:
    joblist_open(&e.resolving, JOB_RESOLVING)
    joblist_open(&e.wait_reload, JOB_RELOADING)
    joblist_open(&e.paused, JOB_PAUSED)
    joblist_open(&e.flushes, JOB_FLUSHING)
    joblist_open(&e.woken, JOB_RETRYING)
    joblist_open(&e.leased, JOB_LEASING)
    joblist_open(&e.cycles.jobs, JOB_LEASING)
    joblist_open(&e.lease_asks.jobs, JOB_LEASING)
    queue_is(e, &e.pops, TYPE_POP, NULL)
    queue_is(e, &e.claims, TYPE_POP, &HOLD_TURN)
    queue_is(e, &e.acks, TYPE_ACK, NULL)
    queue_is(e, &e.txs, TYPE_TRANSACTION, NULL)
    queue_is(e, &e.leases, TYPE_LEASE, NULL)
    # cycles wait for each other in the database
    limit_fixed(&e.cycles.limit,
                limit_clamp(e.settings.cycles, 1, e.settings.slots // 2 if e.settings.slots > 3 else 1))
    limit_fixed(&e.lease_asks.limit, 2)
    limit_fixed(&e.release_limit, 1)
    limit_fixed(&e.takeback_limit, 1)

cdef void queue_is(Engine* e, JobQueue* q, int job_type, const HoldRule* rule) noexcept nogil:
    joblist_open(&q.jobs, JOB_LEASING)
    limit_of_type(e, &q.limit, job_type)
    hold_of_type(e.settings, &q.hold, job_type, rule)

cdef void drains_open(Engine* e) noexcept nogil:
    cdef Drain* d
    d = drain_is(e, lookup_drain, <ListHead*>&e.resolving.first, False)      # names first: resolved names yield jobs
    d.lists[1] = <ListHead*>&e.round.waiting
    # The following drains rotate (DRAINS_IN_TURN).
    drain_is(e, pushes_drain, NULL, False)
    d = drain_is(e, pops_drain, <ListHead*>&e.woken.first, True)
    d.lists[1] = <ListHead*>&e.pops.jobs.first
    d.lists[2] = <ListHead*>&e.claims.jobs.first
    d.lists[3] = <ListHead*>&e.leased.first
    d.op = OP_POP
    d.queue = &e.pops
    drain_queue(e, acks_drain, &e.acks, OP_ACK)
    drain_queue(e, txs_drain, &e.txs, OP_TRANSACTION)
    # The following drains keep their order.
    drain_is(e, cycles_drain, <ListHead*>&e.cycles.jobs.first, True)
    drain_is(e, flushes_drain, <ListHead*>&e.flushes.first, False)
    drain_is(e, lease_asks_drain, <ListHead*>&e.lease_asks.jobs.first, True)
    drain_queue(e, leases_drain, &e.leases, OP_LEASE)
    drain_is(e, releases_drain, <ListHead*>&e.releases, True)
    drain_is(e, takebacks_drain, <ListHead*>&e.takebacks, False)
    drain_is(e, pauses_drain, <ListHead*>&e.paused.first, False)

cdef Drain* drain_is(Engine* e, void (*run)(Engine* e) noexcept nogil, ListHead* first, bint rests) noexcept nogil:
    cdef Drain* d = &e.drains[e.n_drains]
    e.n_drains += 1
    d.run = run
    d.lists[0] = first
    d.rests = rests
    return d

cdef void drain_queue(Engine* e, void (*run)(Engine* e) noexcept nogil, JobQueue* q, int op) noexcept nogil:
    cdef Drain* d = drain_is(e, run, <ListHead*>&q.jobs.first, True)
    d.op = op
    d.queue = q
