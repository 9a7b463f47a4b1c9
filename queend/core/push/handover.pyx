# Handover: delivery in the push's own round trip. In: a batch that is about to leave, and pops parked for its
# partitions. Out: answers of these pops, written from the batch after the commit. The push claims for them in its own
# transaction, which saves a second statement, a second commit and a read. Owner: the appender's thread; the batch owns
# a waiter in flight until handover_book gives it back; its request is touched only on its worker (handover_arrive).
# Locks: book.lock.

cdef enum:
    HANDOVER_CLAIMS = 256     # claims of one push; if more pops wait, the rest of the batch is the next batch
    HANDOVER_BYTES = 4194304  # of one partition's records; a larger push partition is not handed over

# ---- before the batch leaves -----------------------------------------------------------------------------------------
# The push holds the partition's lane. It claims only if the cursor stands exactly before its first new record
# (committed + 1 = base), free of leases and pauses. The row is locked with SKIP LOCKED. So it claims what a pop after
# the commit would. If anything differs, it claims nothing and the waiter is woken.

cdef bint handover_choose(Appender* s, PushBatch* b) noexcept nogil:
    # Chooses the pops that a batch serves. Requires that the batch is cut into rows. Returns True if the batch has
    # become shorter: it keeps the records for as many waiters as one call serves. These are committed and delivered
    # while the database stores the rest.
    cdef PushChunk* c
    cdef PushPartition* g = b.first
    cdef Group* group
    cdef int i
    cdef int end = b.n_chunks
    b.n_claims = 0
    b.takers = NULL
    b.takers_last = NULL
    if b.tries or b.check_ids:
        return False
    while g != NULL:
        if g.has_other and g.known <= 0:
            return False      # ids that need more than the newest row: stored in a second step, without claims
        g = g.next
    uv_mutex_lock(&book.lock)
    if book.parked:
        for i in range(b.n_chunks):
            c = &b.chunks[i]
            if b.n_claims >= HANDOVER_CLAIMS and c.skip == 0:
                end = i
                break
            if c.skip or c.group.partition.dead or c.group.bytes > HANDOVER_BYTES:
                continue
            group = c.group.partition.queue.group_list
            while group != NULL:
                if group.n_wait or group.n_wait_only or group.handing != NULL:
                    handover_claim(s, b, i, group)
                group = group.next
        for i in range(b.n_claims):
            if linger_crowd(b.n_jobs, b.claims[i].cursor.group.n_handing):
                b.claims[i].cursor.group.busy_at = clock_mono_us()
            b.claims[i].job.group.handing = NULL
            b.claims[i].cursor.group.n_handing = 0
    uv_mutex_unlock(&book.lock)
    return end < b.n_chunks and requeue_cut(s, b, end)

