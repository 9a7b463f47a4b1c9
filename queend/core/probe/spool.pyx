# Test seams for the failover buffer's files: records and segments, without an engine.

def probe_spool_record(bytes queue, bytes part, bytes payload, bytes id, bytes txid=None, bytes trace=None,
                       bytes sub=b"", bytes due=b"", bytes seal=b"", bytes headers=b"", int64_t now_us=0):
    """One record as it is written."""
    cdef PushItem it
    cdef Extras more
    cdef Buf b
    memset(&it, 0, sizeof(it))
    buf_init(&b)
    it.queue = read_slice(queue)
    it.part = read_slice(part)
    it.payload = read_slice(payload)
    it.sub = read_slice(sub)
    memcpy(it.id, <const char*>id, 16)
    it.txid = read_slice(txid)
    it.keep_text = txid is not None
    if trace is not None:
        memcpy(it.trace, <const char*>trace, 16)
        it.has_trace = 1
    batchrow_extras_none(&more)
    more.due = read_slice(due)
    more.seal = read_slice(seal)
    more.headers = read_slice(headers)
    it.more = &more
    spool_record_put(&b, &it, now_us)
    out = b.data[:b.len]
    buf_free(&b)
    return out

def probe_spool_read(bytes data, size_t window):
    """What a reader finds that sees `window` bytes at a time: (queue, partition, id, transactionId, trace, sub,
    payload, µs, due, seal, headers) for each record, bytes for each damaged piece."""
    cdef PushItem it
    cdef Extras x
    cdef int64_t since
    cdef size_t n, have
    cdef size_t at = 0
    cdef size_t want = window
    cdef const char* p = data
    cdef int found
    out = []
    while at < <size_t>len(data):
        have = min(want, len(data) - at)
        found = spool_record_next(p + at, have, len(data) - at, &it, &x, &since, &n)
        if found == SPOOL_MORE:
            assert n > have
            want = n
            continue
        want = window
        if found == SPOOL_RECORD:
            out.append((slice_bytes(it.queue), slice_bytes(it.part), (<char*>it.id)[:16],
                        slice_bytes(it.txid) if it.keep_text else None,
                        (<char*>it.trace)[:16] if it.has_trace else None, slice_bytes(it.sub), slice_bytes(it.payload),
                        since, slice_bytes(x.due), slice_bytes(x.seal), slice_bytes(x.headers)))
        else:
            out.append(data[at:at + n])
        at += n
    return out

def probe_crc32c(bytes data, uint32_t seed=0):
    """(by the processor if it can, by the table)."""
    cdef uint32_t ones = <uint32_t>0xffffffff
    plain = crc32c_plain(seed ^ ones, <const unsigned char*><const char*>data, len(data)) ^ ones
    return crc32c(seed, <const char*>data, len(data)), plain
