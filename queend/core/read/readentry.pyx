# An entry of a log read: its records by offset, written as JSON, lines or CloudEvents. In: rows of queend.read_rows.
# Out: records, one after the other, within the budgets of the call; bytes of an answer. Slices point into the caller's
# bytes. Owner: the call. Without I/O and locks.

cdef enum:
    READ_ANSWER_MOST = 67108864       # bytes of an answer after which no further record begins

cdef struct ReadRows:
    # One result row of queend.read_rows: arrays of the same length, in the order of its columns.
    PgIter[6] at

cdef enum:
    ROWS_BASE = 0
    ROWS_N
    ROWS_CREATED
    ROWS_IDS
    ROWS_BODY
    ROWS_META
    ROWS_COLUMNS

cdef struct ReadEntry:
    Slice queue
    Slice partition
    Slice error               # empty: no error
    int64_t head              # high watermark, -1: unknown
    int64_t floor
    int64_t end               # records at or after this offset are not returned
    int32_t number            # of the partition, if the answer contains message ids
    int64_t next              # next wanted offset: after the last returned record
    int64_t most              # remaining payload bytes
    int64_t records           # returned records
    int64_t erased            # skipped records, whose payloads were erased
    ReadRows* rows            # rows not opened yet
    int n_rows
    bint open                 # `row` has more records
    bint spent                # a budget is used up
    BatchRow row
    int64_t offset            # of the next record in `row`
    int64_t created_us        # of `row`
    bint sealed               # the queue is encrypted: payloads without a key id are decrypted as well

cdef struct ReadCall:
    ReadEntry* entries
    int n
    int wanted                # columns of an Arrow answer: bits IPC_QUEUE and so on
    int64_t left              # remaining payload bytes of the whole call
    int64_t records
    int64_t bytes             # returned payload bytes
    bint unreadable           # a row has an unknown format
    Unzip unzip               # one row is open at a time
    Seal seal

cdef struct ReadRecord:
    int64_t offset
    int64_t created_us
    const unsigned char* id
    Extras extras             # without a text: the id is the transactionId
    Slice payload

# ---- records ---------------------------------------------------------------------------------------------------------

cdef bint readentry_rows_open(ReadRows* r, const Slice* columns) noexcept nogil:
    # Opens binary arrays as PostgreSQL sent them. Returns False if their types or lengths do not match.
    cdef int i
    cdef uint32_t kind
    for i in range(ROWS_COLUMNS):
        kind = OID_INT4 if i == ROWS_N else OID_INT8 if i < ROWS_IDS else OID_BYTEA
        if not pg_array_of(columns[i], kind, &r.at[i]) or r.at[i].left != r.at[0].left:
            return False
    return True

cdef void readentry_unreadable(ReadCall* c, ReadEntry* e) noexcept nogil:
    # Ends the entry at an unreadable row. Records returned before it remain; an entry without records gets an error.
    c.unreadable = True
    e.spent = True
    if e.records == 0:
        e.error = slice_lit(b"UNREADABLE")

cdef bint readentry_row(ReadCall* c, ReadEntry* e) noexcept nogil:
    # Opens the next row with a record at or after `next`. Returns False if there is none.
    cdef Slice ids, body, meta
    cdef int32_t count = 0
    while e.n_rows > 0:
        if not pg_next8(&e.rows.at[ROWS_BASE], &e.offset):
            e.rows += 1
            e.n_rows -= 1
            continue
        if not (pg_next4(&e.rows.at[ROWS_N], &count) and pg_next8(&e.rows.at[ROWS_CREATED], &e.created_us)
                and pg_next(&e.rows.at[ROWS_IDS], &ids) and pg_next(&e.rows.at[ROWS_BODY], &body)
                and pg_next(&e.rows.at[ROWS_META], &meta)):
            readentry_unreadable(c, e)
            return False
        if 0 < count and e.offset + count <= e.next:
            continue
        if not batchrow_open(&e.row, ids, body, meta, count, &c.unzip):
            readentry_unreadable(c, e)
            return False
        if e.offset < e.next:
            batchrow_seek(&e.row, <int>(e.next - e.offset))
            e.offset = e.next
        e.open = True
        return True
    return False

cdef bint readentry_behind(ReadCall* c) noexcept nogil:
    # Returns True if there are more records than were returned.
    cdef int i
    for i in range(c.n):
        if c.entries[i].error.n == 0 and c.entries[i].next < c.entries[i].head and c.entries[i].next < c.entries[i].end:
            return True
    return False

cdef bint readentry_next(ReadCall* c, ReadEntry* e, size_t written, ReadRecord* out) noexcept nogil:
    # Reads the entry's next record, without erased ones. Returns False at the end or when a budget is used up. The
    # first record of a call is returned whatever its size, so that every call makes progress. An entry's first record
    # must fit into the call's budget.
    cdef Extras* x = &out.extras
    cdef int64_t size
    if e.spent or e.error.n or c.left <= 0:
        return False
    if e.next >= e.end:
        return False
    while True:
        if not e.open and not readentry_row(c, e):
            return False
        if not batchrow_record(&e.row, &out.id, &out.payload, x):
            readentry_unreadable(c, e)
            return False
        if out.payload.n:
            break
        e.erased += 1
        e.offset += 1
        e.next = e.offset
        e.open = e.row.i < e.row.n
        if e.next >= e.end:
            return False
    size = <int64_t>(out.payload.n + x.headers.n)
    if e.records and size > e.most:
        e.spent = True
        return False
    if c.records and (size > c.left or written > READ_ANSWER_MOST):
        c.left = 0            # later entries return empty, and are asked for again
        return False
    out.offset = e.offset
    out.created_us = e.created_us - e.row.age_us
    e.offset += 1
    e.next = e.offset
    e.open = e.row.i < e.row.n
    e.records += 1
    e.most -= size
    c.records += 1
    c.bytes += size
    c.left -= size
    if x.seal.n or e.sealed:
        seal_reveal(&c.seal, e.queue, x.seal, &out.payload)
    return True

