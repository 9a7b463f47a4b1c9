# Senders of packets, and which of their packets came before. In: heads of packets. Out: whether a packet counts, and
# whether one before it was lost. Pure: time comes as an argument.

cdef enum:
    WINDOW = 64

cdef bint window_take(Window* w, uint64_t sequence, bint* gap) noexcept nogil:
    # Takes the number of a packet. Returns False if it was had, or is too far behind to tell. gap: numbers before it
    # were missed, for the first time.
    cdef uint64_t by
    gap[0] = False
    if w.taken == 0:
        w.first = sequence
        w.last = sequence
        w.had = 1
        w.taken = 1
        return True
    if sequence > w.last:
        by = sequence - w.last
        gap[0] = by > 1
        w.had = w.had << by if by < WINDOW else 0
        w.had |= 1
        w.last = sequence
    else:
        by = w.last - sequence
        if by >= WINDOW or sequence < w.first or w.had >> by & 1:
            return False
        w.had |= <uint64_t>1 << by
    w.taken += 1
    return True

cdef inline uint64_t window_lost(const Window* w) noexcept nogil:
    return w.last - w.first + 1 - w.taken if w.taken else 0

cdef Sender* sender_find(Senders* all, const char* name) noexcept nogil:
    cdef int i
    for i in range(all.n):
        if strcmp(all.all[i].name, name) == 0:
            return &all.all[i]
    return NULL

cdef Sender* sender_place(Senders* all, int64_t now) noexcept nogil:
    # Returns a place for a sender not heard before: a free one, or the place of the sender that is silent for longest.
    # Returns NULL if packets are signed and none of the senders counts as gone.
    cdef int i
    cdef Sender* s = NULL
    if all.n < SENDERS_MOST:
        all.n += 1
        return &all.all[all.n - 1]
    for i in range(all.n):
        if s == NULL or all.all[i].heard_us < s.heard_us:
            s = &all.all[i]
    return s if now - s.heard_us > all.dead_us or not all.verified else NULL

cdef int sender_take(Senders* all, const Notice* m, int64_t now, int64_t wall, bint* gap) noexcept nogil:
    # Returns PACKET_GOOD if the packet counts. gap: an earlier packet may be missing, as always with the first packet
    # of a session. now is monotonic. If packets are not signed, packets of earlier sessions and numbers count, too. Any
    # host can then send a later one in the name of a peer, and the peer itself must still be heard.
    cdef Sender* s = sender_find(all, m.name)
    cdef bint again
    gap[0] = False
    if not -SENDER_SKEW_US <= <int64_t>m.sent_us - wall <= SENDER_SKEW_US:
        return PACKET_STALE
    if s == NULL:
        s = sender_place(all, now)
        if s == NULL:
            return PACKET_CROWDED
        memset(s, 0, sizeof(Sender))
        memcpy(s.name, m.name, PEER_NAME)
        again = True
    else:
        again = s.began != m.began or s.random != m.random
        if again and all.verified and m.began <= s.began and now - s.heard_us <= all.dead_us:
            return PACKET_ENDED       # but a clock may have been set back before a start
        s.restarts += again
    if again:
        s.began = m.began
        s.random = m.random
        s.lost += window_lost(&s.window)
        memset(&s.window, 0, sizeof(Window))
    if window_take(&s.window, m.sequence, gap):
        s.packets += 1
    elif all.verified:
        return PACKET_AGAIN
    gap[0] |= again
    s.heard_us = now
    return PACKET_GOOD
