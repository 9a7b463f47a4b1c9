# Pushers: connections that push much at once take turns. In: parts sent to an appender. Out: their items, in the batch
# that gathers. All pushers together fill a part of a batch; parts without room wait, in the order of their connection.
# So a small push of another connection finds room beside them, and is in the batch that leaves next. Owner: the
# appender's thread.

# ---- a part comes in -------------------------------------------------------------------------------------------------
# A push is cut only where it needs more new push partitions, or more room, than pushers have in a batch. Each cut lets
# newer pushes of others reach a partition first. PostgreSQL then has to look up each id made by a client that is older
# than the newest one stored there (sql/function/push.sql).

cdef void pusher_gather(Appender* s, PushPart* part) noexcept nogil:
    # Takes over a part sent to s: places it into the batch that gathers, or behind the waiting parts of its client.
    # The client of a large part becomes a pusher; without memory for one, the part is placed like a small one.
    cdef Pusher* x = <Pusher*>table_get(&s.by_client, part.job.job.client)
    if x == NULL and (part.left > SMALL_ITEMS or part.job.job.bytes > SMALL_BYTES):
        x = pusher_new(s, part.job.job.client)
    if x != NULL and (x.first != NULL or s.full and x.client != CLIENT_NONE) or not batch_take(s, part, x):
        pusher_wait(s, x, part)

cdef void pusher_wait(Appender* s, Pusher* x, PushPart* part) noexcept nogil:
    # Puts a part behind the waiting parts of its client. Argument x is the client's pusher; NULL makes one. Refuses the
    # part if memory ran out.
    if x == NULL:
        x = pusher_new(s, part.job.job.client)
    if x == NULL:
        results_refuse_all(s, part.items)
        return
    link_append(<void**>&x.first, part)

# ---- turns -----------------------------------------------------------------------------------------------------------
# When a batch leaves, each pusher brings whole pushes to the next one, up to its share. Then the room that is left is
# filled in the same order. A pusher without room comes first the next time.

cdef inline bint pushers_full(const Appender* s, const Pusher* of, const PushBatch* b) noexcept nogil:
    # Returns True if pushers have brought to b what they may, or PUSHERS_ITEMS items have been passed by. A chunk of
    # the failover buffer has no share: it stands in one batch (batch_fits).
    return of != NULL and of.client != CLIENT_NONE and (b.bytes >= PUSHERS_BYTES or b.n_items >= PUSHERS_ITEMS
                                              or s.passed_by >= PUSHERS_ITEMS)

cdef void pusher_pour(Appender* s, Pusher* x, bint share) noexcept nogil:
    # Takes the waiting parts of x, in their order, until the batch is full. If `share` is set, it also stops at the end
    # of a push once x has its share.
    cdef PushPart* part = x.first
    cdef PushPart* following
    x.first = NULL
    x.last = NULL
    while part != NULL:
        following = <PushPart*>part.msg.next
        if (s.full and x.client != CLIENT_NONE or share and (x.partitions >= SHARE_PARTITIONS or x.bytes >= SHARE_BYTES)
                or x.client == CLIENT_NONE and x.first != NULL or not batch_take(s, part, x)):
            pusher_wait(s, x, part)
        part = following

cdef void pushers_turn(Appender* s) noexcept nogil:
    # Fills the next batch, after one has left: each pusher brings its share, then more if there is room. A pusher
    # without room comes first the next time. A pusher with nothing waiting is freed.
    cdef Pusher* x = s.pushers
    cdef Pusher* following
    cdef Pusher* passed = NULL
    cdef Pusher** end = &passed
    s.pushers = NULL
    s.pushers_last = NULL
    s.full = False
    s.passed_by = 0
    while x != NULL:
        following = x.next
        x.partitions = 0
        x.bytes = 0
        if x.first == NULL:
            pusher_free(s, x)
        else:
            pusher_pour(s, x, True)
            if x.bytes:
                link_append(<void**>&s.pushers, x)
            else:
                end[0] = x
                end = &x.next
        x = following
    end[0] = s.pushers
    s.pushers = passed
    x = passed
    while x != NULL:
        pusher_pour(s, x, False)
        s.pushers_last = x
        x = x.next

# ---- the list of pushers ---------------------------------------------------------------------------------------------

cdef Pusher* pusher_new(Appender* s, uint64_t client) noexcept nogil:
    # Adds a pusher for a client. Returns NULL if memory ran out.
    cdef Pusher* x = s.pushers_free
    if x != NULL:
        s.pushers_free = x.next
    else:
        x = <Pusher*>malloc(sizeof(Pusher))
    if x == NULL or not table_put(&s.by_client, client, x):
        free(x)
        return NULL
    memset(x, 0, sizeof(Pusher))
    x.client = client
    link_append(<void**>&s.pushers, x)
    return x

cdef void pusher_free(Appender* s, Pusher* x) noexcept nogil:
    # Frees a pusher. Requires that it is in no list.
    table_del(&s.by_client, x.client)
    x.next = s.pushers_free
    s.pushers_free = x

cdef void pushers_close(Appender* s) noexcept nogil:
    cdef Pusher* x
    while s.pushers != NULL:
        x = s.pushers
        s.pushers = x.next
        pusher_free(s, x)
    while s.pushers_free != NULL:
        x = s.pushers_free
        s.pushers_free = x.next
        free(x)
    table_free(&s.by_client)