# ---- JSON and lines --------------------------------------------------------------------------------------------------
# One answer with an entry per requested entry; or one line per record, then a line with the entries.

cdef struct ReadTime:
    int64_t us                # moment that `text` spells
    char[28] text

cdef void readentry_json(ReadCall* c, Buf* b) noexcept nogil:
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
            buf_room(b, r.payload.n + r.extras.headers.n + 160)
            buf_text(b, b"{\"offset\":" if e.records == 1 else b",{\"offset\":")
            readentry_record(b, &r, &time, False)
        buf_text(b, b"],")
        if e.erased:              # the last record does not show the next offset
            member_int(b, b"\"nextOffset\":", e.next)
            buf_byte(b, b',')
        readentry_marks(b, e)
    buf_text(b, b"]}")

cdef void readentry_ndjson(ReadCall* c, Buf* b) noexcept nogil:
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
            buf_room(b, r.payload.n + r.extras.headers.n + names_n + 160)
            if names_n == 0:
                names = b.len
                readentry_head(b, e)
                buf_text(b, b",\"offset\":")
                names_n = b.len - names
            elif buf_room(b, names_n):       # the names are written once per entry, then copied within the answer
                memcpy(b.data + b.len, b.data + names, names_n)
                b.len += names_n
            readentry_record(b, &r, &time, True)
            buf_byte(b, b'\n')
    readentry_list(c, b)
    buf_byte(b, b'\n')

cdef void readentry_list(ReadCall* c, Buf* b) noexcept nogil:
    # Writes the entries without their records, but with their next offsets, for formats that hold only records.
    cdef ReadEntry* e
    cdef int i
    buf_text(b, b"{\"entries\":[")
    for i in range(c.n):
        e = &c.entries[i]
        if i:
            buf_byte(b, b',')
        readentry_head(b, e)
        member_int(b, b",\"nextOffset\":", e.next)
        buf_byte(b, b',')
        readentry_marks(b, e)
    buf_text(b, b"]}")

cdef void readentry_head(Buf* b, ReadEntry* e) noexcept nogil:
    member_text(b, b"{\"queue\":", e.queue)
    member_text(b, b",\"partition\":", e.partition)

cdef void readentry_marks(Buf* b, ReadEntry* e) noexcept nogil:
    buf_text(b, b"\"highWatermark\":")
    if e.head < 0:
        buf_text(b, b"null,\"logStartOffset\":null")
    else:
        buf_int(b, e.head)
        member_int(b, b",\"logStartOffset\":", e.floor)
    if e.erased:
        member_int(b, b",\"erased\":", e.erased)
    if e.error.n:
        member_text(b, b",\"error\":", e.error)
    buf_byte(b, b'}')

cdef void readentry_record(Buf* b, ReadRecord* r, ReadTime* t, bint on_line) noexcept nogil:
    # Writes a record from the value of its offset on. on_line: without line ends in its payload. t keeps the text of a
    # time, because all records of one row have the same time.
    cdef size_t at
    buf_int(b, r.offset)
    buf_text(b, b",\"transactionId\":")
    if r.extras.text.n:
        text_escape(b, r.extras.text)
    else:
        text_uuid(b, r.id)
    buf_text(b, b",\"payload\":")
    at = b.len
    buf_slice(b, r.payload)
    if on_line:
        popreply_feed_flatten(b, at)
    if t.text[0] == 0 or t.us != r.created_us:
        clock_format(r.created_us, 6, t.text)
        t.us = r.created_us
    buf_text(b, b",\"ts\":\"")
    buf_put(b, t.text, 27)
    buf_byte(b, b'"')
    readentry_beside(b, r)
    buf_byte(b, b'}')

cdef void readentry_beside(Buf* b, ReadRecord* r) noexcept nogil:
    # Writes the sender's headers, and the members of a record's headers that give the origin of a redriven dead letter.
    cdef Json j
    cdef Slice key, value
    cdef bint first = True
    if r.extras.headers.n == 0:
        return
    json_object(&j, r.extras.headers)
    while json_member(&j, &first, &key) and json_skip(&j, &value):
        if member_is(key, b"headers") or key.n > 7 and memcmp(key.p + 1, b"origin", 6) == 0:
            buf_byte(b, b',')
            buf_slice(b, key)
            buf_byte(b, b':')
            buf_slice(b, value)

# ---- CloudEvents -----------------------------------------------------------------------------------------------------
# An array of the records of all entries, in order. Marks and errors of entries appear only in the other formats.

cdef void readentry_events(ReadCall* c, Buf* b) noexcept nogil:
    cdef ReadRecord r
    cdef PopMessage m
    cdef ReadEntry* e
    cdef int i
    memset(&m, 0, sizeof(m))
    buf_byte(b, b'[')
    for i in range(c.n):
        e = &c.entries[i]
        m.queue = e.queue
        m.partition = e.partition
        while readentry_next(c, e, b.len, &r):
            m.payload = r.payload
            m.extras = r.extras
            memcpy(m.record_id, r.id, 16)
            m.created_us = r.created_us
            m.offset = r.offset
            eventform_put(b, &m, c.records == 1)
    buf_byte(b, b']')
