# Pushes on their way into the failover buffer. In: jobs that arrive while the gate is shut or partly open, and jobs
# whose items the database could not take. Out: the same jobs, sent home once their records are on disk, or may go to
# the database. Owner: the first worker's thread, also of the jobs; no lock. Order: a push to a partition with records
# in the buffer waits up to SPILL_HOLD_US for their drain. Then it follows them into the buffer. So no push overtakes
# another, and the buffer runs empty under any load.

cdef enum:
    SPILL_HOLD_US = 1000000   # how long a push waits for earlier records

cdef JobList spill_held       # in order of arrival
joblist_open(&spill_held, JOB_HELD)

cdef bint spill_moved         # partitions became empty, or the gate moved: held pushes are checked again

cdef void spill_send(Worker* w, PushJob* j) noexcept nogil:
    # Sends a job to the first worker. Called on the job's worker.
    cdef bint sealed
    if not spool.on:
        job_refuse(&j.job, 503, "Push maintenance is on and this daemon has no failover buffer; try again later")
        return
    if catalog.spreads:
        uv_rwlock_rdlock(&catalog.lock)
        spread_push(j)
        uv_rwlock_rdunlock(&catalog.lock)
    if not sealing_push(w, j, True):
        return
    sealed = not j.spilled or sealring.n == 0 or spill_seal_back(w, j)
    j.spill_address = j.job.r.conn.address.client.key if j.job.r.conn != NULL else 1
    j.held_until = clock_mono_us() + SPILL_HOLD_US
    j.job.msg.run = spill_arrive
    if sealed and w is leader:
        spill_arrive(w, &j.job.msg)
    elif not sealed or not worker_post(leader, &j.job.msg):
        j.spill_why = SPILL_FAILED
        j.spill_error = ENOMEM
        push_spilled(w, &j.job.msg)

cdef bint spill_seal_back(Worker* w, PushJob* j) noexcept nogil:
    # Encrypts items that come back from the database. Returns False if memory ran out.
    cdef EachItem at
    cdef PushItem* it
    spill_expand(j)
    it = runitem_first(&at, &j.req)
    while it != NULL:
        if it.status == ITEM_UNREACHED and not sealing_has(it) and not sealing_item(w, &j.job, it):
            return False
        it = runitem_next(&at)
    return True

cdef void spill_expand(PushJob* j) noexcept nogil:
    # Expands runs: the buffer takes single records.
    cdef PushItem* it
    cdef int i
    for i in range(j.req.n):
        it = &j.req.items[i]
        if it.status == ITEM_UNREACHED and it.run != NULL and not it.run.open:
            runitem_expand(it)

cdef void spill_return(PushJob* j, void (*run)(Worker* w, InboxMsg* m) noexcept nogil) noexcept nogil:
    cdef Worker* home = j.job.r.worker
    if home is leader:
        run(home, &j.job.msg)
        return
    j.job.msg.run = run
    worker_post(home, &j.job.msg)

cdef void spill_arrive(Worker* w, InboxMsg* m) noexcept nogil:
    cdef PushJob* j = <PushJob*>m
    if j.spilled or j.unreached or spool.gate == GATE_SHUT:
        spill_take(j)
    elif spill_blocked(j):
        joblist_add(&spill_held, &j.job)
    else:
        spill_return(j, spill_pass)

cdef void spill_pass(Worker* w, InboxMsg* m) noexcept nogil:
    # Sends the push to the database: no earlier record is in the buffer.
    push_resolve(engine_of(w), <Job*>m)

cdef bint spill_blocked(PushJob* j) noexcept nogil:
    cdef PushItem* it
    cdef PushItem* before = NULL
    cdef int i
    for i in range(j.req.n):
        it = &j.req.items[i]
        if before != NULL and slice_eq(before.part, it.part) and slice_eq(before.queue, it.queue):
            continue
        before = it
        if table_get(&spool.waiting, spool_key(it.queue, it.part)) != NULL:
            return True
    return False

cdef void spill_take(PushJob* j) noexcept nogil:
    # Adds items to the next write: all items of a job that was not sent yet, otherwise those that came back.
    cdef size_t mark = spool.gather.len
    cdef int64_t now = clock_wall_us()
    cdef EachItem at
    cdef PushItem* it
    cdef int n = 0
    if not j.spilled:
        push_mark(j, ITEM_QUEUED, ITEM_UNREACHED)
    spill_expand(j)
    it = runitem_first(&at, &j.req)
    while it != NULL:
        if it.status == ITEM_UNREACHED:
            spool_record_put(&spool.gather, it, now)
            n += 1
        it = runitem_next(&at)
    j.spilled = True
    j.spill_why = spill_refuses(j, <int64_t>(spool.gather.len - mark))
    if j.spill_why != SPILL_KEPT:
        j.spill_error = ENOMEM if spool.gather.failed else 0
        spool.gather.len = mark
        spool.gather.failed = False
        if j.spill_why != SPILL_SHARE or spool.charged.used == 1:     # nobody else uses the buffer: it is full
            atomic_set64(&doubt.buffer, 1)
        spill_return(j, push_spilled)
        return
    spill_count(j, 1)
    spool.gather_records += n
    joblist_add(&spool.gather_jobs, &j.job)

