# Notices between daemons of one database about what they committed. A notice is only a hint: its receiver looks in the
# database at once and not at the next look, a second later. A lost, late or false notice costs one look.
# In: commits and ends of leases; bytes. Out: a table of waiting notices for the first worker (peer/peers), each entry
# once; packets in bytes; of a packet, whether it counts and whether one before it was lost. Owns the outbox, whose two
# tables take turns. Locks: outbox.lock. Any thread may add, also under book.lock. For a daemon alone that costs one
# branch. Time comes as an argument.

# ---- packets in bytes ------------------------------------------------------------------------------------------------
# Numbers are big-endian. The HMAC (SHA-256) is of the packet with zeros in its place; without a secret it is zeros.
#
#   0  version      8 bits    36  began      64 bits    68  database  64 bits
#   1  flags        8 bits    44  random     64 bits    76  name      32 bytes, NUL-padded
#   2  bytes of it 16 bits    52  sequence   64 bits   108  entries: partition and group, 32 bits each
#   4  HMAC        32 bytes   60  sent_us    64 bits

cdef enum:
    PACKET_VERSION = 2        # version 1 is the reference server's, with other contents
    PACKET_MOST = 1400        # bytes; small enough to pass any network unfragmented
    PACKET_HEAD = 108
    PACKET_TAG = 4            # offset of the HMAC
    PACKET_TAG_SIZE = 32
    PACKET_ENTRY = 8
    PACKET_ENTRIES = (PACKET_MOST - PACKET_HEAD) // PACKET_ENTRY
    PEER_NAME = 32            # bytes, with the final NUL

cdef enum NoticeFlag:
    NOTICE_LOOK = 1           # something was committed that no entry names
    NOTICE_MAINTENANCE = 2    # a maintenance switch of all daemons was changed

cdef enum:
    # instead of a group in an entry, which is a table_pair of a group whose lease ended, and the partition
    NOTICE_STORED = 0         # messages were stored in the partition

cdef struct Notice:
    # The head of a packet.
    int flags                 # NOTICE_*
    int n                     # entries
    uint64_t began            # when the sender started, wall clock; identifies the session together with `random`
    uint64_t random
    uint64_t sequence         # within the session, starting at 1
    uint64_t sent_us          # wall clock
    uint64_t database         # hash of the database that the sender serves
    char[PEER_NAME] name      # the sender's, host:port

cdef enum PacketVerdict:
    PACKET_GOOD = 0
    PACKET_BROKEN = 1         # not a packet
    PACKET_OTHER = 2          # another version
    PACKET_FORGED = 3         # its sender does not have the secret
    PACKET_OWN = 4            # sent by this daemon: its own name is in the list of peers
    PACKET_ELSEWHERE = 5      # its sender serves another database
    PACKET_STALE = 6          # sent too long ago, or by a clock that is far off
    PACKET_AGAIN = 7          # received before, or too far behind to tell
    PACKET_ENDED = 8          # from a session that a newer one replaced
    PACKET_CROWDED = 9        # the table of senders is full
    PACKET_UNLISTED = 10      # without a secret: the address is not one of the peers
    PACKET_VERDICTS = 11

cdef size_t notice_write(char* p, const Notice* m, const uint64_t* entries, Slice secret) noexcept nogil:
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

cdef int notice_read(const char* p, size_t n, Slice secret, Notice* m) noexcept nogil:
    # Reads the head of a packet into m; notice_entry reads the rest. Returns PACKET_GOOD, or why the packet is refused.
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

cdef inline uint64_t notice_entry(const char* p, int i) noexcept nogil:
    return <uint64_t>be32(p + PACKET_HEAD + i * PACKET_ENTRY + 4) << 32 | be32(p + PACKET_HEAD + i * PACKET_ENTRY)

# ---- senders ---------------------------------------------------------------------------------------------------------

cdef struct Window:
    # Which packets of a session were received: the last 64 are distinguished, in any order.
    uint64_t first
    uint64_t last
    uint64_t had              # bit i: packet `last` - i was received
    uint64_t taken

cdef enum:
    SENDERS_MOST = 64
    SENDER_SKEW_US = 60000000         # packets sent longer ago than this, or this far in the future, are refused

cdef struct Sender:
    char[PEER_NAME] name
    uint64_t began
    uint64_t random
    Window window
    int64_t received_us       # monotonic
    uint64_t packets          # received packets of all its sessions
    uint64_t lost             # lost packets of the sessions before this one
    uint64_t restarts
    bint alive                # as last logged

cdef struct Senders:
    Sender[SENDERS_MOST] all
    int n
    int64_t dead_us           # a sender that is silent for this long counts as gone
    bint verified             # there is a secret: the sender's name in a packet is authentic

cdef enum:
    WINDOW = 64

