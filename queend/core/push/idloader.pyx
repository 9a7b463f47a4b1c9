# The id loader of an appender: a second appender (Appender.side), for partitions whose stored ids have to be loaded
# first. So no other partition waits. It loads ids by reads that lock no lane, then pushes as any appender. In: answers
# that refuse partitions until more ids are known. Out: these partitions stored, and returned to their appender. While
# the id loader has a partition, all its items go there, in order. Owner: the appender's thread. Locks: idsets.lock.

cdef enum:
    IDLOADER_MORE = 20000    # an answer with so many ids has more to teach: sql/function/ids.sql

# ---- partitions come -------------------------------------------------------------------------------------------------

cdef void idloader_take(Appender* s, PushBatch* b, PGresult* res) noexcept nogil:
    # Moves refused partitions that have to learn, and what was gathered for them, to the id loader. Requires that the
    # refused push partitions are not sent again yet.
    cdef PushPartition* g
    cdef int row, i
    cdef bint any = False
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        if pg_int2(res, row, PUSH_STATUS) == PUSH_REFUSED and 0 <= i < b.n_chunks:
            g = b.chunks[i].group
            g.learn = g.learn or pg_bytes(res, row, PUSH_SEEN).n >= 16 * (IDLOADER_MORE + 1)
            g.needs_ids = g.needs_ids or g.learn or g.known == KNOWN_CROWDED
            any = any or g.needs_ids
    g = b.first if any else NULL
    while g != NULL:
        any = g.needs_ids
        g.needs_ids = False
        if any and not idloader_blocked(s, g.partition):
            idloader_move(s, b, g)
        g = g.next

cdef bint idloader_blocked(Appender* s, Partition* p) noexcept nogil:
    # Returns True if older items of the partition wait to be sent by s.
    cdef PushBatch* b = s.resend
    cdef PushPartition* g
    while b != NULL:
        g = b.first
        while g != NULL:
            if g.partition is p:
                return True
            g = g.next
        b = b.next
    return False

cdef void idloader_move(Appender* s, PushBatch* b, PushPartition* g) noexcept nogil:
    cdef Appender* side = s.side
    cdef PushPartition* gathered = g.partition.gathering
    cdef PushPartition* to
    if side.gather == NULL:
        side.gather = batch_new(side, NULL)
    to = batch_partition(side.gather, g.partition) if side.gather != NULL else NULL
    if to == NULL:
        return                # out of memory: s sends the push partition again
    to.learn = g.learn
    if side.gather.since_us == 0:
        side.gather.since_us = b.since_us
    idloader_pour(b, g, side.gather, to)
    if gathered != NULL:
        idloader_pour(s.gather, gathered, side.gather, to)
        if s.gather.n_partitions == 0:
            batch_free(s.gather)
            s.gather = NULL
    g.partition.gathering = to
    g.partition.in_loader = True

cdef void idloader_pour(PushBatch* b, PushPartition* g, PushBatch* into, PushPartition* to) noexcept nogil:
    into.check_ids = into.check_ids or b.check_ids
    into.hurried = into.hurried or b.hurried
    batch_unlink(b, g)
    b.bytes -= min(g.bytes, b.bytes)
    batch_pour(g, into, to)

# ---- ids are loaded --------------------------------------------------------------------------------------------------

cdef bint idloader_load(Appender* s, PushBatch* b) noexcept nogil:
    # Reads further ids for a partition of the id loader's batch. Returns False if no partition has to learn: the batch
    # can be sent.
    cdef PushPartition* g = b.first
    cdef IdSet* r
    cdef LearnArgs* a = <LearnArgs*>engine_of(s.worker).args.at
    while g != NULL and not g.learn:
        g = g.next
    if g == NULL:
        return False
    uv_mutex_lock(&idsets.lock)
    r = g.partition.idset
    g.known = KNOWN_LOOK - r.known if r != NULL else KNOWN_LOOK
    g.known_at = r.known_at if r != NULL else 0
    if r != NULL:
        idset_used(r)
    uv_mutex_unlock(&idsets.lock)
    s.flying = b
    s.learning = g
    call_begin(&s.call, engine_of(s.worker), STMT_IDS_LEARN, idloader_loaded)
    arg_int4(&a.part, g.partition.id)
    arg_int8(&a.known, g.known)
    arg_int8(&a.known_at, g.known_at)
    call_send(&s.call)
    return True

cdef enum:
    IDS_LEARN_SEEN = 0        # the only column of ids_learn

cdef void idloader_loaded(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Appender* s = <Appender*>c
    cdef PushBatch* b = s.flying
    cdef PushPartition* g = s.learning
    cdef Slice seen
    if outcome != SLOT_OK or PQntuples(res) == 0:
        g.learn = False       # the push itself shows what is wrong
        s.flying = NULL
        appender_first(s, b)
        s.retry_at = clock_mono_us() + 20000
        return
    seen = pg_bytes(res, 0, IDS_LEARN_SEEN)
    uv_mutex_lock(&idsets.lock)
    if idset_is_current(g):
        idset_learn(g.partition, seen)
    g.learn = seen.n >= 16 * (IDLOADER_MORE + 1) and g.partition.idset != NULL
    uv_mutex_unlock(&idsets.lock)
    s.flying = NULL
    appender_send(s, b)

# ---- partitions go back ----------------------------------------------------------------------------------------------

cdef void idloader_return(Appender* side, PushBatch* b) noexcept nogil:
    # Returns partitions that the id loader has stored to their appender, with the items gathered meanwhile. Later items
    # go to the appender too.
    cdef PushPartition* g = b.first
    cdef PushPartition* to
    cdef Appender* s = side.main
    cdef Partition* p
    if side.resend != NULL:
        return
    while g != NULL:
        p = g.partition
        g = g.next
        p.in_loader = False
        if p.gathering == NULL:
            continue
        if s.gather == NULL:
            s.gather = batch_new(s, NULL)
        to = batch_partition(s.gather, p) if s.gather != NULL else NULL
        if to == NULL:
            p.in_loader = True
            continue
        idloader_pour(side.gather, p.gathering, s.gather, to)
        p.gathering = to
    if side.gather != NULL and side.gather.n_partitions == 0:
        batch_free(side.gather)
        side.gather = NULL
