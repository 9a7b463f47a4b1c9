# Notices of other daemons. In: packets. Out: cursors that are worth a try, a look at what was committed, a word to
# Python. A notice is a hint that makes this daemon ask the database: it is never believed. Owner: the first worker.
# Locks: peers.lock; catalog.lock, then book.lock.

cdef const char* PEER_REFUSALS[PACKET_VERDICTS]      # NULL: refused without a line in the log
PEER_REFUSALS[<int>PACKET_OTHER] = b"of another version, or of no queend"
PEER_REFUSALS[<int>PACKET_FORGED] = b"of somebody who has not this QUEEN_SYNC_SECRET"
PEER_REFUSALS[<int>PACKET_ELSEWHERE] = b"of a daemon on another database"
PEER_REFUSALS[<int>PACKET_STALE] = b"of another minute: the clocks of both are apart"
PEER_REFUSALS[<int>PACKET_CROWDED] = b"of one daemon more than are remembered"
PEER_REFUSALS[<int>PACKET_STRANGE] = b"of an address that is not among QUEEN_UDP_PEERS"

cdef void peer_on_room(uv_handle_t* h, size_t wanted, uv_buf_t* buf) noexcept nogil:
    buf.base = peers.input
    buf.len = sizeof(peers.input)

cdef void peer_on_packet(uv_udp_t* h, ssize_t n, const uv_buf_t* buf, const sockaddr* of,
                         unsigned int flags) noexcept nogil:
    # Takes a packet. One that does not fit is cut, and then longer than any packet.
    if n > 0 and of != NULL:
        peer_heard(<Engine*>h.data, peers.input, <size_t>n, of)

cdef void peer_posted(Worker* w, InboxMsg* m) noexcept nogil:
    # Takes a packet that came over HTTP from an authorized client.
    cdef PeerPosted* p = <PeerPosted*>m
    if engine_of(w) != NULL and not engine_of(w).closing:
        peer_heard(engine_of(w), p.bytes, p.n, NULL)
    free(p)

cdef void peer_heard(Engine* e, const char* p, size_t n, const sockaddr* of) noexcept nogil:
    cdef Notice m
    cdef bint gap = False
    cdef bint look
    cdef int verdict = packet_read(p, n, peers.secret, &m)
    cdef uint64_t database = peer_database()
    uv_mutex_lock(&peers.lock)
    if verdict == PACKET_GOOD:
        verdict = peer_verdict(&m, database, of)
    if verdict == PACKET_GOOD:
        verdict = sender_take(&peers.senders, &m, clock_mono_us(), clock_wall_us(), &gap)
    peers.verdicts[verdict] += 1
    look = verdict == PACKET_GOOD and (gap or m.flags & NOTICE_LOOK)
    if verdict != PACKET_GOOD:
        peer_refused(verdict, of)
    elif m.n == 0 and m.flags == 0:
        peers.beats += 1
    else:
        peers.heard += m.n + (m.flags != 0)
        if m.flags & NOTICE_MAINTENANCE:
            peers.maintenance = True
            peers_tell_python()
    uv_mutex_unlock(&peers.lock)
    if verdict == PACKET_GOOD and m.n:
        look = peer_try(e, p, m.n) or look
    if look:
        peer_look(e)

cdef int peer_verdict(const Notice* m, uint64_t database, const sockaddr* of) noexcept nogil:
    # Returns PACKET_GOOD, or why the packet is refused. Requires peers.lock.
    if m.random == peers.me.random and m.began == peers.me.began:
        return PACKET_OWN
    if database and m.database and m.database != database:
        return PACKET_ELSEWHERE
    if peers.secret.n == 0 and of != NULL and not peer_is(of):
        return PACKET_STRANGE
    return PACKET_GOOD

cdef bint peer_is(const sockaddr* of) noexcept nogil:
    # Returns True if this is the address of a peer, whatever its port. Requires peers.lock.
    cdef sockaddr_storage* a
    cdef int i
    for i in range(peers.n_addresses):
        a = &peers.addresses[i]
        if a.ss_family != (<sockaddr_storage*>of).ss_family:
            continue
        if a.ss_family == AF_INET6:
            if memcmp(&(<sockaddr_in6*>a).sin6_addr, &(<sockaddr_in6*>of).sin6_addr, 16) == 0:
                return True
        elif memcmp(&(<sockaddr_in*>a).sin_addr, &(<sockaddr_in*>of).sin_addr, 4) == 0:
            return True
    return False

cdef void peer_refused(int verdict, const sockaddr* of) noexcept nogil:
    # Logs a refusal that an operator can set right, each kind once in PEER_LOG_US. Requires peers.lock.
    cdef const char* why = PEER_REFUSALS[verdict]
    cdef char[64] address
    cdef char[160] text
    cdef int64_t now = clock_mono_us()
    if why == NULL or peers.logged_us[verdict] and now - peers.logged_us[verdict] < PEER_LOG_US:
        return
    peers.logged_us[verdict] = now
    if of == NULL or uv_ip_name(of, address, sizeof(address)) != 0:
        snprintf(address, sizeof(address), b"HTTP")
    snprintf(text, sizeof(text), b"packets from %s are not taken, they are %s", address, why)
    log_line(b"warn", b"peer_refused", text)

cdef bint peer_try(Engine* e, const char* p, int n) noexcept nogil:
    # Makes the cursors that a packet names ready. Returns True if a look is needed: a partition is unknown here, or a
    # stream holds the lease.
    cdef NoticeEntry entry
    cdef Partition* part
    cdef PopJob* wake = NULL
    cdef bint look = False
    cdef int i
    catalog_book_lock()
    for i in range(n):
        entry = packet_entry(p, i)
        part = catalog_partition_id(entry.partition)
        if part == NULL:
            look = look or entry.group == NOTICE_STORED
        elif entry.group == NOTICE_STORED:
            book_told(part, &wake)
        else:
            look = book_told_free(part, entry.group, &wake) or look
    catalog_book_unlock(e.worker, wake)
    return look

cdef void peer_look(Engine* e) noexcept nogil:
    # Looks for commits at once. If the last look was less than PEER_LOOK_US ago, the engine's timer looks next.
    cdef int64_t now = clock_mono_us()
    uv_mutex_lock(&peers.lock)
    peers.looks += 1
    uv_mutex_unlock(&peers.lock)
    e.discover.due_us = 0
    if now - e.discover.looked_us >= PEER_LOOK_US:
        discover_tick(e, now)
