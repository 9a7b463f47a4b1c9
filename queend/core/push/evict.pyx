# Takes items out of batches after a reload of the catalog. Their partition is gone, their queue got a bound and they
# hold no room, or their queue became encrypted and they are plain. In: the batches of a stream. Out: items sent back to
# their requests, which look up their names again. Owner: the stream's thread.

cdef struct EvictedMsg:
    InboxMsg msg
    PushJob* job
    PushItem* items
    bint unsure               # the records may be stored already

cdef void stream_reloaded(PushStream* s) noexcept nogil:
    # Evicts from all batches of a stream after a reload, on its thread. Groups that can still be sent stay where they
    # are.
    cdef PushBatch* b = s.again
    s.stale = False
    while b != NULL:
        batch_evict(s, b)
        b = b.next
    if s.gather != NULL:
        batch_evict(s, s.gather)
    # empty batches are freed, unless the batch in flight may use their memory (batch_part)
    while s.again != NULL and s.again.first == NULL and s.flying == NULL:
        b = s.again
        s.again = b.next
        batch_free(b)
    if s.gather != NULL and s.gather.first == NULL:
        b = s.gather
        s.gather = NULL
        batch_free(b)
    if stream_main(s).pushers != NULL and s.gather == NULL:
        pushers_turn(stream_main(s))

cdef void batch_evict(PushStream* s, PushBatch* b) noexcept nogil:
    cdef PushGroup* g = b.first
    cdef PushGroup* last = NULL
    cdef PushGroup* following
    while g != NULL:
        following = g.next
        if g.partition.dead or group_bare(g) or group_roomless(g):
            batch_unlink(b, last, g)
            if g.partition.open is g:
                g.partition.open = NULL
            if b.unsure and not g.partition.dead:
                group_fail(s, g, FAILED_UNREACHED, NULL)      # they may be stored already, in clear
            else:
                items_evict(s, g.first, b.unsure)
                items_evict(s, g.dups, b.unsure)      # after the records that they repeat
        else:
            last = g
        g = following

cdef bint group_roomless(PushGroup* g) noexcept nogil:
    cdef PushItem* it = g.first if g.partition.queue.max_size > 0 else NULL
    while it != NULL and it.room != NULL:
        it = it.next
    return it != NULL

cdef void items_evict(PushStream* s, PushItem* it, bint unsure) noexcept nogil:
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
            item_refuse(s, last)
            continue
        part = it.of_part
        part.parted = True
        m.job = part.job
        m.items = it
        m.unsure = unsure
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
        m.msg.run = push_evicted
        worker_post(part.job.job.r.worker, &m.msg)
        if part.left == 0:
            part.msg.run = push_part_home
            worker_post(part.job.job.r.worker, &part.msg)

cdef void push_evicted(Worker* w, InboxMsg* msg) noexcept nogil:
    cdef EvictedMsg* m = <EvictedMsg*>msg
    cdef PushJob* j = m.job
    cdef PushItem* items = m.items
    cdef PushItem** end = &j.unresolved
    j.unsure = j.unsure or m.unsure
    free(m)
    if not j.held:
        j.held = True
        j.parts_left += 1
        j.unresolved = items
        push_go(w, j)
        return
    # the job's other items are being looked up already: these are appended to them
    while end[0] != NULL:
        end = &end[0].next
    end[0] = items
