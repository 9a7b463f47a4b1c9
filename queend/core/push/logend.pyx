# Ends of logs: the next offset of a partition, known because this process wrote before it. In: push partitions that are
# about to leave; answers to them. Out: what a push is told of each partition's newest row. If the heads of all
# partitions of a batch are known, the push names them and none is looked up (sql/function/push.sql). Owner of
# Partition.end: the thread of its lane's appender. No I/O in here.

cdef enum:
    HEAD_RECENT_US = 50000000     # ids further from the database's clock are left to it: its own bound is 60 s
    HEAD_CLOCK_US = 100000        # how much later than the database's clock, as known here, a row's time may be
    HEAD_EXCLUSIVE = 8            # pushes in a row without another writer before a head is named
    HEAD_CONFLICTS = 3            # conflicts that each multiply that number by 16, at most

cdef inline bint logend_id_recent(const unsigned char* id, int64_t now_us) noexcept nogil:
    cdef int64_t at = <int64_t>(be64(id) >> 16) * 1000        # the time of a version-7 id
    return now_us - HEAD_RECENT_US <= at <= now_us + HEAD_RECENT_US

cdef inline const unsigned char* logend_high(PushPartition* g) noexcept nogil:
    # Returns `high` of the partition's newest row after this push partition, if no other process has written.
    if g.has_v7 and memcmp(g.hi, g.partition.end.high, 16) > 0:
        return &g.hi[0]
    return &g.partition.end.high[0]

cdef inline bint logend_exclusive(const LogEnd* end) noexcept nogil:
    # Returns True if, with the push about to leave, no other process has written for long enough to name the head.
    return end.exclusive + 1 >= HEAD_EXCLUSIVE << (4 * end.conflicts)

# ---- before the push is sent -----------------------------------------------------------------------------------------
# A named head must never be too high, but a server may have lost the row before it. So a head is named only to a
# backend that lived before that row was sent. A crash ends all backends, and another server has others. A head that is
# too low is detected: the statement is undone and sent again without names.

cdef void logend_choose(PushBatch* b, const Slot* slot) noexcept nogil:
    # Chooses what push is told of each partition's newest row. Requires that idset_batch_known has chosen what push is
    # told of ids. slot: the connection of the statement, NULL if none is free.
    cdef PushPartition* g = b.first
    cdef int64_t now = clock_db_now()
    cdef bint clock = clock_db_known()
    b.expects = slot != NULL and clock and not b.check_ids and not b.scheduled
    while g != NULL:
        g.answers = 0
        g.as_sent = True
        g.has_high = False
        g.ids_recent = clock and (not g.has_v7 or logend_id_recent(g.lo, now) and logend_id_recent(g.hi, now))
        g.hint_offset = atomic_get64(&g.partition.row_base)
        b.expects = b.expects and g.partition.end.sent_us > slot.served_us and logend_expects(g, now)
        if not g.partition.end.known and logend_exclusive(&g.partition.end):
            g.hint_offset = HINT_HIGH - g.hint_offset
        g = g.next
    g = b.first if b.expects else NULL
    while g != NULL:
        g.hint_offset = HINT_EXPECTED
        g.began = g.partition.end.next
        g = g.next

cdef inline bint logend_expects(PushPartition* g, int64_t now_us) noexcept nogil:
    # Returns True if the head is known and its ids are proved new by the newest row and the ids known here.
    cdef const LogEnd* end = &g.partition.end
    if not end.known or not g.ids_recent or end.at > now_us + HEAD_CLOCK_US or not logend_exclusive(end):
        return False
    if g.has_v7 and g.has_client and memcmp(g.lo, end.high, 16) <= 0:
        return False
    return not g.has_other or g.known == end.next and g.known_at == end.at

# ---- after the answer ------------------------------------------------------------------------------------------------

cdef bint logend_learn(PushBatch* b, PGresult* res, int64_t sent_us) noexcept nogil:
    # Learns the heads from an answer. Requires that the next batch, which uses these heads, is not sent yet. Returns
    # True if nothing was stored of some partition. More has to be known first, its rows have to be plain, or its ids
    # have to be compared.
    cdef PushPartition* g = b.first
    cdef bint refused = False
    cdef int row, i, status
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        status = pg_int2(res, row, PUSH_STATUS)
        refused = refused or status == PUSH_REFUSED or status == PUSH_COMPARE
        if status != PUSH_CLAIMED and 0 <= i < b.n_chunks:
            logend_learn_row(&b.chunks[i], status, res, row)
    for i in range(b.n_chunks if b.expects else 0):
        b.chunks[i].group.answers += 1
        b.chunks[i].group.ended = b.chunks[i].group.began + b.chunks[i].skip + b.chunks[i].n
        b.chunks[i].group.ended_at = pg_int8(res, 0, PUSH_CREATED_AT)
    while g != NULL:
        logend_update(g)
        g.partition.end.sent_us = sent_us
        g = g.next
    return refused

cdef void logend_learn_row(PushChunk* c, int status, PGresult* res, int row) noexcept nogil:
    cdef PushPartition* g = c.group
    cdef int64_t base = pg_int8(res, row, PUSH_BASE)
    cdef Slice high
    g.answers += 1
    g.refused = g.refused or status == PUSH_REFUSED
    if status != PUSH_WHOLE:
        g.as_sent = False
        return
    if c.skip == 0:
        g.began = base
        high = pg_bytes(res, row, PUSH_SEEN)
        g.has_high = g.hint_offset < HINT_EXPECTED and high.n == 16
        if g.has_high:
            memcpy(g.high, high.p, 16)
    if g.answers == 1 or base + c.n > g.ended:
        g.ended = base + c.n
    g.ended_at = pg_int8(res, row, PUSH_CREATED_AT)

cdef void logend_update(PushPartition* g) noexcept nogil:
    cdef LogEnd* end = &g.partition.end
    cdef bint alone = g.began == end.next
    if g.answers == 0 or not g.as_sent:
        end.known = False
        return
    if alone:
        end.exclusive += end.exclusive < 0xffff
    else:
        end.exclusive = 0
        end.conflicts += g.conflict and end.conflicts < HEAD_CONFLICTS
    g.conflict = False
    if g.has_high:
        memcpy(end.high, g.high, 16)
    else:
        memcpy(end.high, logend_high(g), 16)
    end.known = g.has_high or end.known and alone and g.ids_recent
    end.next = g.ended
    end.at = g.ended_at

cdef bint logend_conflict(PushBatch* b, PGresult* res) noexcept nogil:
    # Forgets the heads named by a statement that failed or whose outcome is unknown: they are looked up from now on.
    # Returns True if a wrong head was the statement's only fault.
    cdef const char* code = PQresultErrorField(res, PG_DIAG_SQLSTATE) if res != NULL else NULL
    cdef bint fault = b.expects and code != NULL and (strcmp(code, b"23505") == 0 or strcmp(code, b"QD409") == 0)
    cdef PushPartition* g = b.first if b.expects else NULL
    while g != NULL:
        g.partition.end.known = False
        g.conflict = fault
        g = g.next
    b.expects = False
    return fault