cdef SpillWhy spill_refuses(PushJob* j, int64_t more) noexcept nogil:
    # Returns why the buffer does not take the bytes that were just gathered; SPILL_KEPT: it takes them.
    if spool.gather.failed:
        return SPILL_FAILED
    if spool_size() > spool.limit:
        return SPILL_FULL
    return SPILL_KEPT if spill_charge(j.spill_address, more) else SPILL_SHARE

cdef bint spill_charge(uint64_t address, int64_t more) noexcept nogil:
    # Charges gathered bytes to the address of their client. Returns False if the address has its share: beyond three
    # quarters of the limit, half of that. The charges last until the buffer is empty.
    cdef int64_t has
    if spool.first == NULL and not spool.writing and <int64_t>spool.gather.len <= more:
        table_clear(&spool.charged)
    has = <int64_t><uintptr_t>table_get(&spool.charged, address) + more
    if budget_over_share(spool_size(), spool.limit // 4 * 3, has):
        return False
    table_put(&spool.charged, address, <void*><uintptr_t>has)       # out of memory: these bytes are not charged
    return True

cdef void spill_count(PushJob* j, int64_t by) noexcept nogil:
    cdef EachItem at
    cdef PushItem* it = runitem_first(&at, &j.req)
    while it != NULL:
        if it.status == ITEM_UNREACHED:
            spool_count(it.queue, it.part, by)
        it = runitem_next(&at)

cdef void spill_written(uv_work_t* work, int status) noexcept nogil:
    global spill_moved
    # Ends a write: sends its jobs home.
    cdef PushJob* j = <PushJob*>joblist_take(&spool.write.jobs)
    cdef int why = SPILL_KEPT if spool.write.error == 0 else SPILL_FAILED
    atomic_set64(&doubt.buffer, why != SPILL_KEPT)
    spool_write_end()
    spill_moved = True
    while j != NULL and leader.engine != NULL:        # closed during the write: the connections are gone
        if why != SPILL_KEPT:
            spill_count(j, -1)
        j.spill_why = why
        j.spill_error = spool.write.error
        spill_return(j, push_spilled)
        j = <PushJob*>joblist_take(&spool.write.jobs)

cdef void spill_release() noexcept nogil:
    global spill_moved
    # Releases held pushes whose partitions are drained, or whose waiting time is over.
    cdef int n = spill_held.n
    cdef Job* job
    cdef PushJob* j
    cdef bint shut = spool.gate == GATE_SHUT or engine_of(leader).stopping
    cdef int64_t now = clock_mono_us()
    if n == 0 or not (spill_moved or shut or now >= (<PushJob*>spill_held.first).held_until):
        return
    spill_moved = False
    while n:
        n -= 1
        job = joblist_take(&spill_held)
        j = <PushJob*>job
        if shut or now >= j.held_until:
            spill_take(j)
        elif spill_blocked(j):
            joblist_add(&spill_held, job)
        else:
            spill_return(j, spill_pass)

cdef const char* spill_reason(Engine* e) noexcept nogil:
    # Returns why the gate is shut, for the log.
    if spool.paused:
        return b"push maintenance"
    if not slotpool_ready(e.slots):
        return b"the first worker has no connection to the database"
    if not catalog.loaded:
        return b"the names are not loaded from the database"
    if atomic_get64(&doubt.commits):
        return b"the database commits nothing"
    if atomic_get64(&doubt.disk_us):
        return b"the database has no space on its disk"
    return b"the database does not answer"

cdef void spill_gate(Engine* e) noexcept nogil:
    # Sets the gate; the only writer.
    global spill_moved
    cdef int gate = GATE_OPEN
    if (spool.paused or not catalog.loaded or not slotpool_ready(e.slots) or spool.doubt
            or atomic_get64(&doubt.commits)):
        gate = GATE_SHUT      # the first worker finds the database unavailable
    elif spool.pending or spool.gather_records or spool.writing or spill_held.n:
        gate = GATE_SOME
    if gate == spool.gate:
        return
    if gate == GATE_SHUT:
        log_line(b"warn", b"buffering", spill_reason(e))
    elif spool.gate == GATE_SHUT and gate == GATE_SOME:
        log_line(b"info", b"buffer_drains", NULL)
    elif gate == GATE_OPEN and spool.taken:
        log_line(b"info", b"buffer_empty", NULL)
    if gate == GATE_OPEN:
        atomic_set64(&doubt.buffer, 0)
    spool.gate = gate
    spill_moved = True

cdef void spill_drain(Engine* e) noexcept nogil:
    global spill_moved
    # Runs once per turn of the first worker's loop, if there is a buffer.
    spill_gate(e)
    spill_release()
    if not spool.writing and spool.gather.len:
        spool_write_begin(&leader.loop, spill_written)
    refill_drain(e)
    if (spool.pending == 0 and spool.gather_records == 0 and not spool.writing and spool.waiting.used
            and refill.job == NULL):
        table_clear(&spool.waiting)       # damaged records were counted for unknown partitions
        spill_moved = True
    spill_gate(e)

cdef inline bint spill_busy() noexcept nogil:
    # Returns True if work is running that must end before the first worker does.
    return spool.on and (spool.writing or spool.gather.len or spill_held.n or refill_busy())

cdef inline bint spill_waits() noexcept nogil:
    # Returns True if the timer must look again.
    return spool.pending != 0 or spill_held.n != 0 or refill.not_noted
