# Items that are sent once more. In: a batch that is too much for one statement, or has an error of one item; answers
# that refuse partitions; reloads of the catalog. Out: two batches; a batch of the refused partitions; items sent back
# to their requests, which look up their names again. Owner: the appender's thread.

# ---- two batches -----------------------------------------------------------------------------------------------------
# Each half is sent by itself, until the item that is to blame stands alone.

cdef bint requeue_cut(Appender* s, PushBatch* b, int end) noexcept nogil:
    # Moves the rows from `end` on, where a partition begins, into the next batch. Returns False if memory ran out: b
    # stays whole.
    cdef PushBatch* rest = batch_new(s, b)
    cdef PushPartition* last = b.chunks[end - 1].group
    if rest == NULL:
        return False
    requeue_divide(b, rest, last)
    b.n_chunks = end
    appender_first(s, rest)
    return True

cdef void requeue_bisect(Appender* s, PushBatch* b) noexcept nogil:
    # Splits a batch with an error that belongs to one item. Each half is sent by itself, until that item stands alone.
    cdef PushBatch* half = batch_new(s, b)
    cdef PushPartition* g
    cdef PushPartition* other
    cdef PushItem* it
    cdef PushItem* following
    cdef int i, n
    if half == NULL:
        results_fail_all(s, b, FAILED_UNREACHED)
        return
    g = b.first
    if b.n_partitions > 1:
        for i in range(b.n_partitions // 2 - 1):
            g = g.next
        requeue_divide(b, half, g)
    else:
        runitem_expand_all(g)
        other = <PushPartition*>arena_zero(&half.arena, sizeof(PushPartition))
        if other == NULL:
            batch_free(half)
            results_fail_all(s, b, FAILED_UNREACHED)
            return
        other[0] = g[0]
        other.slots = NULL
        n = g.n // 2
        it = g.first
        for i in range(n - 1):
            it = it.next
        following = it.next
        it.next = NULL
        g.last = it
        other.first = following
        other.n = g.n - n
        g.n = n
        g.slots = NULL
        requeue_bisect_dups(g, other)
        half.first = other
        half.last = other
        half.n_partitions = 1
        half.n_items = other.n
        b.n_items = n
        # lo and hi stay those of both halves: a wider range only costs a look-up
    appender_first(s, half)
    appender_first(s, b)

cdef void requeue_divide(PushBatch* b, PushBatch* rest, PushPartition* last) noexcept nogil:
    # Moves the push partitions behind `last`, at least one, to an empty batch. That batch is sent after b, and so keeps
    # the memory of both.
    cdef PushPartition* g = last.next
    cdef Arena arena = rest.arena
    rest.first = g
    rest.last = b.last
    last.next = NULL
    b.last = last
    g.prev = NULL
    while g != NULL:
        rest.n_partitions += 1
        rest.n_items += g.n
        g = g.next
    b.n_partitions -= rest.n_partitions
    b.n_items -= rest.n_items
    rest.arena = b.arena
    b.arena = arena

cdef void requeue_bisect_dups(PushPartition* g, PushPartition* other) noexcept nogil:
    # Assigns each duplicate to the half of its first occurrence. Meanwhile `original` marks the items of the first half
    # with themselves; an item of a chain has no other use for it.
    cdef PushItem* it = g.dups
    cdef PushItem* following
    cdef PushItem* at = g.first if it != NULL else NULL
    g.dups = NULL
    other.dups = NULL
    while at != NULL:
        at.original = at
        at = at.next
    while it != NULL:
        following = it.next
        if it.original.original != NULL:
            it.next = g.dups
            g.dups = it
        else:
            it.next = other.dups
            other.dups = it
        it = following
    at = g.first
    while at != NULL:
        at.original = NULL
        at = at.next

# ---- refused partitions ----------------------------------------------------------------------------------------------

cdef PushBatch* requeue_refused(Appender* s, PushBatch* b) noexcept nogil:
    # Takes the partitions of which nothing was stored out of the batch. Returns them as a batch that is sent once more,
    # plain; NULL if all were answered. Either a compressed row holds a duplicate, or the compared rows of the log lack
    # one of the records (push/results).
    cdef PushBatch* again
    cdef PushPartition* g = b.first
    cdef PushPartition* other
    cdef PushPartition* following
    while g != NULL and not g.refused:
        g = g.next
    again = batch_new(s, b) if g != NULL else NULL
    if again == NULL:
        return NULL       # or no memory: the refused push partitions stay unanswered and are failed
    again.uncompressed = True
    while g != NULL:
        following = g.next
        other = batch_partition(again, g.partition) if g.refused else NULL
        if other != NULL:
            batch_unlink(b, g)
            runitem_expand_all(g)
            batch_pour(g, again, other)
        g = following
    if again.n_partitions == 0:
        batch_free(again)
        return NULL
    return again

# ---- evicted items ---------------------------------------------------------------------------------------------------
# Their partition is gone, or their queue got a bound and they hold no room. Or their queue became encrypted and they
# are plain, or it is spread in another way now (push/spread).

cdef struct EvictedMsg:
    InboxMsg msg
    PushJob* job
    PushItem* items
    bint check_ids            # the records may be stored already

cdef void requeue_reloaded(Appender* s) noexcept nogil:
    # Evicts from all batches of an appender after a reload, on its thread. Push partitions that can still be sent stay.
    cdef PushBatch* b = s.resend
    s.stale = False
    while b != NULL:
        requeue_evict(s, b)
        b = b.next
    if s.gather != NULL:
        requeue_evict(s, s.gather)
    # empty batches are freed, unless the batch in flight may use their memory (requeue_divide)
    while s.resend != NULL and s.resend.first == NULL and s.flying == NULL:
        b = s.resend
        s.resend = b.next
        batch_free(b)
    if s.gather != NULL and s.gather.first == NULL:
        b = s.gather
        s.gather = NULL
        batch_free(b)
    if s.main.pushers != NULL and s.gather == NULL:
        pushers_turn(s.main)

cdef void requeue_evict(Appender* s, PushBatch* b) noexcept nogil:
    # Takes out of a batch what cannot be sent as it is. It returns to its requests and comes again.
    cdef PushPartition* g = b.first
    cdef PushPartition* following
    while g != NULL:
        following = g.next
        if g.partition.dead or sealing_needs_any(g) or capacity_lacks(g) or spread_stale_any(b, g):
            batch_unlink(b, g)
            if g.partition.gathering is g:
                g.partition.gathering = NULL
            if b.check_ids and not g.partition.dead:
                result_fail(s, g, FAILED_UNREACHED, NULL)     # they may be stored already, in clear
            else:
                requeue_items(s, g.first, b.check_ids)
                requeue_items(s, g.dups, b.check_ids)  # after the records that they repeat
        g = following

cdef void requeue_items(Appender* s, PushItem* it, bint check_ids) noexcept nogil:
    # Sends a chain of items back to their requests. Consecutive items of one part travel in one message; a part without
    # items left follows them.
    cdef EvictedMsg* m
    cdef PushItem* last
    cdef PushPart* part
    while it != NULL:
        m = <EvictedMsg*>calloc(1, sizeof(EvictedMsg))
        if m == NULL:
            last = it
            it = it.next
            result_refuse(s, last)
            continue
        part = it.of_part
        part.parted = True
        m.job = part.job
        m.items = it
        m.check_ids = check_ids
        last = it
        while True:
            last.status = ITEM_QUEUED
            last.original = NULL
            part.left -= 1
            it = last.next
            if it == NULL or it.of_part is not part:
                break
            last = it
        last.next = NULL
        m.msg.run = requeue_arrive
        worker_post(part.job.job.r.worker, &m.msg)
        if part.left == 0:
            part.msg.run = push_part_return
            worker_post(part.job.job.r.worker, &part.msg)

cdef void requeue_arrive(Worker* w, InboxMsg* msg) noexcept nogil:
    cdef EvictedMsg* m = <EvictedMsg*>msg
    cdef PushJob* j = m.job
    cdef PushItem* items = m.items
    cdef PushItem** end = &j.unresolved
    j.check_ids = j.check_ids or m.check_ids
    free(m)
    if not j.held:
        j.held = True
        j.parts_left += 1
        j.unresolved = items
        push_resolve(engine_of(w), &j.job)
        return
    # the job's other items are being looked up already: these are appended to them
    while end[0] != NULL:
        end = &end[0].next
    end[0] = items
