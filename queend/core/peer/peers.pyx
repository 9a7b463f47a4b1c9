# Notices to and from other daemons, over UDP and HTTP. In: notices that wait (notice/notice); packets, from sockets
# that Python has bound (peer/peerapi) or posted. Out: the same packet to every address, and to Python for HTTP; cursors
# that are worth a try, a look at what was committed. Owns `peers`: sockets, timers, senders. Owner: the first worker,
# on its loop. Locks: peers.lock; catalog.lock, then book.lock. A notice is a hint that makes this daemon ask the
# database: it is never believed.

cdef enum:
    PEERS_MOST = 64           # addresses
    PEER_GAP_US = 2000        # shortest interval between two sends
    PEER_LOOK_US = 5000       # shortest interval between two looks caused by notices
    PEER_LOG_US = 60000000    # between two log lines about refused packets of one verdict
    PEER_KEPT = 64            # packets waiting for HTTP; beyond: NOTICE_LOOK replaces them

cdef struct PeerKept:
    size_t n
    char[PACKET_MOST] bytes

cdef struct PeerPosted:
    InboxMsg msg
    size_t n
    char[PACKET_MOST] bytes

cdef struct Peers:
    # Owner: the first worker. Locks: `lock` guards what Python reads and writes; no other lock is taken with it.
    uv_mutex_t lock
    uv_udp_t[2] sockets
    int[2] fds                # their descriptors until the loop takes them over, -1: none
    int[2] bound              # address families of the descriptors
    int[2] families           # address families of the usable sockets, 0: none
    uv_timer_t send_timer     # sends waiting notices
    uv_timer_t beat
    int handles
    bint armed                # `send_timer` is armed
    int64_t left_us           # monotonic, time of the last send
    int beat_ms
    Slice secret
    Notice me                 # this session; its `sequence` is the last packet's
    int64_t incarnation       # the incarnation that me.database was computed from
    char[PACKET_MOST + 1] input       # the last received packet
    uint64_t[PACKET_ENTRIES] entries
    char[PACKET_MOST] out
    # guarded by `lock`:
    sockaddr_storage[PEERS_MOST] addresses
    int n_addresses
    bint posts                # packets are sent over HTTP as well
    PeerKept* kept            # PEER_KEPT entries
    int n_kept
    int fd                    # readable when Python has work
    bint maintenance          # a peer has changed a maintenance switch
    Senders senders
    uint64_t sent             # packets handed to the kernel
    uint64_t unsent           # packets that the kernel refused
    uint64_t posted           # packets kept for HTTP
    uint64_t notified         # entries in sent packets
    uint64_t heard            # entries and flags that were acted upon
    uint64_t beats            # heartbeats received
    uint64_t looks            # looks requested
    uint64_t[PACKET_VERDICTS] verdicts
    int64_t[PACKET_VERDICTS] logged_us

cdef Peers peers

peers.fds[0] = peers.fds[1] = -1     # none; 0 would be a descriptor of another owner

# ---- sockets and timers ----------------------------------------------------------------------------------------------

cdef void peers_open(Engine* e) noexcept nogil:
    # Opens sockets and timers, on the first worker before its first turn.
    cdef uv_loop_t* loop = &e.worker.loop
    cdef int k
    if not outbox.on:
        return
    uv_timer_init(loop, &peers.send_timer)
    uv_timer_init(loop, &peers.beat)
    peers.send_timer.data = e
    peers.beat.data = e
    peers.handles = 2
    for k in range(2):
        if peers.fds[k] < 0:
            continue
        uv_udp_init(loop, &peers.sockets[k])
        peers.sockets[k].data = e
        peers.handles += 1
        if uv_udp_open(&peers.sockets[k], peers.fds[k]) != 0:
            close(peers.fds[k])
        elif uv_udp_recv_start(&peers.sockets[k], peer_on_alloc, peer_on_packet) == 0:
            peers.families[k] = peers.bound[k]
    e.worker.counters.live_handles += peers.handles
    uv_timer_start(&peers.beat, peer_on_beat, 0, <uint64_t>peers.beat_ms)

cdef int peers_close(void (*closed)(uv_handle_t* h) noexcept nogil) noexcept nogil:
    # Closes all handles. Returns how many; calls `closed` for each, with the engine as its data.
    cdef int n = peers.handles
    cdef int k
    if n == 0:
        return 0
    uv_close(<uv_handle_t*>&peers.send_timer, closed)
    uv_close(<uv_handle_t*>&peers.beat, closed)
    uv_mutex_lock(&peers.lock)
    for k in range(2):
        if peers.fds[k] >= 0:
            uv_close(<uv_handle_t*>&peers.sockets[k], closed)
            peers.fds[k] = -1
        peers.families[k] = 0
    uv_mutex_unlock(&peers.lock)
    peers.handles = 0
    return n

