# Messages of an ephemeral queue, and how far its groups are. In: payloads, deliveries, outcomes, the time. Out:
# messages to deliver, pops to wake. The time is an argument. Owns nothing: all stands in a queue (state/ephtypes).
# Locks: every function requires the lock of the queue's stripe.
# A message is in the list of its partition and in that of its queue, until all groups have completed it or it is
# dropped. A group has a cursor in each partition, and a flight for each message that it has received and not completed.

cdef EphLimits eph_limits
cdef EphFigures eph_figures

# ---- memory ----------------------------------------------------------------------------------------------------------

cdef bint ring_reserve(int64_t bytes) noexcept nogil:
    # Takes bytes of the bound of all queues. Returns False if they are not free.
    if atomic_add64(&eph_figures.bytes, bytes) > eph_limits.bytes:
        atomic_add64(&eph_figures.bytes, -bytes)
        return False
    return True

cdef inline void ring_release(int64_t bytes) noexcept nogil:
    atomic_add64(&eph_figures.bytes, -bytes)

cdef void* ring_alloc(size_t n) noexcept nogil:
    # Returns n bytes, all zero, counted in the bound; NULL if there is no room.
    cdef void* p
    if not ring_reserve(<int64_t>n):
        return NULL
    p = calloc(1, n)
    if p == NULL:
        ring_release(<int64_t>n)
    return p

cdef inline void ring_free(void* p, size_t n) noexcept nogil:
    free(p)
    ring_release(<int64_t>n)

cdef inline size_t ring_message_size(size_t n) noexcept nogil:
    return sizeof(EphMessage) + n

# ---- readiness -------------------------------------------------------------------------------------------------------

cdef inline int64_t ring_deliverable(const EphCursor* c) noexcept nogil:
    return c.pending - c.leased

cdef void ring_settle(EphCursor* c) noexcept nogil:
    # Puts a cursor into the list of its group's ready cursors, or takes it out.
    cdef bint ready = c.at != NULL or c.again.n > 0
    if ready == c.is_ready:
        return
    c.is_ready = ready
    if ready:
        link_put(<void**>&c.group.ready, c, <void**>&c.before)
    else:
        link_take(<void**>&c.group.ready, c, <void**>&c.before)

cdef void ring_count(EphCursor* c, int64_t pending, int64_t leased) noexcept nogil:
    c.pending += pending
    c.group.pending += pending
    c.leased += leased
    c.group.leased += leased

# ---- waiting pops ----------------------------------------------------------------------------------------------------

cdef void ring_wait(EphPop* j, EphGroup* g, EphCursor* c) noexcept nogil:
    # Lets a pop wait. c: NULL if it takes from any partition.
    j.group = g
    j.cursor = c
    link_put(<void**>(&c.wait_first if c != NULL else &g.wait_first), j, <void**>&j.before)
    g.n_wait += 1
    g.queue.n_wait += 1

cdef void ring_unwait(EphPop* j) noexcept nogil:
    # Takes a pop out of its list, if it is in one.
    cdef EphGroup* g = j.group
    if g == NULL:
        return
    link_take(<void**>(&j.cursor.wait_first if j.cursor != NULL else &g.wait_first), j, <void**>&j.before)
    j.group = NULL
    j.cursor = NULL
    g.n_wait -= 1
    g.queue.n_wait -= 1

cdef bint ring_gathers(const EphPop* j, const EphQueue* q, int64_t deliverable) noexcept nogil:
    # Returns True if a pop that has found messages waits for more of them.
    cdef int64_t most = q.options.window_count
    if most == 0 or most > j.req.batch:
        most = j.req.batch
    return deliverable < most

cdef void ring_wake_one(EphPop* j, EphPop** wake) noexcept nogil:
    ring_unwait(j)
    j.job.at = JOB_WOKEN
    j.next = wake[0]
    wake[0] = j

cdef void ring_wake(EphGroup* g, EphCursor* c, EphPop** wake) noexcept nogil:
    # Wakes one pop that can take a message of the group. c: the partition that has news; NULL: any.
    if c != NULL and c.wait_first != NULL and (c.at != NULL or c.again.n) and (
            c.wait_first.window_us == 0 or not ring_gathers(c.wait_first, g.queue, ring_deliverable(c))):
        ring_wake_one(c.wait_first, wake)
    elif g.wait_first != NULL and g.ready != NULL and (
            g.wait_first.window_us == 0 or not ring_gathers(g.wait_first, g.queue, g.pending - g.leased)):
        ring_wake_one(g.wait_first, wake)

