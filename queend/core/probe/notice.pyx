# Test seams for notices between daemons: packets and their senders.

def probe_packet(bytes secret, list entries, int flags=0, bytes name=b"a:1", uint64_t began=1, uint64_t random=2,
                 uint64_t sequence=1, uint64_t sent_us=0, uint64_t database=7):
    """The bytes of one. entries: (partition, group)."""
    cdef char[PACKET_MOST] out
    cdef uint64_t[PACKET_ENTRIES] all
    cdef Notice m
    cdef int i
    if len(entries) > PACKET_ENTRIES or len(name) >= PEER_NAME:
        raise ValueError("too many, or too long a name")
    memset(&m, 0, sizeof(Notice))
    m.flags, m.n = flags, len(entries)
    m.began, m.random, m.sequence, m.sent_us, m.database = began, random, sequence, sent_us, database
    memcpy(m.name, <const char*>name, len(name))
    for i, (partition, group) in enumerate(entries):
        all[i] = table_pair(group, partition)
    return out[:notice_write(out, &m, all, slice_of(secret, len(secret)))]

cdef tuple probe_entry(uint64_t entry):
    return <int32_t>entry, <int32_t>(entry >> 32)

def probe_packet_read(bytes secret, bytes packet):
    """(verdict, what its head says, its entries); the last two are None where it is not good."""
    cdef Notice m
    cdef int i
    # at the end of an allocation: a read past the packet is detected
    cdef char* copy = <char*>malloc(len(packet) or 1)
    memcpy(copy, <const char*>packet, len(packet))
    cdef int verdict = notice_read(copy, len(packet), slice_of(secret, len(secret)), &m)
    out = (PACKET_WORDS[verdict], None, None)
    if verdict == PACKET_GOOD:
        entries = [probe_entry(notice_entry(copy, i)) for i in range(m.n)]
        out = ("good", {"flags": m.flags, "name": <bytes>m.name, "began": m.began, "random": m.random,
                        "sequence": m.sequence, "sent_us": m.sent_us, "database": m.database}, entries)
    free(copy)
    return out

def probe_senders(list heard, int64_t dead_us=5000000, bint verified=True):
    """heard: (name, began, sequence, sent_us, now, wall). verified: with a secret. Of each (verdict, gap); then of each
    sender (name, packets, lost, restarts)."""
    cdef Senders* all = <Senders*>calloc(1, sizeof(Senders))
    cdef Notice m
    cdef bint gap
    cdef int i
    all.dead_us = dead_us
    all.verified = verified
    out = []
    for name, began, sequence, sent_us, now, wall in heard:
        memset(&m, 0, sizeof(Notice))
        memcpy(m.name, <const char*>name, len(name))
        m.began, m.sequence, m.sent_us = began, sequence, sent_us
        verdict = notice_sender_take(all, &m, now, wall, &gap)
        out.append((PACKET_WORDS[verdict], bool(gap)))
    told = [(<bytes>all.all[i].name, all.all[i].packets, all.all[i].lost + notice_window_lost(&all.all[i].window),
             all.all[i].restarts) for i in range(all.n)]
    free(all)
    return out, told

def probe_told(list keys):
    """keys: (partition, group), told one after the other without anybody who takes them. What is taken then: (entries,
    flags), four times over."""
    cdef OutboxTable* t
    cdef int i, again
    memset(&outbox, 0, sizeof(Outbox))
    outbox.tables = <OutboxTable*>calloc(2, sizeof(OutboxTable))
    outbox.now = outbox.tables
    uv_mutex_init(&outbox.lock)
    out = []
    for again in range(4):        # looks up each table twice
        for partition, group in keys:
            notice_put(<uint64_t><uint32_t><int32_t>group << 32 | <uint32_t><int32_t>partition, 0)
        t = notice_take(True)
        out.append(([probe_entry(t.cells[t.at[i]]) for i in range(t.n)], t.flags))
        notice_done(t)
    uv_mutex_destroy(&outbox.lock)
    free(outbox.tables)
    memset(&outbox, 0, sizeof(Outbox))
    return out
