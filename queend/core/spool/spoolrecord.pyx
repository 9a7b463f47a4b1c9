# A record of the failover buffer: one message, with all fields for the database (format: docs/failover.md). In: a push
# item, or bytes of a file. Out: bytes, or an item whose slices point into them. Stateless, without locks, I/O or clock.

cdef enum:
    SPOOL_MARK = 0x63655251   # "QRec", little-endian: marks where the next record may begin after damaged bytes
    SPOOL_HEAD = 12           # mark, length of the rest, checksum of length and rest
    SPOOL_LEAST = 28          # bytes of the smallest rest
    SPOOL_V1 = 1

cdef enum SpoolFound:
    SPOOL_RECORD = 0          # an item of `n` bytes
    SPOOL_MORE = 1            # the record continues after these bytes; it needs `n`
    SPOOL_DAMAGED = 2         # `n` bytes without a record; a record or the end follows

cdef void spoolrecord_put(Buf* b, PushItem* it, int64_t now_us) noexcept nogil:
    # Appends one record. If b.failed is set afterwards, memory ran out and the appended bytes are invalid.
    cdef size_t at = b.len
    cdef Extras x
    pushitem_extras(it, &x)
    buf_reserve(b, SPOOL_HEAD)
    buf_byte(b, SPOOL_V1)
    buf_put(b, it.id, 16)
    buf_le64(b, <uint64_t>now_us)
    spoolrecord_text(b, it.queue)
    spoolrecord_text(b, it.part)
    buf_byte(b, <char>(x.trace.n + x.sub.n + x.text.n + x.due.n + x.seal.n + x.headers.n != 0))
    extras_put(b, 0, &x)
    buf_slice(b, it.payload)
    if b.failed:
        return
    le32_put(b.data + at, SPOOL_MARK)
    le32_put(b.data + at + 4, <uint32_t>(b.len - at - SPOOL_HEAD))
    le32_put(b.data + at + 8, spoolrecord_sum(b.data + at, b.len - at - SPOOL_HEAD))

cdef inline void spoolrecord_text(Buf* b, Slice s) noexcept nogil:
    buf_varint(b, s.n)
    buf_slice(b, s)

cdef inline uint32_t spoolrecord_sum(const char* record, size_t n) noexcept nogil:
    return crc32c(crc32c(0, record + 4, 4), record + SPOOL_HEAD, n)

cdef inline bint spoolrecord_whole(const char* p, size_t have) noexcept nogil:
    # Returns True if p begins with a complete, undamaged record.
    cdef size_t n
    if have < SPOOL_HEAD or le32(p) != SPOOL_MARK:
        return False
    n = le32(p + 4)
    return SPOOL_LEAST <= n <= have - SPOOL_HEAD and spoolrecord_sum(p, n) == le32(p + 8)

cdef int spoolrecord_next(const char* p, size_t have, size_t left, PushItem* it, Extras* x, int64_t* at_us,
                          size_t* n) noexcept nogil:
    # Reads the record at p. `have` bytes are in memory, `left` (at least as many) in the file. Returns SpoolFound;
    # overwrites it.
    cdef size_t rest, i
    if have >= SPOOL_HEAD and le32(p) == SPOOL_MARK:
        rest = le32(p + 4)
        if SPOOL_LEAST <= rest <= left - SPOOL_HEAD:
            n[0] = SPOOL_HEAD + rest
            if n[0] > have:
                return SPOOL_MORE
            if spoolrecord_sum(p, rest) == le32(p + 8) and spoolrecord_take(p + SPOOL_HEAD, rest, it, x, at_us):
                return SPOOL_RECORD
    elif have < SPOOL_HEAD and have < left:
        n[0] = SPOOL_HEAD
        return SPOOL_MORE
    # Damaged: ends at the next place where a record is complete, or may begin.
    i = 1
    while i < have:
        if p[i] == 0x51 and (have - i < 4 or le32(p + i) == SPOOL_MARK):
            if spoolrecord_whole(p + i, have - i) or (have < left and spoolrecord_cut(p + i, have - i, left - i)):
                break
        i += 1
    n[0] = i
    return SPOOL_DAMAGED

cdef inline bint spoolrecord_cut(const char* p, size_t have, size_t left) noexcept nogil:
    # Returns True if a record may begin here whose end is not in memory.
    cdef size_t rest
    if have < SPOOL_HEAD:
        return True
    rest = le32(p + 4)
    return SPOOL_LEAST <= rest <= left - SPOOL_HEAD and rest > have - SPOOL_HEAD

cdef inline bint spoolrecord_read_text(const char** p, const char* end, Slice* out) noexcept nogil:
    cdef uint64_t n
    p[0] = <const char*>extras_varint(<const unsigned char*>p[0], <const unsigned char*>end, &n)
    if p[0] == NULL or n > <uint64_t>(end - p[0]):
        return False
    out[0] = slice_of(p[0], n)
    p[0] += n
    return True

cdef bint spoolrecord_take(const char* p, size_t n, PushItem* it, Extras* x, int64_t* at_us) noexcept nogil:
    # Reads the rest of a record whose checksum is valid. Returns False for an unknown version or unknown extras.
    cdef const char* end = p + n
    memset(it, 0, sizeof(PushItem))
    extras_none(x)
    if p[0] != <char>SPOOL_V1:
        return False
    memcpy(it.id, p + 1, 16)
    # Ids made by the daemon are looked up in the database like all others: the record may have been stored before.
    it.id_kind = ID_V7 if it.id[6] >> 4 == 7 else ID_OTHER
    at_us[0] = <int64_t>le64(p + 17)
    p += 25
    if not spoolrecord_read_text(&p, end, &it.queue) or not spoolrecord_read_text(&p, end, &it.part) or p >= end:
        return False
    if p[0]:
        # one byte, the place (0), then the extras as in a row of the log
        if end - p < 3 or <uint8_t>p[2] >> EXTRAS_KNOWN:
            return False
        p = <const char*>extras_read(<const unsigned char*>p + 2, <const unsigned char*>end, x)
        if p == NULL:
            return False
        if x.trace.n:
            memcpy(it.trace, x.trace.p, 16)
            it.has_trace = 1
        it.sub = x.sub
        it.txid = x.text
        it.keep_text = x.text.n != 0
    else:
        p += 1
    it.payload = slice_of(p, end - p)
    return True