cdef void ring_wake_all(EphQueue* q, bint gone, EphPop** wake) noexcept nogil:
    # Wakes all pops of a queue. gone: the queue is about to be deleted.
    cdef EphGroup* g = q.group_first
    cdef EphPartition* p
    cdef EphCursor* c
    while g != NULL:
        while g.wait_first != NULL:
            g.wait_first.queue_gone = gone
            ring_wake_one(g.wait_first, wake)
        p = q.first if g.n_wait else NULL
        while p != NULL:
            c = ring_cursor(g, p)
            while c.wait_first != NULL:
                c.wait_first.queue_gone = gone
                ring_wake_one(c.wait_first, wake)
            p = p.next
        g = g.next

# ---- flights and messages --------------------------------------------------------------------------------------------

cdef inline EphCursor* ring_cursor(EphGroup* g, EphPartition* p) noexcept nogil:
    return <EphCursor*>table_get(&g.cursors, <uint64_t>p)

cdef inline EphFlight* ring_flight(EphGroup* g, int64_t id) noexcept nogil:
    return <EphFlight*>table_get(&g.flights, <uint64_t>id)

cdef void ring_land(EphFlight* f) noexcept nogil:
    # Ends a flight, and frees it.
    cdef EphCursor* c = f.cursor
    if f.leased:
        heap_del(&c.group.queue.stripe.leases, &f.due)
        ring_count(c, 0, -1)
    else:
        heap_del(&c.again, &f.due)
    table_del(&c.group.flights, <uint64_t>f.message.id)
    ring_free(f, sizeof(EphFlight))

cdef void ring_message_free(EphMessage* m) noexcept nogil:
    # Takes a message out of its queue and frees it. Requires that every cursor is past it, and its flights are over.
    cdef EphPartition* p = m.partition
    cdef EphQueue* q = p.queue
    link_take(<void**>&p.oldest, m, <void**>&m.before)
    link_take(<void**>&q.oldest, m, <void**>&m.older)
    p.n -= 1
    p.bytes -= <int64_t>m.n
    q.n -= 1
    q.bytes -= <int64_t>m.n
    ring_free(m, ring_message_size(m.n))

cdef void ring_complete(EphCursor* c, EphMessage* m) noexcept nogil:
    # Notes that a group is done with a message, whose flight has ended. The last group frees the message.
    ring_count(c, -1, 0)
    m.done += 1
    if m.done >= c.group.queue.n_groups:
        ring_message_free(m)

cdef void ring_drop(EphMessage* m) noexcept nogil:
    # Drops a message for all groups that have not completed it.
    cdef EphCursor* c = m.partition.cursors
    cdef EphFlight* f
    while c != NULL:
        f = ring_flight(c.group, m.id)
        if f != NULL:
            ring_land(f)
        if f != NULL or c.at != NULL and m.id >= c.at.id:
            ring_count(c, -1, 0)
            c.group.skipped += 1
        if c.at is m:
            c.at = m.next
        ring_settle(c)
        c = c.of_partition
    ring_message_free(m)

cdef bint ring_drop_oldest(EphQueue* q) noexcept nogil:
    # Drops the queue's oldest message to make room. Returns False if there is none.
    if q.oldest == NULL:
        return False
    ring_drop(q.oldest)
    q.dropped_bounds += 1
    atomic_add64(&eph_figures.dropped_bounds, 1)
    return True

cdef void ring_again(EphFlight* f, EphPop** wake) noexcept nogil:
    # Makes a leased message ready to be delivered again. ring_take has made the room in the cursor's heap.
    cdef EphCursor* c = f.cursor
    heap_del(&c.group.queue.stripe.leases, &f.due)
    f.leased = False
    heap_add(&c.again, &f.due, f.message.id)
    ring_count(c, 0, -1)
    ring_settle(c)
    ring_wake(c.group, c, wake)

cdef bint ring_failed(EphFlight* f, EphPop** wake) noexcept nogil:
    # Handles a failed attempt. Returns True if it was the last one: the message is dropped for this group.
    cdef EphCursor* c = f.cursor
    cdef EphMessage* m = f.message
    if f.attempts < c.group.queue.options.retry_limit:
        f.attempts += 1
        ring_again(f, wake)
        return False
    ring_land(f)
    c.group.queue.dropped_retry += 1
    c.group.skipped += 1
    atomic_add64(&eph_figures.dropped_retry, 1)
    ring_complete(c, m)
    return True

# ---- pushes ----------------------------------------------------------------------------------------------------------

