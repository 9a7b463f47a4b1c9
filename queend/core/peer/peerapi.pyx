# Peers as the control plane sees them (services/peers). In: names and addresses of peers, packets that came over HTTP.
# Out: packets that are to leave over HTTP, stats. Owns nothing. Locks: peers.lock.

cdef tuple PACKET_WORDS = ("good", "broken", "other_version", "forged", "own", "other_database", "stale", "again",
                           "ended", "crowded", "stranger")

def peers_begin(str name, bytes secret, list sockets, int beat_ms, int dead_ms, bint posts):
    """There are peers: what is committed from now on is told them. After the core was made and before it starts, once.
    name: of this daemon. sockets: (descriptor, whether it is of IPv6), bound, which belong to the core from then on.
    posts: packets are wanted for HTTP."""
    cdef bytes text = name.encode()[:PEER_NAME - 1]
    cdef int k
    if outbox.on or len(sockets) > 2:
        raise RuntimeError("peers were there before")
    memset(&peers, 0, sizeof(Peers))
    memset(&outbox, 0, sizeof(Outbox))
    peers.fds[0] = peers.fds[1] = -1      # 0 is a descriptor too: a begin that fails closes none
    peers.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if peers.fd < 0:
        raise OSError("eventfd: no descriptor left")
    outbox.tables = <OutboxTable*>calloc(2, sizeof(OutboxTable))
    peers.kept = <PeerKept*>calloc(PEER_KEPT, sizeof(PeerKept))
    peers.secret = slice_keep(slice_of(secret, len(secret)))
    if outbox.tables == NULL or peers.kept == NULL or peers.secret.p == NULL:
        raise MemoryError()
    uv_mutex_init(&outbox.lock)
    uv_mutex_init(&peers.lock)
    outbox.now = outbox.tables
    outbox.msg.run = peer_on_outbox
    peers.posts = posts
    peers.beat_ms = beat_ms
    peers.senders.dead_us = <int64_t>dead_ms * 1000
    peers.senders.verified = len(secret) > 0
    peers.me.began = <uint64_t>clock_wall_us()
    while getrandom(&peers.me.random, sizeof(peers.me.random), 0) != sizeof(peers.me.random):
        pass
    memcpy(peers.me.name, <const char*>text, len(text))
    for k in range(2):
        peers.fds[k] = sockets[k][0] if k < len(sockets) else -1
        peers.bound[k] = (AF_INET6 if sockets[k][1] else AF_INET) if k < len(sockets) else 0
    outbox.on = True

def peers_addresses(list addresses):
    """From now on it is these that are told: (address, port), as numbers. ValueError for what is none."""
    cdef sockaddr_storage[PEERS_MOST] found
    cdef int n = 0
    memset(found, 0, sizeof(found))
    for address, port in addresses[:PEERS_MOST]:
        name = address.encode()
        if uv_ip4_addr(name, port, <void*>&found[n]) != 0 and uv_ip6_addr(name, port, <void*>&found[n]) != 0:
            raise ValueError(address)
        n += 1
    uv_mutex_lock(&peers.lock)
    memcpy(peers.addresses, found, sizeof(found))
    peers.n_addresses = n
    uv_mutex_unlock(&peers.lock)

def peers_tell(bint maintenance=False):
    """Everybody is to look at what was committed; maintenance: at the switches."""
    notice_flags(NOTICE_MAINTENANCE if maintenance else NOTICE_LOOK)

def peers_fileno():
    """Readable when peers_take has something."""
    return peers.fd

def peers_take():
    """(whether somebody has switched maintenance, packets for HTTP) since the last call."""
    cdef uint64_t count
    cdef int i
    if read(peers.fd, &count, sizeof(count)) < 0:
        pass
    uv_mutex_lock(&peers.lock)
    maintenance = bool(peers.maintenance)
    peers.maintenance = False
    packets = [peers.kept[i].bytes[:peers.kept[i].n] for i in range(peers.n_kept)]
    peers.n_kept = 0
    uv_mutex_unlock(&peers.lock)
    return maintenance, packets

def peers_heard(bytes packet):
    """Takes one that came over HTTP. False: it is none, or not of somebody who has the secret."""
    cdef Notice m
    cdef PeerPosted* p
    if not outbox.on or notice_read(packet, len(packet), peers.secret, &m) != PACKET_GOOD:
        return False
    p = <PeerPosted*>calloc(1, sizeof(PeerPosted))
    if p == NULL:
        raise MemoryError()
    p.msg.run = peer_on_posted
    p.n = len(packet)
    memcpy(p.bytes, <const char*>packet, len(packet))
    if leader == NULL or not worker_post(leader, &p.msg):
        free(p)
    return True

cdef dict peerapi_sender(Sender* s, int64_t now):
    return {"server": (<bytes>s.name).decode(), "session": f"{s.began:x}-{s.random:x}",
            "alive": now - s.received_us <= peers.senders.dead_us, "silentMs": (now - s.received_us) // 1000,
            "packets": s.packets, "lost": s.lost + notice_window_lost(&s.window), "restarts": s.restarts}

def peers_stats():
    """What was sent and heard since the start, and of each daemon that was heard how it is."""
    cdef int64_t now = clock_mono_us()
    cdef char[64] text
    cdef int i
    if peers.fd == 0:
        return None
    uv_mutex_lock(&peers.lock)
    try:
        addresses = []
        for i in range(peers.n_addresses):
            uv_ip_name(<sockaddr*>&peers.addresses[i], text, sizeof(text))
            addresses.append(((<bytes>text).decode(), conn_port(&peers.addresses[i])))
        return {"server": (<bytes>peers.me.name).decode(), "addresses": addresses,
                "senders": [peerapi_sender(&peers.senders.all[i], now) for i in range(peers.senders.n)],
                "sent": peers.sent, "unsent": peers.unsent, "posted": peers.posted, "told": peers.notified,
                "heard": peers.heard, "beats": peers.beats, "looks": peers.looks,
                "taken": peers.verdicts[0],
                "refused": {PACKET_WORDS[i]: peers.verdicts[i] for i in range(1, <int>PACKET_VERDICTS)}}
    finally:
        uv_mutex_unlock(&peers.lock)
