# The UDP sockets and timers of peers, from their start to their end. In: sockets that Python has bound (peer/python).
# Out: packets (peer/heard), moments to send (peer/leaving). Owner: the first worker, on its loop.

cdef void peers_open(Engine* e) noexcept nogil:
    # Opens sockets and timers, on the first worker before its first turn.
    cdef uv_loop_t* loop = &e.worker.loop
    cdef int k
    if not told.on:
        return
    uv_timer_init(loop, &peers.leaving)
    uv_timer_init(loop, &peers.beat)
    peers.leaving.data = e
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
        elif uv_udp_recv_start(&peers.sockets[k], peer_on_room, peer_on_packet) == 0:
            peers.families[k] = peers.bound[k]
    e.worker.counters.live_handles += peers.handles
    uv_timer_start(&peers.beat, peer_on_beat, 0, <uint64_t>peers.beat_ms)

cdef int peers_close(void (*closed)(uv_handle_t* h) noexcept nogil) noexcept nogil:
    # Closes all handles. Returns how many; each is told to `closed`, with the engine as its data.
    cdef int n = peers.handles
    cdef int k
    if n == 0:
        return 0
    uv_close(<uv_handle_t*>&peers.leaving, closed)
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
    # Closes what is left, after the workers have ended. Python may still read the figures.
    cdef int k
    told.on = False
    for k in range(2):
        if peers.fds[k] >= 0:
            close(peers.fds[k])       # no loop took it
            peers.fds[k] = -1