cdef void ring_push(EphPartition* p, EphMessage* m, int64_t now) noexcept nogil:
    # Adds a message, whose payload is filled in and whose memory is counted.
    cdef EphQueue* q = p.queue
    cdef EphCursor* c = p.cursors
    q.last_id += 1
    m.id = q.last_id
    m.partition = p
    m.pushed_us = now
    m.done = 0
    link_put(<void**>&p.oldest, m, <void**>&m.before)
    link_put(<void**>&q.oldest, m, <void**>&m.older)
    p.n += 1
    p.bytes += <int64_t>m.n
    q.n += 1
    q.bytes += <int64_t>m.n
    while c != NULL:
        ring_count(c, 1, 0)
        if c.at == NULL:
            c.at = m
            ring_settle(c)
        c = c.of_partition

cdef void ring_pushed(EphPartition* p, EphPop** wake) noexcept nogil:
    # Wakes one pop of each group after a push.
    cdef EphCursor* c = p.cursors
    while c != NULL:
        if c.group.n_wait:
            ring_wake(c.group, c, wake)
        c = c.of_partition

# ---- deliveries ------------------------------------------------------------------------------------------------------

cdef EphFlight* ring_take(EphCursor* c, int64_t until_us) noexcept nogil:
    # Leases the cursor's next message. Returns NULL if the cursor is at its end, or memory for the flight is short.
    cdef EphGroup* g = c.group
    cdef EphStripe* s = g.queue.stripe
    cdef HeapNode* top = heap_top(&c.again)
    cdef EphFlight* f
    cdef bint again = top != NULL
    if (not again and c.at == NULL or not heap_room(&s.leases, s.leases.n + 1)
            or not heap_room(&c.again, c.again.n + <int>c.leased + 1)):
        return NULL
    if again:
        f = <EphFlight*>top.owner
        heap_del(&c.again, top)
    else:
        f = <EphFlight*>ring_alloc(sizeof(EphFlight))
        if f == NULL:
            return NULL
        if not table_put(&g.flights, <uint64_t>c.at.id, f):
            ring_free(f, sizeof(EphFlight))
            return NULL
        f.due.owner = f
        f.cursor = c
        f.message = c.at
        c.at = c.at.next
    f.leased = True
    heap_add(&s.leases, &f.due, until_us)
    ring_count(c, 0, 1)
    ring_settle(c)
    return f

cdef EphMessage* ring_peek(const EphCursor* c, int* attempts) noexcept nogil:
    # Returns the message that the cursor delivers next, NULL if there is none, and the number of deliveries before.
    cdef HeapNode* top
    attempts[0] = 0
    if c.again.n == 0:
        return c.at
    top = c.again.nodes[1]
    attempts[0] = (<EphFlight*>top.owner).attempts
    return (<EphFlight*>top.owner).message

cdef void ring_consume(EphCursor* c) noexcept nogil:
    # Completes the cursor's next message without a lease. Requires that there is one.
    cdef HeapNode* top = heap_top(&c.again)
    cdef EphMessage* m = c.at
    if top != NULL:
        m = (<EphFlight*>top.owner).message
        ring_land(<EphFlight*>top.owner)
    else:
        c.at = m.next
    ring_settle(c)
    ring_complete(c, m)

cdef EphCursor* ring_next(EphGroup* g) noexcept nogil:
    # Returns the group's ready cursor whose turn it is, and puts it behind the others. NULL: there is none.
    cdef EphCursor* c = g.ready
    if c != NULL and c.next != NULL:
        link_take(<void**>&g.ready, c, <void**>&c.before)
        link_put(<void**>&g.ready, c, <void**>&c.before)
    return c

# ---- groups and partitions -------------------------------------------------------------------------------------------

cdef EphCursor* ring_cursor_new(EphGroup* g, EphPartition* p) noexcept nogil:
    # Adds the group's cursor in a partition, before all its messages. Returns NULL if there is no room.
    cdef EphCursor* c = <EphCursor*>ring_alloc(sizeof(EphCursor))
    if c == NULL:
        return NULL
    if not table_put(&g.cursors, <uint64_t>p, c):
        ring_free(c, sizeof(EphCursor))
        return NULL
    c.group = g
    c.partition = p
    c.at = p.oldest
    c.of_partition = p.cursors
    p.cursors = c
    ring_count(c, p.n, 0)
    ring_settle(c)
    return c

cdef void ring_cursor_free(EphCursor* c) noexcept nogil:
    # Frees a cursor without flights and waiting pops.
    cdef EphCursor** at = &c.partition.cursors
    while at[0] is not c:
        at = &at[0].of_partition
    at[0] = c.of_partition
    c.at = NULL
    ring_settle(c)
    ring_count(c, -c.pending, 0)
    table_del(&c.group.cursors, <uint64_t>c.partition)
    heap_free(&c.again)
    ring_free(c, sizeof(EphCursor))