cdef void handover_claim(Appender* s, PushBatch* b, int row, Group* group) noexcept nogil:
    # Claims a partition for a group if its cursor is idle and a pop waits. Requires book.lock.
    cdef PushPartition* g = b.chunks[row].group
    cdef Cursor* c
    cdef PopJob* j
    cdef Claim* claim
    if (g.scheduled or group.dead or group.paused or group.conflates or queue_holds_back(group.queue)
            or b.n_claims >= HANDOVER_CLAIMS):
        return
    c = cursor_get(group, g.partition)
    if c == NULL or c.state != CURSOR_IDLE:
        return
    if b.claims == NULL:
        b.claims = <Claim**>arena_alloc(&b.arena, HANDOVER_CLAIMS * sizeof(Claim*))
        if b.claims == NULL:
            return
    j = c.wait_first if c.wait_first != NULL else group.handing
    if c.wait_first != NULL:
        j = handover_take(s, b, j, 1)
    elif j == NULL or j.n_claims >= j.hand_width or j.hand_left == 0:
        j = group.wait_first
        if j != NULL:
            j = handover_take(s, b, j, max(b.n_partitions // group.n_wait + 1, autopilot_soon(&group.handling)))
        group.handing = j
    if j == NULL:
        return
    claim = popjob_candidate(j, c)
    b.claims[b.n_claims] = claim
    b.n_claims += 1
    group.n_handing += 1
    claim.pushed = g
    claim.row = row
    claim.take = g.n if g.n < j.hand_left else j.hand_left
    j.hand_left -= claim.take
    cursor_move(c, CURSOR_BUSY, 0)

cdef PopJob* handover_take(Appender* s, PushBatch* b, PopJob* j, int share) noexcept nogil:
    # Takes a waiter out of the book. share: most partitions of the batch for it. Consumers that need at most 20 ms need
    # not share with others: few answers of many messages cost less than many answers of few. Returns NULL if memory ran
    # out.
    j.hand_width = min(j.width, j.req.partitions, share)
    if not popjob_room(j, j.hand_width, j.job.r.worker is s.worker):
        return NULL
    waiters_unpark(j)
    waiters_add(&b.takers, &b.takers_last, j)
    j.n_claims = 0
    j.hand_left = j.req.batch
    return j

cdef void handover_encode(Appender* s, PushBatch* b, ClaimArgs* a) noexcept nogil:
    cdef Claim* c
    cdef int i
    if b.n_claims == 0:
        for i in range(<int>(sizeof(ClaimArgs) // sizeof(PgArray))):
            arg_null(<PgArray*>a + i)
    for i in range(b.n_claims):
        c = b.claims[i]
        if c is c.job.claims:
            claim_lease(s.worker, c.job)
        pgarray_int4(&a.row, c.row + 1)
        pgarray_int4(&a.group, c.cursor.group.id)
        pgarray_int4(&a.take, c.take)
        pgarray_bool(&a.whole, c.take == c.pushed.n)
        pgarray_uuid(&a.lease, c.job.lease)
        pgarray_int8(&a.lease_us, 0 if c.job.req.auto_ack else c.job.lease_us)

# ---- after the answer ------------------------------------------------------------------------------------------------
# A group without a cursor there has got one if the partition was new too.

cdef void handover_undo(Appender* s, PushBatch* b, bint lost) noexcept nogil:
    # Undoes the claims of a call that did not happen or whose outcome is lost. Every waiter tries again. lost: leases
    # that may have been taken are given back.
    cdef PopJob* wake = NULL
    cdef PopJob* j
    cdef int i
    if b.n_claims == 0:
        return
    uv_mutex_lock(&book.lock)
    for i in range(b.n_claims):
        claim_undo(engine_of(s.worker), b.claims[i], lost, NULL)
    while b.takers != NULL:
        j = b.takers
        b.takers = j.wait_next
        waiters_wake(j, &wake)
    b.n_claims = 0
    index_unlock(s.worker, wake)

cdef void handover_book(PushBatch* b, int64_t now, PopJob** wake) noexcept nogil:
    # Books where each cursor stands after the commit, before waiters hear of the new heads. Waiters without a claim try
    # again. Requires book.lock.
    cdef Claim* c
    cdef PopJob* j = b.takers
    cdef PopJob* following
    cdef int i
    for i in range(b.n_claims):
        c = b.claims[i]
        c.first = c.pushed.first.offset
        c.cursor.partition.head = max(c.cursor.partition.head, c.pushed.head)
        if c.made:
            claim_made(c, False, NULL, now, wake)     # the client may have left: its own worker finds out
        else:
            cursor_move(c.cursor, CURSOR_IDLE, 0)
    while j != NULL:
        following = j.wait_next
        if j.n_made == 0:
            waiters_del(&b.takers, &b.takers_last, j)
            waiters_wake(j, wake)
        j = following

cdef void handover_answer(Appender* s, PushBatch* b) noexcept nogil:
    # Writes the answers of pops from the items of the batch, while the push requests of these items still exist.
    cdef PopJob* j
    cdef Buf* out
    while b.takers != NULL:
        j = b.takers
        b.takers = j.wait_next
        out = NULL
        if j.job.r.worker is not s.worker or j.client_gone:
            buf_init(&j.handed)
            out = &j.handed
        claim_keep(j)
        j.n_messages = handover_write(s.worker, out, j)
        s.worker.counters.handed_over += j.n_messages
        if out is &j.handed:
            j.job.msg.run = handover_arrive
            worker_post(j.job.r.worker, &j.job.msg)
        else:
            handover_end(j)

cdef int handover_write(Worker* w, Buf* out, PopJob* j) noexcept nogil:
    # Writes the messages of a waiter's claims. Returns the number of messages.
    cdef Delivery d
    cdef Claim* c
    cdef Records records
    cdef PushItem* it
    cdef int left, i
    delivery_begin(&d, w, j, out)
    for i in range(j.n_claims):
        c = &j.claims[i]
        delivery_claim(&d, c.cursor.partition, c.first, 1)
        runitem_read_begin(&records, c.pushed.first)
        left = c.take
        while left:
            it = records.it
            # a run is sent as its client framed it; a stored frame does not name its producer
            if (d.framed and records.at == 0 and it.run != NULL and it.run.codec == BODY_FRAMES and it.sub.n == 0
                    and left >= it.run.n // FRAMED_WASTE):
                d.n += it.run.n if it.run.n < left else left
                left -= it.run.n if it.run.n < left else left
                popreply_frames_stored(&d.frames, it.offset, it.created_us, it.run.n, it.run.stored,
                                       c.first + c.take - left - 1)
                runitem_read_begin(&records, it.next)
            else:
                runitem_read_next(&records, &d.m)
                delivery_message(&d)
                left -= 1
    return delivery_end(&d)

# ---- on the waiter's own worker --------------------------------------------------------------------------------------

cdef void handover_end(PopJob* j) noexcept nogil:
    # Sends the answer, or gives the leases back if the client left meanwhile.
    cdef Engine* e = engine_of(j.job.r.worker)
    popjob_adopt(j)
    heap_del(&e.deadlines, &j.deadline)
    if j.client_gone:
        claim_give_back(e, j)
        popend_forget(j)
    else:
        delivery_send(j, j.n_messages)

cdef void handover_arrive(Worker* w, InboxMsg* m) noexcept nogil:
    # Takes an answer that arrives from the appender's thread.
    cdef PopJob* j = <PopJob*>m
    cdef Buf* out
    if not j.client_gone:
        out = reply_begin(j.job.r, 200, delivery_type(j))
        buf_put(out, j.handed.data, j.handed.len)
        if j.handed.failed:
            out.failed = True
    buf_free(&j.handed)
    handover_end(j)