cdef void peers_halt() noexcept nogil:
    # Closes what is left, after the workers have ended. Python may still read the stats.
    cdef int k
    outbox.on = False
    for k in range(2):
        if peers.fds[k] >= 0:
            close(peers.fds[k])       # no loop took it
            peers.fds[k] = -1

# ---- notices that leave ----------------------------------------------------------------------------------------------
# The first notice leaves at once; what follows within PEER_GAP_US leaves together. An empty packet leaves once in a
# heartbeat: so the others see that this daemon lives, and which packets were lost.

cdef void peer_on_outbox(Worker* w, InboxMsg* m) noexcept nogil:
    # Sends notices, or arms the timer that sends them, after the outbox got some.
    cdef int64_t wait = peers.left_us + PEER_GAP_US - clock_mono_us()
    if engine_of(w) == NULL or engine_of(w).closing or peers.armed:
        return
    if wait <= 0:
        peers_send_all(True)
        return
    peers.armed = True
    uv_update_time(&w.loop)
    uv_timer_start(&peers.send_timer, peer_on_send_timer, <uint64_t>(wait + 999) // 1000, 0)

cdef void peer_on_send_timer(uv_timer_t* t) noexcept nogil:
    peers.armed = False
    peers_send_all(True)

cdef void peer_on_beat(uv_timer_t* t) noexcept nogil:
    cdef int64_t now = clock_mono_us()
    uv_mutex_lock(&peers.lock)
    peers_watch(now)
    uv_mutex_unlock(&peers.lock)
    if now - peers.left_us > <int64_t>peers.beat_ms * 900 and not peers.armed:
        peers_send_all(False)

cdef void peers_send_all(bint done) noexcept nogil:
    # Sends all notices. done: the message has left the inbox (notice_take).
    cdef OutboxTable* t = notice_take(done)
    cdef int at = 0
    cdef int i
    peers.left_us = clock_mono_us()
    peers.me.database = peer_database()
    peers.me.flags = t.flags
    while True:
        peers.me.n = min(t.n - at, PACKET_ENTRIES)
        for i in range(peers.me.n):
            peers.entries[i] = t.cells[t.at[at + i]]
        at += peers.me.n
        peers.me.sequence += 1
        peers.me.sent_us = <uint64_t>clock_wall_us()
        peer_send(notice_write(peers.out, &peers.me, peers.entries, peers.secret))
        peers.me.flags = 0
        if at >= t.n:
            break
    notice_done(t)

cdef void peer_send(size_t n) noexcept nogil:
    # Sends a packet to all addresses. A packet for which the kernel has no room is lost: the others see that one is
    # missing.
    cdef uv_buf_t buf
    cdef int i, k
    buf.base = peers.out
    buf.len = n
    uv_mutex_lock(&peers.lock)
    peers.notified += peers.me.n
    for i in range(peers.n_addresses):
        for k in range(2):
            if peers.families[k] == peers.addresses[i].ss_family:
                if uv_udp_try_send(&peers.sockets[k], &buf, 1, <sockaddr*>&peers.addresses[i]) == <int>n:
                    peers.sent += 1
                else:
                    peers.unsent += 1
    if peers.posts:           # keeps it for Python, which posts it
        if peers.n_kept == PEER_KEPT:
            peers.n_kept = 0  # a daemon that misses some looks at everything
        peers.kept[peers.n_kept].n = n
        memcpy(peers.kept[peers.n_kept].bytes, peers.out, n)
        peers.n_kept += 1
        peers.posted += 1
        peers_wake_python()
    uv_mutex_unlock(&peers.lock)

cdef void peers_wake_python() noexcept nogil:
    cdef uint64_t one = 1
    if write(peers.fd, &one, sizeof(one)) < 0:
        pass                  # its counter is full: readable already

cdef uint64_t peer_database() noexcept nogil:
    # Returns a hash of the server's system identifier and the database's number: elsewhere the same ids mean other
    # partitions. 0: no server was seen yet.
    cdef const char* end
    cdef int64_t now = incarnation_now()
    if now == 0:
        return 0
    if now != peers.incarnation:
        uv_rwlock_rdlock(&incarnation.lock)
        end = strrchr(incarnation.text, b'/')
        end = end + 1 if end != NULL else incarnation.text
        peers.incarnation = incarnation.number
        peers.me.database = slice_hash(
            slice_of(incarnation.text, strcspn(incarnation.text, b"/")), slice_hash(slice_of(end, strlen(end)), 1)) | 1
        uv_rwlock_rdunlock(&incarnation.lock)
    return peers.me.database

# ---- notices that arrive ---------------------------------------------------------------------------------------------

cdef const char* PEER_REFUSALS[PACKET_VERDICTS]      # NULL: refused without a line in the log
PEER_REFUSALS[<int>PACKET_OTHER] = b"of another version, or of no queend"
PEER_REFUSALS[<int>PACKET_FORGED] = b"of somebody who has not this QUEEN_SYNC_SECRET"
PEER_REFUSALS[<int>PACKET_ELSEWHERE] = b"of a daemon on another database"
PEER_REFUSALS[<int>PACKET_STALE] = b"of another minute: the clocks of both are apart"
PEER_REFUSALS[<int>PACKET_CROWDED] = b"of one daemon more than are remembered"
PEER_REFUSALS[<int>PACKET_UNLISTED] = b"of an address that is not among QUEEN_UDP_PEERS"

cdef void peer_on_alloc(uv_handle_t* h, size_t wanted, uv_buf_t* buf) noexcept nogil:
    buf.base = peers.input
    buf.len = sizeof(peers.input)

cdef void peer_on_packet(uv_udp_t* h, ssize_t n, const uv_buf_t* buf, const sockaddr* of,
                         unsigned int flags) noexcept nogil:
    # Takes a packet. One that does not fit is cut, and then longer than any packet.
    if n > 0 and of != NULL:
        peer_receive(<Engine*>h.data, peers.input, <size_t>n, of)

cdef void peer_on_posted(Worker* w, InboxMsg* m) noexcept nogil:
    # Takes a packet that came over HTTP from an authorized client.
    cdef PeerPosted* p = <PeerPosted*>m
    if engine_of(w) != NULL and not engine_of(w).closing:
        peer_receive(engine_of(w), p.bytes, p.n, NULL)
    free(p)

cdef void peer_receive(Engine* e, const char* p, size_t n, const sockaddr* of) noexcept nogil:
    cdef Notice m
    cdef bint gap = False
    cdef bint look
    cdef int verdict = notice_read(p, n, peers.secret, &m)
    cdef uint64_t database = peer_database()
    uv_mutex_lock(&peers.lock)
    if verdict == PACKET_GOOD:
        verdict = peer_verdict(&m, database, of)
    if verdict == PACKET_GOOD:
        verdict = notice_sender_take(&peers.senders, &m, clock_mono_us(), clock_wall_us(), &gap)
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
            peers_wake_python()
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
    if peers.secret.n == 0 and of != NULL and not peer_is_listed(of):
        return PACKET_UNLISTED
    return PACKET_GOOD

cdef bint peer_is_listed(const sockaddr* of) noexcept nogil:
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
    cdef int32_t group
    cdef Partition* part
    cdef PopJob* wake = NULL
    cdef bint look = False
    cdef int i
    index_lock_all()
    for i in range(n):
        part = catalog_partition_id(<int32_t>notice_entry(p, i))
        group = <int32_t>(notice_entry(p, i) >> 32)
        if part == NULL:
            look = look or group == NOTICE_STORED
        elif group == NOTICE_STORED:
            index_notify(part, INT64_MAX, False, &wake)       # the new head is known only from the database
        else:
            look = index_peer_released(part, group, &wake) or look
    index_unlock_all(e.worker, wake)
    return look

cdef void peer_look(Engine* e) noexcept nogil:
    # Looks for commits at once. If the last look was less than PEER_LOOK_US ago, the engine's timer looks next.
    cdef int64_t now = clock_mono_us()
    uv_mutex_lock(&peers.lock)
    peers.looks += 1
    uv_mutex_unlock(&peers.lock)
    e.polling.due_us = 0
    if now - e.polling.looked_us >= PEER_LOOK_US:
        poll_tick(e, now)

cdef void peers_watch(int64_t now) noexcept nogil:
    # Logs senders that have fallen silent or are back. Requires peers.lock.
    cdef Sender* s
    cdef bint alive
    cdef int i
    for i in range(peers.senders.n):
        s = &peers.senders.all[i]
        alive = now - s.received_us <= peers.senders.dead_us
        if alive != s.alive:
            s.alive = alive
            if alive:
                log_line(b"info", b"peer_heard", s.name)
            else:
                log_line(b"warn", b"peer_silent", s.name)
