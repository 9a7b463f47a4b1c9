# Drains the failover buffer. In: chunks of records from the disk. Out: pushes, as jobs without a client; a position
# that passes what was committed. Owns `refill`. Owner: the first worker's thread; no lock. One chunk is in flight at a
# time, so order is kept and other pushes share the batches. After a chunk's commit the position passes it. A crash
# before that drains it again: every id is looked up, so nothing is stored twice.

cdef struct Refill:
    PushJob* job              # the chunk in flight; NULL: none
    int64_t after             # where the next chunk begins
    int64_t until_us          # when its last record was taken
    int64_t retry_at          # monotonic: no attempt before this moment
    size_t want               # bytes of a record larger than a window, 0: none
    bint trouble              # the last read failed
    bint not_noted            # the last step could not note what was done
    bint unhurried            # the last chunk had no timely answer: this one may take the whole deadline

cdef Refill refill

cdef enum:
    REFILL_BAD_MOST = 4 << 20 # bytes that wait for room in the quarantine; with more, draining stops

cdef inline bint refill_busy() noexcept nogil:
    # Notes that failed count as done: the next start drains again what they would have passed.
    return (refill.job != NULL or spool.stepping
            or not refill.not_noted and (spool.step.note or spool.step.drained != NULL or spool.step.bad.len))

cdef void refill_drain(Engine* e) noexcept nogil:
    # Begins the next step, if there is one.
    cdef SpoolStep* t = &spool.step
    cdef SpoolSegment* s
    cdef size_t want = 0
    if refill.job != NULL or spool.stepping:
        return
    s = spool.first
    if s != NULL and spool.at >= s.size and not (s == spool.last and spool.writing):
        spool.pending -= s.records            # damaged records
        spool_drop()
        s = spool.first
    if clock_mono_us() < refill.retry_at:
        return
    if (s != NULL and not spool.paused and not e.stopping and catalog.loaded and slotpool_ready(e.slots)
            and spool.at < s.size and t.bad.len <= REFILL_BAD_MOST and not refill_commits_hang()):
        want = refill.want if refill.want else SPOOL_WINDOW
        if <int64_t>want > s.size - spool.at:
            want = <size_t>(s.size - spool.at)
    if want == 0 and t.drained == NULL and not t.note and not t.bad.len:
        return
    if s != NULL:
        t.number = s.number
        t.at = spool.at
    else:
        t.note = False
    t.want = want
    t.work.data = t
    spool.stepping = True
    if uv_queue_work(&leader.loop, &t.work, segment_step_run, refill_stepped) != 0:
        t.error = ENOMEM
        t.note_error = 0
        refill_stepped(&t.work, 0)

cdef bint refill_commits_hang() noexcept nogil:
    # Returns True while commits hang: the control plane waits for one. An abandoned push keeps its server session until
    # its commit ends, so one push is tried per DOUBT_TRY_US at most.
    cdef int64_t since = atomic_get64(&doubt.commits)
    cdef int64_t now = clock_mono_us()
    if since == 0:
        return False
    if now - since < DOUBT_TRY_US:
        return True
    atomic_set64(&doubt.commits, now)
    return False

cdef void refill_stepped(uv_work_t* work, int status) noexcept nogil:
    cdef SpoolStep* t = &spool.step
    cdef char[96] text
    spool.stepping = False
    if leader.engine == NULL:
        return
    if t.note_error and not refill.not_noted:
        snprintf(text, sizeof(text), b"%s; draining goes on", strerror(t.note_error))
        log_line(b"warn", b"buffer_not_noted", text)
    refill.not_noted = t.note_error != 0
    if t.error == EIO:
        # The disk cannot read this page. Readable records after it are found by their mark.
        snprintf(text, sizeof(text), b"%020llu.seg at %lld: %s", <unsigned long long>t.number, <long long>t.at,
                 strerror(EIO))
        log_line(b"error", b"buffer_unreadable", text)
        spool.failed += 1
        spool.at += 4096 - spool.at % 4096
        if spool.at > spool.first.size:
            spool.at = spool.first.size
        return
    if t.error:
        if not refill.trouble:
            log_line(b"error", b"buffer_step_failed", strerror(t.error))
        refill.trouble = True
        refill.retry_at = clock_mono_us() + 1000000
        return
    refill.trouble = False
    if t.want:
        refill_chunk(t)
    elif t.note_error:
        refill.retry_at = clock_mono_us() + 1000000

cdef void refill_adopt(Worker* w, InboxMsg* msg) noexcept nogil:
    # Takes over a segment of another daemon. Refuses while this daemon's buffer has work; the sender checks whether the
    # segment is still there, and sends the message again.
    global spill_moved
    cdef AdoptMsg* m = <AdoptMsg*>msg
    cdef int error
    cdef bint idle = (spool.on and spool.first == NULL and spool.gather.len == 0 and not spool.writing
                      and not spool.paused and not refill_busy()
                      and leader.engine != NULL and catalog.loaded and not engine_of(w).stopping
            and slotpool_ready(engine_of(w).slots))
    if idle:
        segment_close(&spool.fd)
        error = segment_adopt(m.dir, m.number)
        if error:
            log_line(b"error", b"buffer_not_adopted", strerror(error))
        spill_moved = True
    free(m)

