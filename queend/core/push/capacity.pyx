# Capacity: admits pushes to queues with maxSize. In: items whose partitions are known. Out: admitted items, marked with
# the queue whose room they take; the others are refused. Queues without maxSize cost one comparison. A bound may be
# exceeded by what other daemons store between two answers: at worst each daemon fills the queue to maxSize by itself.
# Owner: the process. Guarded by capacity_lock, which is taken alone or below catalog.lock, and released before any
# other lock is taken.

cdef enum:
    CAPACITY_AGE_US = 1000000    # maximum age of an answer by which the queue is empty
    CAPACITY_SHARE = 10          # at most one part in so many of the time is spent asking for sizes
    CAPACITY_CHEAP_US = 20000    # an answer that took less time is asked for whenever it is of use

# Results of capacity_transaction, besides the index of the operation without room.
cdef enum CapacityAnswer:
    CAPACITY_FITS = -1
    CAPACITY_UNKNOWN = -2     # sizes have to be asked for

# ---- the size of a queue: messages that some group has not consumed yet ----------------------------------------------
# Rounds of look-ups ask for sizes (queend.queue_sizes) if the last answer is old, or was asked for before a request
# came that it would refuse. Size = answer - stored by then + taken (admitted, less duplicates and refused). Records in
# flight may count twice.

cdef inline int64_t capacity_left(Queue* q) noexcept nogil:
    cdef int64_t left = q.max_size - q.capacity.answer - q.capacity.taken
    return 0 if left < 0 else (left if left < q.max_size else q.max_size)

cdef inline bint capacity_asks(Queue* q, const Job* j, bint refuses, int64_t now) noexcept nogil:
    # Returns True if the size has to be asked for: the last answer is too old to admit records. The less room it
    # leaves, the sooner it is too old. refuses: to refuse some, an answer must be newer than the request, or expensive.
    cdef Capacity* c = &q.capacity
    cdef int64_t most = q.max_size      # read once: a reload beside may take the bound away
    cdef int64_t age = now - c.asked_us
    if j.tries >= JOB_TRIES:
        return False
    if c.asked_us == 0 or most <= 0 or age > CAPACITY_SHARE * c.took_us + CAPACITY_AGE_US * capacity_left(q) // most:
        return True
    return refuses and c.asked_us < j.born_us and (c.took_us <= CAPACITY_CHEAP_US or age >= CAPACITY_SHARE * c.took_us)

# ---- pushes ----------------------------------------------------------------------------------------------------------

cdef bint capacity_admit(Engine* e, PushJob* j) noexcept nogil:
    # Takes room for the unresolved items; items without room leave the chain. Returns False if the job waits for sizes,
    # with the room it has, or was answered.
    cdef int64_t now = clock_mono_us()
    cdef PushItem** link = &j.unresolved
    cdef PushItem* it
    cdef PushItem* following
    cdef Queue* q
    cdef int n, room
    cdef bint wait = False
    j.limited = True
    uv_mutex_lock(&capacity_lock)
    while link[0] != NULL:
        it = link[0]
        q = it.partition.queue
        if q.max_size <= 0 or it.room is <void*>q:
            link = &it.next
            continue
        n = req_item_count(it)
        room = n if j.drain else <int>min(n, capacity_left(q))    # the failover buffer's records were accepted before
        if not j.drain and capacity_asks(q, &j.job, room < n, now):
            q.capacity.wanted = True
            wait = True
            break
        q.capacity.taken += room
        following = it.next
        if room == n:
            it.room = q
            link = &it.next
        elif room == 0 and (it.run == NULL or it.run.made):
            capacity_refuse(j, it, q)
            link[0] = following
        else:
            capacity_cut(j, it, room, q)
            if room:
                link[0] = it.run.items
                link = &it.run.items[room - 1].next
            link[0] = following
    uv_mutex_unlock(&capacity_lock)
    if wait or j.doubts:
        j.job.tries += 1
        joblist_add(&e.resolving, &j.job)
        return False
    if j.unresolved == NULL and not j.held:
        push_answer(j)
        return False
    return True

cdef inline void capacity_refuse(PushJob* j, PushItem* it, Queue* q) noexcept nogil:
    it.status = ITEM_FAILED
    it.full = FULL
    it.offset = q.max_size
    it.room = NULL
    if it.id_kind != ID_MADE and it.run == NULL:
        it.full = FULL_UNCHECKED
        j.doubts = True