cdef int notice_sender_take(Senders* all, const Notice* m, int64_t now, int64_t wall, bint* gap) noexcept nogil:
    # Returns PACKET_GOOD if the packet counts. gap: an earlier packet may be missing, as always with the first packet
    # of a session. now is monotonic. If packets are not signed, packets of earlier sessions and numbers count, too. Any
    # host can then send a later one in the name of a peer, and the peer itself must still be heard.
    cdef Sender* s = notice_sender_find(all, m.name)
    cdef bint again
    gap[0] = False
    if not -SENDER_SKEW_US <= <int64_t>m.sent_us - wall <= SENDER_SKEW_US:
        return PACKET_STALE
    if s == NULL:
        s = notice_sender_place(all, now)
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
        s.lost += notice_window_lost(&s.window)
        memset(&s.window, 0, sizeof(Window))
    if notice_window_take(&s.window, m.sequence, gap):
        s.packets += 1
    elif all.verified:
        return PACKET_AGAIN
    gap[0] |= again
    s.received_us = now
    return PACKET_GOOD

cdef bint notice_window_take(Window* w, uint64_t sequence, bint* gap) noexcept nogil:
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

cdef inline uint64_t notice_window_lost(const Window* w) noexcept nogil:
    return w.last - w.first + 1 - w.taken if w.taken else 0

cdef Sender* notice_sender_find(Senders* all, const char* name) noexcept nogil:
    cdef int i
    for i in range(all.n):
        if strcmp(all.all[i].name, name) == 0:
            return &all.all[i]
    return NULL

cdef Sender* notice_sender_place(Senders* all, int64_t now) noexcept nogil:
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

# ---- notices that wait to leave --------------------------------------------------------------------------------------

cdef enum:
    OUTBOX_MOST = 4096        # entries waiting to leave; beyond: NOTICE_LOOK replaces them
    OUTBOX_CELLS = 8192

cdef struct OutboxTable:
    uint64_t[OUTBOX_CELLS] cells      # entries, 0: free
    int[OUTBOX_MOST] at               # indexes of the used cells
    int n
    int flags                 # NOTICE_*

cdef struct Outbox:
    # Notices that wait to leave. Any thread writes. Locks: its own; only an inbox's lock may be taken under it.
    bint on                   # there are peers; written before the threads start
    uv_mutex_t lock
    OutboxTable* now          # one of `tables`; the first worker owns the other one
    OutboxTable* tables
    InboxMsg msg              # sent to the first worker
    bint posted               # it is in the inbox, or the first worker has not handled it yet

cdef Outbox outbox

cdef inline void notice_stored(int32_t partition) noexcept nogil:
    # Notes that messages of the partition were committed.
    if outbox.on:
        notice_put(<uint32_t>partition, 0)

cdef inline void notice_freed(int32_t partition, int32_t group) noexcept nogil:
    # Notes that the group's lease of the partition ended before its expiry, and no pop of this process goes on.
    if outbox.on:
        notice_put(table_pair(group, partition), 0)

cdef inline void notice_flags(int flags) noexcept nogil:
    if outbox.on:
        notice_put(0, flags)

cdef void notice_put(uint64_t key, int flags) noexcept nogil:
    cdef OutboxTable* t
    cdef uint32_t at
    uv_mutex_lock(&outbox.lock)
    t = outbox.now
    t.flags |= flags
    if key and t.n == OUTBOX_MOST:
        t.flags |= NOTICE_LOOK
    elif key:
        at = <uint32_t>(key * <uint64_t>0x9E3779B97F4A7C15 >> 40) % OUTBOX_CELLS
        while t.cells[at] and t.cells[at] != key:
            at = (at + 1) % OUTBOX_CELLS
        if t.cells[at] == 0:
            t.cells[at] = key
            t.at[t.n] = at
            t.n += 1
    if not outbox.posted and leader != NULL:
        outbox.posted = worker_post(leader, &outbox.msg)
    uv_mutex_unlock(&outbox.lock)

cdef OutboxTable* notice_take(bint done) noexcept nogil:
    # Takes all notices so far, on the first worker; notice_done gives it back before the next call. done: the message
    # has left the inbox. A heartbeat also takes while it may lie there: put there twice, the message would follow
    # itself for ever.
    cdef OutboxTable* t
    uv_mutex_lock(&outbox.lock)
    t = outbox.now
    outbox.now = &outbox.tables[1] if t is &outbox.tables[0] else &outbox.tables[0]
    if done:
        outbox.posted = False
    uv_mutex_unlock(&outbox.lock)
    return t

cdef void notice_done(OutboxTable* t) noexcept nogil:
    cdef int i
    for i in range(t.n):
        t.cells[t.at[i]] = 0
    t.n = 0
    t.flags = 0