cdef void refill_chunk(SpoolStep* t) noexcept nogil:
    # Makes items of the bytes, and a job of the items.
    cdef Request* r = request_open(leader, NULL)
    cdef PushJob* j = NULL
    cdef PushItem* items = NULL
    cdef PushItem* it
    cdef Extras x
    cdef int64_t left = spool.first.size - spool.at
    cdef size_t p = 0
    cdef size_t n
    cdef size_t room
    cdef int found
    cdef int count = 0
    if r != NULL:
        room = t.bytes.len // (SPOOL_HEAD + SPOOL_LEAST) + 1
        if room > <size_t>spool.chunk:
            room = <size_t>spool.chunk
        j = <PushJob*>arena_zero(&r.arena, sizeof(PushJob))
        items = <PushItem*>arena_alloc(&r.arena, room * sizeof(PushItem))
    if j == NULL or items == NULL:
        if r != NULL:
            request_close(r)
        refill.retry_at = clock_mono_us() + 1000000
        return
    while p < t.bytes.len and count < <int>room:
        it = &items[count]
        found = spool_record_next(t.bytes.data + p, t.bytes.len - p, <size_t>left - p, it, &x, &refill.until_us, &n)
        if found == SPOOL_MORE:
            break
        if found == SPOOL_RECORD:
            if x.seal.n:
                refill_unseal(r, it, &x)
            if x.due.n or x.seal.n or x.headers.n:
                it.more = <Extras*>arena_alloc(&r.arena, sizeof(Extras))
                if it.more == NULL:
                    break
                it.more[0] = x
            # neighbours share equal texts, so that items of one partition can be joined
            if count and slice_eq((it - 1).queue, it.queue):
                it.queue = (it - 1).queue
            if count and slice_eq((it - 1).sub, it.sub):
                it.sub = (it - 1).sub
            count += 1
        else:
            refill_bad(slice_of(t.bytes.data + p, n), b"damaged")
        p += n
    refill.want = n if p == 0 and found == SPOOL_MORE else 0
    refill.after = spool.at + <int64_t>p
    if count == 0:
        request_close(r)
        if p == 0 and refill.want == 0:
            refill.retry_at = clock_mono_us() + 1000000       # out of memory
        if p:
            spool.at = refill.after
            t.note = True
        return
    refill.job = j
    request_leave(r)
    r.started_us = clock_mono_us()
    r.body = slice_of(t.bytes.data, p)
    job_open(&j.job, r, &PUSH_JOB, p)
    j.drain = True
    j.unhurried = refill.unhurried
    j.req.n = count
    j.req.items = items
    j.records = count
    pushrun_join(&j.req, &r.arena)
    push_chain(j)
    push_resolve(engine_of(leader), &j.job)

cdef void refill_unseal(Request* r, PushItem* it, Extras* x) noexcept nogil:
    # Decrypts an item whose queue stores plain payloads. It was encrypted because the queue's state was unknown then.
    # If this is outdated, the item is encrypted again before its batch leaves.
    cdef Slice opened = it.payload
    cdef Queue* q
    cdef bint stays
    uv_rwlock_rdlock(&catalog.lock)
    q = catalog_queue(it.queue)
    stays = q == NULL or q.sealed
    uv_rwlock_rdunlock(&catalog.lock)
    if stays or seal_reveal(&r.worker.seal, it.queue, x.seal, &opened) != SEAL_OPENED:
        return
    opened = arena_copy(&r.arena, opened)
    if opened.p != NULL:
        it.payload = opened
        x.seal = slice_of(NULL, 0)

cdef void refill_bad(Slice bytes, const char* why) noexcept nogil:
    cdef char[96] text
    snprintf(text, sizeof(text), b"%s: %llu bytes went into the quarantine", why, <unsigned long long>bytes.n)
    log_line(b"error", b"buffer_record_bad", text)
    buf_slice(&spool.step.bad, bytes)
    spool.failed += 1

cdef void refill_retry(int64_t pause_us) noexcept nogil:
    # Drops the results of the chunk: it is read again after a pause.
    refill_end()
    refill.retry_at = clock_mono_us() + pause_us

cdef void refill_end() noexcept nogil:
    cdef PushJob* j = refill.job
    if j.limited:
        capacity_settle(j)
    refill.job = NULL
    request_close(job_end(&j.job))

cdef void refill_answered(PushJob* j) noexcept nogil:
    # Takes the outcome of the chunk.
    global spill_moved
    cdef EachItem at
    cdef PushItem* it
    refill.unhurried = j.failed == FAILED_UNREACHED and spool.doubt
    if j.failed == FAILED_UNREACHED:
        refill_retry(spool.pause_us)
        return
    if j.failed == FAILED_UNCLEAR or j.unsealed:
        refill_retry(1000000)         # an error that is not these records' fault
        return
    it = runitem_first(&at, &j.req)
    while it != NULL:
        refill_done(it, req_item_count(it))
        it = runitem_next(&at)
    spool.first.records -= j.records
    spool.pending -= j.records
    spool.drained += <uint64_t>j.records
    spool.at = refill.after
    spool.oldest_us = refill.until_us
    spool.step.note = True
    refill_end()
    spill_moved = True

cdef void refill_done(PushItem* it, int n) noexcept nogil:
    cdef Buf record
    # it was counted under the name that its record has
    spool_count(it.queue, slice_lit(PARTITION_DEFAULT) if it.spread else it.part, -n)
    if it.status <= ITEM_DUPLICATE and it.partition != NULL:
        it.partition.queue.tally[leader.index].push_messages += n
    if it.status != ITEM_FAILED:
        return
    # A batch is split until the item at fault stands alone: this is one record. It is encoded anew.
    buf_init(&record)
    spool_record_put(&record, it, refill.until_us)
    refill_bad(slice_of(record.data, record.len), b"refused by the database")
    buf_free(&record)
