# Notices on their way to other daemons. In: what was told (notice/told). Out: the same packet to every address, and to
# Python for HTTP. Owner: the first worker. Locks: peers.lock. The first notice leaves at once; what follows within
# PEER_GAP_US leaves together. An empty packet leaves once in a heartbeat: so the others see that this daemon lives, and
# which packets were lost.

cdef void peer_told(Worker* w, InboxMsg* m) noexcept nogil:
    # Sends notices, or arms the timer that sends them, after something was told.
    cdef int64_t wait = peers.left_us + PEER_GAP_US - clock_mono_us()
    if engine_of(w) == NULL or engine_of(w).closing or peers.armed:
        return
    if wait <= 0:
        peers_leave(True)
        return
    peers.armed = True
    uv_update_time(&w.loop)
    uv_timer_start(&peers.leaving, peer_on_leaving, <uint64_t>(wait + 999) // 1000, 0)

cdef void peer_on_leaving(uv_timer_t* t) noexcept nogil:
    peers.armed = False
    peers_leave(True)

cdef void peer_on_beat(uv_timer_t* t) noexcept nogil:
    cdef int64_t now = clock_mono_us()
    uv_mutex_lock(&peers.lock)
    peers_watch(now)
    uv_mutex_unlock(&peers.lock)
    if now - peers.left_us > <int64_t>peers.beat_ms * 900 and not peers.armed:
        peers_leave(False)

cdef void peers_leave(bint done) noexcept nogil:
    # Sends all notices. done: the message has left the inbox (told_take).
    cdef ToldTable* t = told_take(done)
    cdef int at = 0
    cdef int i
    peers.left_us = clock_mono_us()
    peers.me.database = peer_database()
    peers.me.flags = t.flags
    while True:
        peers.me.n = min(t.n - at, PACKET_ENTRIES)
        for i in range(peers.me.n):
            peers.entries[i] = told_entry(t, at + i)
        at += peers.me.n
        peers.me.sequence += 1
        peers.me.sent_us = <uint64_t>clock_wall_us()
        peer_send(packet_write(peers.out, &peers.me, peers.entries, peers.secret))
        peers.me.flags = 0
        if at >= t.n:
            break
    told_done(t)

cdef void peer_send(size_t n) noexcept nogil:
    # Sends a packet to all addresses. A packet for which the kernel has no room is lost: the others see that one is
    # missing.
    cdef uv_buf_t buf
    cdef int i, k
    buf.base = peers.out
    buf.len = n
    uv_mutex_lock(&peers.lock)
    peers.told += peers.me.n
    for i in range(peers.n_addresses):
        for k in range(2):
            if peers.families[k] == peers.addresses[i].ss_family:
                if uv_udp_try_send(&peers.sockets[k], &buf, 1, <sockaddr*>&peers.addresses[i]) == <int>n:
                    peers.sent += 1
                else:
                    peers.unsent += 1
    if peers.posts:
        peer_keep(n)
    uv_mutex_unlock(&peers.lock)

cdef void peer_keep(size_t n) noexcept nogil:
    # Keeps a packet for Python, which posts it. Requires peers.lock.
    if peers.n_kept == PEER_KEPT:
        peers.n_kept = 0      # a daemon that misses some looks at everything
    peers.kept[peers.n_kept].n = n
    memcpy(peers.kept[peers.n_kept].bytes, peers.out, n)
    peers.n_kept += 1
    peers.posted += 1
    peers_tell_python()

cdef void peers_tell_python() noexcept nogil:
    cdef uint64_t one = 1
    if write(peers.fd, &one, sizeof(one)) < 0:
        pass                  # its counter is full: readable already

cdef uint64_t peer_database() noexcept nogil:
    # Returns a hash of the server's system identifier and the database's number: elsewhere the same ids mean other
    # partitions. 0: no server was seen yet.
    cdef const char* end
    cdef const char* before
    cdef int64_t now = incarnation_now()
    if now == 0:
        return 0
    if now != peers.server:
        uv_rwlock_rdlock(&incarnation.lock)
        end = incarnation.text
        before = strchr(end, b'/')
        while before != NULL:
            end = before + 1
            before = strchr(end, b'/')
        peers.server = incarnation.number
        peers.me.database = slice_hash(
            slice_of(incarnation.text, strcspn(incarnation.text, b"/")), slice_hash(slice_of(end, strlen(end)), 1)) | 1
        uv_rwlock_rdunlock(&incarnation.lock)
    return peers.me.database

cdef void peers_watch(int64_t now) noexcept nogil:
    # Logs senders that have fallen silent or are back. Requires peers.lock.
    cdef Sender* s
    cdef bint alive
    cdef int i
    for i in range(peers.senders.n):
        s = &peers.senders.all[i]
        alive = now - s.heard_us <= peers.senders.dead_us
        if alive != s.alive:
            s.alive = alive
            if alive:
                log_line(b"info", b"peer_heard", s.name)
            else:
                log_line(b"warn", b"peer_silent", s.name)
