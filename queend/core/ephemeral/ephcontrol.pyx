# Ephemeral queues for the control plane: options, resets, deletions, figures. In: names and options, from the thread of
# the interpreter. Out: what has changed; JSON. Owns nothing. Locks: EphStripe.lock.

cdef bint ephcontrol_configure(Slice name, const EphOptions* o, bint declared) noexcept nogil:
    # Sets the options of a queue, which is created if it is declared. Returns False if there is no room for it.
    cdef EphStripe* s = stripe_of(name)
    cdef EphPop* wake = NULL
    cdef int64_t now = clock_mono_us()
    cdef EphQueue* q
    stripe_lock(s, now, &wake)
    q = stripe_queue(s, name, now) if declared else stripe_find(s, name)
    if q != NULL:
        q.options = o[0]
        q.declared = declared
        stripe_ends(q)
        while (q.n > o.max_length or q.bytes > o.max_bytes) and o.drops_oldest:
            ring_drop_oldest(q)
    stripe_unlock(s)
    ephjob_send(NULL, wake)
    return q != NULL or not declared

cdef int64_t ephcontrol_empty(Slice name, bint deletes) noexcept nogil:
    # Drops all messages of a queue, and the queue itself if asked. Returns the number of messages, -1 if the queue is
    # unknown.
    cdef EphStripe* s = stripe_of(name)
    cdef EphPop* wake = NULL
    cdef EphQueue* q
    cdef int64_t n = -1
    stripe_lock(s, clock_mono_us(), &wake)
    q = stripe_find(s, name)
    if q != NULL:
        n = stripe_queue_empty(q)
    if q != NULL and deletes:
        stripe_queue_free(q, &wake)
    stripe_unlock(s)
    ephjob_send(NULL, wake)
    return n

cdef void ephcontrol_list(Buf* b) noexcept nogil:
    # Writes all queues, with commas between them. Locks one stripe after the other.
    cdef EphPop* wake = NULL
    cdef EphQueue* q
    cdef int i
    for i in range(EPH_STRIPES):
        stripe_lock(&eph_stripes[i], clock_mono_us(), &wake)
        q = eph_stripes[i].first
        while q != NULL:
            if b.len:
                buf_byte(b, b',')
            ringreply_queue(b, q)
            q = q.next
        stripe_unlock(&eph_stripes[i])
    ephjob_send(NULL, wake)

cdef bint ephcontrol_depth(Slice name, Slice group, Buf* b) noexcept nogil:
    # Writes the depth of a queue. group: p NULL: of no group. Returns False if the queue is unknown.
    cdef EphStripe* s = stripe_of(name)
    cdef EphPop* wake = NULL
    cdef EphQueue* q
    stripe_lock(s, clock_mono_us(), &wake)
    q = stripe_find(s, name)
    if q != NULL:
        ringreply_depth(b, q, ring_group_of(q, group) if group.p != NULL else NULL)
    stripe_unlock(s)
    ephjob_send(NULL, wake)
    return q != NULL
