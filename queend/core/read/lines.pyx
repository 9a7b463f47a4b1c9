# Writes records as JSON: one answer with an entry per requested entry, or one line per record.

cdef struct ReadTime:
    int64_t us                # moment that `text` spells
    char[28] text

cdef inline void readtime_put(Buf* b, ReadTime* t, int64_t us) noexcept nogil:
    # Writes a time. Keeps its text, because all records of one row have the same time.
    if t.text[0] == 0 or t.us != us:
        clock_format(us, 6, t.text)
        t.us = us
    buf_put(b, t.text, 27)

cdef inline void readrecord_txid(Buf* b, ReadRecord* r) noexcept nogil:
    if r.text.n:
        json_escape(b, r.text)
    else:
        put_uuid(b, r.id)

cdef inline void readline_put(Buf* b, Slice json) noexcept nogil:
    # Writes JSON on one line: line ends occur only between tokens, where a blank is equivalent.
    cdef size_t i = b.len
    buf_slice(b, json)
    if b.failed or (memchr(json.p, b'\n', json.n) == NULL and memchr(json.p, b'\r', json.n) == NULL):
        return
    for i in range(i, b.len):
        if b.data[i] == b'\n' or b.data[i] == b'\r':
            b.data[i] = b' '

cdef void readrecord_origin(Buf* b, ReadRecord* r) noexcept nogil:
    # Writes the members of a record's headers that give the origin of a redriven dead letter.
    cdef Json j
    cdef Slice key, value
    cdef bint first = True
    if r.extras.headers.n == 0:
        return
    json_open(&j, r.extras.headers, JSON_DEPTH)
    json_peek(&j)
    json_enter(&j, b'{')
    while json_member(&j, &first, &key) and json_skip(&j, &value):
        if key.n > 7 and memcmp(key.p + 1, b"origin", 6) == 0:
            buf_byte(b, b',')
            buf_slice(b, key)
            buf_byte(b, b':')
            buf_slice(b, value)

cdef void readentry_marks(Buf* b, ReadEntry* e) noexcept nogil:
    buf_text(b, b"\"highWatermark\":")
    if e.head < 0:
        buf_text(b, b"null,\"logStartOffset\":null")
    else:
        buf_int(b, e.head)
        buf_text(b, b",\"logStartOffset\":")
        buf_int(b, e.floor)
    if e.erased:
        buf_text(b, b",\"erased\":")
        buf_int(b, e.erased)
    if e.error.n:
        buf_text(b, b",\"error\":")
        json_escape(b, e.error)
    buf_byte(b, b'}')

cdef void readentry_head(Buf* b, ReadEntry* e) noexcept nogil:
    buf_text(b, b"{\"queue\":")
    json_escape(b, e.queue)
    buf_text(b, b",\"partition\":")
    json_escape(b, e.partition)

cdef void read_json(ReadCall* c, Buf* b) noexcept nogil:
    cdef ReadRecord r
    cdef ReadTime time
    cdef ReadEntry* e
    cdef int i
    memset(&time, 0, sizeof(time))
    buf_text(b, b"{\"entries\":[")
    for i in range(c.n):
        e = &c.entries[i]
        if i:
            buf_byte(b, b',')
        readentry_head(b, e)
        buf_text(b, b",\"records\":[")
        while readentry_next(c, e, b.len, &r):
            buf_room(b, r.payload.n + 160)
            buf_text(b, b"{\"offset\":" if e.records == 1 else b",{\"offset\":")
            buf_int(b, r.offset)
            buf_text(b, b",\"transactionId\":")
            readrecord_txid(b, &r)
            buf_text(b, b",\"payload\":")
            buf_slice(b, r.payload)
            buf_text(b, b",\"ts\":\"")
            readtime_put(b, &time, r.created_us)
            buf_byte(b, b'"')
            readrecord_origin(b, &r)
            buf_byte(b, b'}')
        buf_text(b, b"],")
        if e.erased:              # the last record does not show the next offset
            buf_text(b, b"\"nextOffset\":")
            buf_int(b, e.next)
            buf_byte(b, b',')
        readentry_marks(b, e)
    buf_text(b, b"]}")

cdef void read_entries(ReadCall* c, Buf* b) noexcept nogil:
    # Writes the entries without their records, but with their next offsets, for formats that hold only records.
    cdef ReadEntry* e
    cdef int i
    buf_text(b, b"{\"entries\":[")
    for i in range(c.n):
        e = &c.entries[i]
        if i:
            buf_byte(b, b',')
        readentry_head(b, e)
        buf_text(b, b",\"nextOffset\":")
        buf_int(b, e.next)
        buf_byte(b, b',')
        readentry_marks(b, e)
    buf_text(b, b"]}")

cdef void read_ndjson(ReadCall* c, Buf* b) noexcept nogil:
    # Writes a line per record, then one line with the entries.
    cdef ReadRecord r
    cdef ReadTime time
    cdef ReadEntry* e
    cdef int i
    cdef size_t names, names_n
    memset(&time, 0, sizeof(time))
    for i in range(c.n):
        e = &c.entries[i]
        names = names_n = 0
        while readentry_next(c, e, b.len, &r):
            buf_room(b, r.payload.n + names_n + 160)
            if names_n == 0:
                names = b.len
                readentry_head(b, e)
                buf_text(b, b",\"offset\":")
                names_n = b.len - names
            elif buf_room(b, names_n):       # the names are written once per entry, then copied within the answer
                memcpy(b.data + b.len, b.data + names, names_n)
                b.len += names_n
            buf_int(b, r.offset)
            buf_text(b, b",\"transactionId\":")
            readrecord_txid(b, &r)
            buf_text(b, b",\"payload\":")
            readline_put(b, r.payload)
            buf_text(b, b",\"ts\":\"")
            readtime_put(b, &time, r.created_us)
            buf_byte(b, b'"')
            readrecord_origin(b, &r)
            buf_text(b, b"}\n")
    read_entries(c, b)
    buf_byte(b, b'\n')
