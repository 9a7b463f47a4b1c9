# Packets: notices between daemons, in bytes; their senders, and which of their packets came before. In: a notice, or
# bytes. Out: bytes, or a notice; whether a packet counts, and whether one before it was lost. Pure: time comes as an
# argument.

# ---- bytes -----------------------------------------------------------------------------------------------------------
# Numbers are big-endian. The HMAC (SHA-256) is of the packet with zeros in its place; without a secret it is zeros.
#
#   0  version      8 bits    36  began      64 bits    68  database  64 bits
#   1  flags        8 bits    44  random     64 bits    76  name      32 bytes, NUL-padded
#   2  bytes of it 16 bits    52  sequence   64 bits   108  entries: partition and group, 32 bits each
#   4  HMAC        32 bytes   60  sent_us    64 bits

cdef size_t packet_write(char* p, const Notice* m, const uint64_t* entries, Slice secret) noexcept nogil:
    # Writes a packet. Returns its size. Requires PACKET_MOST bytes of room and at most PACKET_ENTRIES entries.
    cdef size_t size = PACKET_HEAD + m.n * PACKET_ENTRY
    cdef int i
    memset(p, 0, PACKET_HEAD)
    p[0] = PACKET_VERSION
    p[1] = <char>m.flags
    be16_put(p + 2, <uint16_t>(size - PACKET_HEAD))
    be64_put(p + 36, m.began)
    be64_put(p + 44, m.random)
    be64_put(p + 52, m.sequence)
    be64_put(p + 60, m.sent_us)
    be64_put(p + 68, m.database)
    memcpy(p + 76, m.name, PEER_NAME)
    for i in range(m.n):
        be32_put(p + PACKET_HEAD + i * PACKET_ENTRY, <uint32_t>entries[i])
        be32_put(p + PACKET_HEAD + i * PACKET_ENTRY + 4, <uint32_t>(entries[i] >> 32))
    if secret.n:
        HMAC(EVP_sha256(), secret.p, <int>secret.n, <const unsigned char*>p, size, <unsigned char*>p + PACKET_TAG, NULL)
    return size

cdef int packet_read(const char* p, size_t n, Slice secret, Notice* m) noexcept nogil:
    # Reads the head of a packet into m; packet_entry reads the rest. Returns PACKET_GOOD, or why the packet is refused.
    cdef char[PACKET_MOST] copy
    cdef unsigned char[PACKET_TAG_SIZE] tag
    cdef uint16_t length
    cdef int i
    if n < 1:
        return PACKET_BROKEN
    if p[0] != PACKET_VERSION:
        return PACKET_OTHER
    if n < PACKET_HEAD or n > PACKET_MOST:
        return PACKET_BROKEN
    length = be16(p + 2)
    if PACKET_HEAD + <size_t>length != n or length % PACKET_ENTRY:
        return PACKET_BROKEN
    if secret.n:
        memcpy(copy, p, n)
        memset(copy + PACKET_TAG, 0, PACKET_TAG_SIZE)
        HMAC(EVP_sha256(), secret.p, <int>secret.n, <const unsigned char*>copy, n, tag, NULL)
        if CRYPTO_memcmp(tag, p + PACKET_TAG, PACKET_TAG_SIZE) != 0:
            return PACKET_FORGED
    m.flags = <uint8_t>p[1]
    m.n = length // PACKET_ENTRY
    m.began = be64(p + 36)
    m.random = be64(p + 44)
    m.sequence = be64(p + 52)
    m.sent_us = be64(p + 60)
    m.database = be64(p + 68)
    memcpy(m.name, p + 76, PEER_NAME)
    if m.name[0] == 0 or m.name[PEER_NAME - 1] != 0 or m.sequence == 0:
        return PACKET_BROKEN
    for i in range(<int>strlen(m.name)):
        if not b'!' <= m.name[i] <= b'~':
            return PACKET_BROKEN      # operators see the name
    return PACKET_GOOD

cdef inline uint64_t packet_entry(const char* p, int i) noexcept nogil:
    return <uint64_t>be32(p + PACKET_HEAD + i * PACKET_ENTRY + 4) << 32 | be32(p + PACKET_HEAD + i * PACKET_ENTRY)

# ---- senders ---------------------------------------------------------------------------------------------------------

cdef enum:
    WINDOW = 64

cdef int packet_take(Senders* all, const Notice* m, int64_t now, int64_t wall, bint* gap) noexcept nogil:
    # Returns PACKET_GOOD if the packet counts. gap: an earlier packet may be missing, as always with the first packet
    # of a session. now is monotonic. If packets are not signed, packets of earlier sessions and numbers count, too. Any
    # host can then send a later one in the name of a peer, and the peer itself must still be heard.
    cdef Sender* s = packet_sender_find(all, m.name)
    cdef bint again
    gap[0] = False
    if not -SENDER_SKEW_US <= <int64_t>m.sent_us - wall <= SENDER_SKEW_US:
        return PACKET_STALE
    if s == NULL:
        s = packet_sender_place(all, now)
        if s == NULL:
            return PACKET_CROWDED
        memset(s, 0, sizeof(Sender))
        memcpy(s.name, m.name, PEER_NAME)
        again = True
    else:
        again = s.began != m.began or s.random != m.random
        if again and all.verified and m.began <= s.began and now - s.received_us <= all.dead_us:
            return PACKET_ENDED       # but a clock may have been set back before a start
        s.restarts += again
    if again:
        s.began = m.began
        s.random = m.random
        s.lost += packet_window_lost(&s.window)
        memset(&s.window, 0, sizeof(Window))
    if packet_window_take(&s.window, m.sequence, gap):
        s.packets += 1
    elif all.verified:
        return PACKET_AGAIN
    gap[0] |= again
    s.received_us = now
    return PACKET_GOOD

cdef bint packet_window_take(Window* w, uint64_t sequence, bint* gap) noexcept nogil:
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

cdef inline uint64_t packet_window_lost(const Window* w) noexcept nogil:
    return w.last - w.first + 1 - w.taken if w.taken else 0

cdef Sender* packet_sender_find(Senders* all, const char* name) noexcept nogil:
    cdef int i
    for i in range(all.n):
        if strcmp(all.all[i].name, name) == 0:
            return &all.all[i]
    return NULL

cdef Sender* packet_sender_place(Senders* all, int64_t now) noexcept nogil:
    # Returns a place for a sender not heard before: a free one, or the place of the sender that is silent for longest.
    # Returns NULL if packets are signed and none of the senders counts as gone.
    cdef int i
    cdef Sender* s = NULL
    if all.n < SENDERS_MOST:
        all.n += 1
        return &all.all[all.n - 1]
    for i in range(all.n):
        if s == NULL or all.all[i].received_us < s.received_us:
            s = &all.all[i]
    return s if now - s.received_us > all.dead_us or not all.verified else NULL