cdef void capacity_cut(PushJob* j, PushItem* it, int room, Queue* q) noexcept nogil:
    # Opens a run of which only the first `room` records fit: admits these and refuses the others.
    cdef int i
    runitem_expand(it)
    for i in range(it.run.n):
        if i < room:
            it.run.items[i].room = q
        else:
            capacity_refuse(j, &it.run.items[i], q)

cdef void capacity_ask(Engine* e, PushJob* j) noexcept nogil:
    # Asks whether refused records with ids made by the client are stored already: duplicates need no room.
    cdef EachItem at
    cdef PushItem* it = runitem_first(&at, &j.req)
    j.doubts = False
    while it != NULL:
        if it.full == FULL_UNCHECKED:
            it.full = FULL
            ask_stored(e, it)
        it = runitem_next(&at)

cdef bint capacity_lacks(PushPartition* g) noexcept nogil:
    cdef PushItem* it = g.first if g.partition.queue.max_size > 0 else NULL
    while it != NULL and it.room != NULL:
        it = it.next
    return it != NULL

cdef void capacity_give_back(PushJob* j) noexcept nogil:
    # Gives back the room of the unresolved items, which will not be sent.
    cdef PushItem* it = j.unresolved
    if not j.limited:
        return
    uv_mutex_lock(&capacity_lock)
    while it != NULL:
        if it.room != NULL:
            it.room.capacity.taken -= req_item_count(it)
            it.room = NULL
        it = it.next
    uv_mutex_unlock(&capacity_lock)

cdef void capacity_settle(PushJob* j) noexcept nogil:
    # Settles the room of a push whose items are all finished: stored records keep it, the others give it back.
    cdef EachItem at
    cdef PushItem* it = runitem_first(&at, &j.req)
    uv_mutex_lock(&capacity_lock)
    while it != NULL:
        if it.room != NULL and it.status == ITEM_QUEUED:
            it.room.capacity.stored += req_item_count(it)
        elif it.room != NULL:
            it.room.capacity.taken -= req_item_count(it)
        it.room = NULL
        it = runitem_next(&at)
    uv_mutex_unlock(&capacity_lock)

# ---- transactions ----------------------------------------------------------------------------------------------------

cdef int capacity_transaction(TxJob* j) noexcept nogil:
    # Returns CAPACITY_FITS if there is room for all pushes of a transaction, CAPACITY_UNKNOWN if sizes have to be asked
    # for. Otherwise returns the index of the operation without room. A transaction counts once it has taken effect:
    # concurrent ones do not see each other.
    cdef int64_t now = clock_mono_us()
    cdef int fault = CAPACITY_FITS
    cdef int i = 0
    cdef int k
    cdef PushItem* it
    cdef Queue* q
    uv_mutex_lock(&capacity_lock)
    while i < j.req.n and fault == CAPACITY_FITS:
        if j.req.ops[i].kind == TX_PUSH and j.req.ops[i].push.partition != NULL:
            it = j.req.ops[i].push
            q = it.partition.queue
            if q.max_size > 0:
                if capacity_asks(q, &j.job, capacity_left(q) == 0, now):
                    q.capacity.wanted = True
                    fault = CAPACITY_UNKNOWN
                elif capacity_left(q) == 0:
                    it.offset = q.max_size
                    j.req.ops[i].fault = TX_FAULT_FULL
                    fault = i
                else:
                    q.capacity.taken += 1
                    it.room = q
        i += 1
    for k in range(i):
        if j.req.ops[k].kind == TX_PUSH and j.req.ops[k].push.room != NULL:
            j.req.ops[k].push.room.capacity.taken -= 1
            j.req.ops[k].push.room = NULL
    uv_mutex_unlock(&capacity_lock)
    return fault

cdef void capacity_transacted(TxJob* j) noexcept nogil:
    # Counts the pushes of a transaction that took effect. An answer made since counts them too; the next answer
    # corrects that.
    cdef int i
    uv_mutex_lock(&capacity_lock)
    for i in range(j.req.n):
        if j.req.ops[i].kind == TX_PUSH:
            j.req.ops[i].push.partition.queue.capacity.answer += 1
    uv_mutex_unlock(&capacity_lock)
