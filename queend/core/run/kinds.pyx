# The tables of job types. What is done with a job by those who need not know its type (kinds_open); its queue, policy
# and limit (queues_open); what is done about its lists in a turn (drains_open). A new type is a row of each.

cdef void kinds_open() noexcept nogil:
    memset(job_kinds, 0, sizeof(job_kinds))
    kind_is(OP_PUSH, push_ask, push_barred, push_retry, push_refuse)
    job_kinds[OP_PUSH].hurries = True
    kind_is(OP_POP, pop_ask, pop_barred, pop_retry, pop_refuse)
    job_kinds[OP_POP].until = pop_until
    job_kinds[OP_POP].expire = pop_expire
    kind_is(OP_ACK, ack_ask, NULL, ack_retry, job_refuse)
    job_kinds[OP_ACK].reloads = True
    kind_is(OP_TRANSACTION, tx_ask, tx_barred, tx_retry, tx_refuse)
    job_kinds[OP_TRANSACTION].reloads = True
    kind_is(OP_LEASE, NULL, NULL, NULL, job_refuse)
    kind_is(OP_OTHER, cycle_ask, cycle_barred, cycle_retry, cycle_refuse)
    job_kinds[OP_OTHER].reloads = True

cdef void kind_is(int op, void (*ask)(Engine* e, Job* j) noexcept nogil,
                  bint (*barred)(Round* r, Job* j) noexcept nogil,
                  void (*retry)(Engine* e, Job* j) noexcept nogil,
                  void (*refuse)(Job* j, int status, const char* text) noexcept nogil) noexcept nogil:
    cdef JobKind* t = &job_kinds[op]
    t.ask = ask
    t.barred = barred
    t.retry = retry
    t.refuse = refuse

# ---- of each worker ------------------------------------------------------------------------------------------------

cdef void queues_open(Engine* e) noexcept nogil:
    queue_is(e, &e.pops, TYPE_POP, NULL)
    queue_is(e, &e.claims, TYPE_POP, &HOLD_TURN)
    queue_is(e, &e.acks, TYPE_ACK, NULL)
    queue_is(e, &e.txs, TYPE_TRANSACTION, NULL)
    queue_is(e, &e.leases, TYPE_LEASE, NULL)
    # they wait for each other in there
    limit_fixed(&e.cycles.limit,
                limit_clamp(e.settings.cycles, 1, e.settings.slots // 2 if e.settings.slots > 3 else 1))
    limit_fixed(&e.lease_asks.limit, 2)
    limit_fixed(&e.release_limit, 1)
    limit_fixed(&e.takeback_limit, 1)

cdef void queue_is(Engine* e, JobQueue* q, int job_type, const HoldRule* rule) noexcept nogil:
    limit_of_type(e, &q.limit, job_type)
    hold_of_type(e.settings, &q.hold, job_type, rule)

cdef void drains_open(Engine* e) noexcept nogil:
    cdef Drain* d
    d = drain_is(e, lookup_drain, <ListHead*>&e.resolving.first, False)      # names first: jobs come of them
    d.lists[1] = <ListHead*>&e.round.waiting
    # these take turns (DRAINS_IN_TURN)
    drain_is(e, pushes_drain, NULL, False)
    d = drain_is(e, pops_drain, <ListHead*>&e.woken.first, True)
    d.lists[1] = <ListHead*>&e.pops.jobs.first
    d.lists[2] = <ListHead*>&e.claims.jobs.first
    d.lists[3] = <ListHead*>&e.leased.first
    d.op = OP_POP
    d.queue = &e.pops
    drain_queue(e, acks_drain, &e.acks, OP_ACK)
    drain_queue(e, txs_drain, &e.txs, OP_TRANSACTION)
    # and these do not
    drain_is(e, cycles_drain, <ListHead*>&e.cycles.jobs.first, True)
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
