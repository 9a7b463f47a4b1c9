# Splits a batch that cannot stay one: its push would do more than one statement may, or an error belongs to one of its
# items. In: a batch. Out: two batches, each sent by itself, until the item that is to blame stands alone. Owner: the
# stream's thread.

cdef bint batch_cut(PushStream* s, PushBatch* b, int end) noexcept nogil:
    # Moves the rows from `end` on, where a partition begins, into the next batch. Returns False if memory ran out: b
    # stays whole.
    cdef PushBatch* rest = batch_new(s)
    cdef PushGroup* last = b.chunks[end - 1].group
    if rest == NULL:
        return False
    batch_part(b, rest, last)
    rest.plain = b.plain
    rest.hurried = b.hurried
    b.n_chunks = end
    rest.next = s.again
    s.again = rest
    return True

cdef void batch_part(PushBatch* b, PushBatch* rest, PushGroup* last) noexcept nogil:
    # Moves the groups behind `last` to an empty batch. That batch is sent after b, and so keeps the memory of both.
    cdef PushGroup* g = last.next
    cdef Arena arena = rest.arena
    rest.first = g
    rest.last = b.last
    last.next = NULL
    b.last = last
    while g != NULL:
        rest.n_groups += 1
        rest.n_items += g.n
        g = g.next
    b.n_groups -= rest.n_groups
    b.n_items -= rest.n_items
    rest.arena = b.arena
    b.arena = arena

cdef void batch_split(PushStream* s, PushBatch* b) noexcept nogil:
    # Splits a batch with an error that belongs to one item. Each half is sent by itself, until that item stands alone.
    cdef PushBatch* half = batch_new(s)
    cdef PushGroup* g
    cdef PushGroup* other
    cdef PushItem* it
    cdef PushItem* following
    cdef int i, n
    if half == NULL:
        batch_fail(s, b, FAILED_UNREACHED)
        return
    half.since_us = b.since_us
    half.unsure = b.unsure
    half.hurried = b.hurried
    half.plain = b.plain
    g = b.first
    if b.n_groups > 1:
        for i in range(b.n_groups // 2 - 1):
            g = g.next
        batch_part(b, half, g)
    else:
        group_open_runs(g)
        other = <PushGroup*>arena_zero(&half.arena, sizeof(PushGroup))
        if other == NULL:
            batch_free(half)
            batch_fail(s, b, FAILED_UNREACHED)
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
        group_split_dups(g, other)
        half.first = other
        half.last = other
        half.n_groups = 1
        half.n_items = other.n
        b.n_items = n
        # lo and hi stay those of both halves: a wider range only costs a look-up
    half.next = s.again
    b.next = half
    s.again = b

cdef void group_split_dups(PushGroup* g, PushGroup* other) noexcept nogil:
    # Assigns each duplicate to the half of its first occurrence.
    cdef PushItem* it = g.dups
    cdef PushItem* following
    cdef PushItem* at
    g.dups = NULL
    other.dups = NULL
    while it != NULL:
        following = it.next
        at = g.first
        while at != NULL and at is not <PushItem*>it.original:
            at = at.next
        if at != NULL:
            it.next = g.dups
            g.dups = it
        else:
            it.next = other.dups
            other.dups = it
        it = following