cdef void ring_partition_free(EphPartition* p) noexcept nogil:
    # Frees a partition without messages and waiting pops.
    cdef EphQueue* q = p.queue
    while p.cursors != NULL:
        ring_cursor_free(p.cursors)
    link_take(<void**>&q.first, p, <void**>&p.before)
    table_del(&q.named, p.key)
    q.n_partitions -= 1
    ring_free(p, sizeof(EphPartition) + p.name.n)

cdef EphPartition* ring_partition(EphQueue* q, Slice name, int64_t now) noexcept nogil:
    # Returns a partition, which it creates if it is unknown. NULL: there is no room.
    cdef uint64_t key = ring_key(name)
    cdef EphPartition* p = <EphPartition*>table_get(&q.named, key)
    cdef EphGroup* g
    if p != NULL:
        p.used_us = now
        link_take(<void**>&q.first, p, <void**>&p.before)
        link_put(<void**>&q.first, p, <void**>&p.before)
        return p if slice_eq(p.name, name) else NULL
    if q.n_partitions >= EPH_PARTITIONS_MOST or (q.n_partitions + 1) * q.n_groups > EPH_CURSORS_MOST:
        return NULL
    p = <EphPartition*>ring_alloc(sizeof(EphPartition) + name.n)
    if p == NULL:
        return NULL
    p.name = slice_of(<char*>p + sizeof(EphPartition), name.n)
    memcpy(<char*>p.name.p, name.p, name.n)
    p.key = key
    p.queue = q
    p.used_us = now
    link_put(<void**>&q.first, p, <void**>&p.before)
    q.n_partitions += 1
    g = q.group_first
    if not table_put(&q.named, key, p):
        ring_partition_free(p)
        return NULL
    while g != NULL:
        if ring_cursor_new(g, p) == NULL:
            ring_partition_free(p)
            return NULL
        g = g.next
    return p

cdef void ring_group_free(EphGroup* g) noexcept nogil:
    # Forgets a group without waiting pops. Messages that only this group had not completed are freed.
    cdef EphQueue* q = g.queue
    cdef EphPartition* p = q.first
    cdef EphMessage* m
    cdef EphMessage* following
    cdef EphCursor* c
    cdef EphFlight* f
    q.n_groups -= 1
    while p != NULL:
        c = ring_cursor(g, p)
        m = p.oldest if c != NULL else NULL
        while m != NULL:
            following = m.next
            f = ring_flight(g, m.id)
            if f != NULL:
                ring_land(f)
            elif c.at == NULL or m.id < c.at.id:
                m.done -= 1
            if q.n_groups and m.done >= q.n_groups:
                if c.at is m:
                    c.at = following
                ring_message_free(m)
            m = following
        if c != NULL:
            ring_cursor_free(c)
        p = p.next
    link_take(<void**>&q.group_first, g, <void**>&g.before)
    table_del(&q.groups, g.key)
    table_free(&g.flights)
    table_free(&g.cursors)
    ring_free(g, sizeof(EphGroup) + g.name.n)

cdef inline uint64_t ring_key(Slice name) noexcept nogil:
    cdef uint64_t h = slice_hash(name, hash_seed)
    return h if h else 1

cdef EphGroup* ring_group_of(EphQueue* q, Slice name) noexcept nogil:
    # Returns a known group, NULL if it is unknown.
    cdef EphGroup* g = <EphGroup*>table_get(&q.groups, ring_key(name))
    return g if g != NULL and slice_eq(g.name, name) else NULL

cdef EphGroup* ring_group(EphQueue* q, Slice name, int64_t now) noexcept nogil:
    # Returns a group, which it creates before all messages if it is unknown. NULL: there is no room.
    cdef EphGroup* g = ring_group_of(q, name)
    cdef EphPartition* p = q.first
    if g != NULL:
        g.used_us = now
        link_take(<void**>&q.group_first, g, <void**>&g.before)
        link_put(<void**>&q.group_first, g, <void**>&g.before)
        return g
    if (table_get(&q.groups, ring_key(name)) != NULL or q.n_groups >= EPH_GROUPS_MOST
            or q.n_partitions * (q.n_groups + 1) > EPH_CURSORS_MOST):
        return NULL
    g = <EphGroup*>ring_alloc(sizeof(EphGroup) + name.n)
    if g == NULL:
        return NULL
    g.name = slice_of(<char*>g + sizeof(EphGroup), name.n)
    memcpy(<char*>g.name.p, name.p, name.n)
    g.key = ring_key(name)
    g.queue = q
    g.used_us = now
    if not table_put(&q.groups, g.key, g):
        ring_free(g, sizeof(EphGroup) + name.n)
        return NULL
    link_put(<void**>&q.group_first, g, <void**>&g.before)
    q.n_groups += 1
    while p != NULL:
        if ring_cursor_new(g, p) == NULL:
            ring_group_free(g)
            return NULL
        p = p.next
    return g
