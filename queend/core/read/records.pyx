# The log read by offset: the rows queend.read_rows found, turned into records one after the other, within the budgets
# of the call. No I/O. What is borrowed from the rows lives as long as the caller's bytes.

cdef enum:
    READ_ANSWER_MOST = 67108864       # bytes of an answer after which no record is begun

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
    Slice error               # empty: none
    int64_t head              # marks, -1: not known
    int64_t floor
    int64_t end               # no record at or behind it is given
    int32_t number            # of the partition, where an answer spells message ids
    int64_t next              # first offset wanted, then the one behind the last record given
    int64_t most              # payload bytes still allowed
    int64_t records           # given
    int64_t erased            # passed over: they were erased
    ReadRows* rows            # those not yet opened
    int n_rows
    bint open                 # `row` has records left
    bint spent                # a budget ended it
    BatchRow row
    int64_t offset            # of the record that comes next in `row`
    int64_t created_us        # of `row`
    bint sealed               # the queue is encrypted: also what names no key is opened

cdef struct ReadCall:
    ReadEntry* entries
    int n
    int wanted                # columns of an Arrow answer: bits by IPC_QUEUE and so on
    int64_t left              # payload bytes still allowed in all
    int64_t records
    int64_t bytes             # of payload given
    bint unreadable           # a row was in no format of this version
    Unzip unzip               # one row is open at a time
    Seal seal

cdef struct ReadRecord:
    int64_t offset
    int64_t created_us
    const unsigned char* id
    Slice text                # the transactionId, empty: it is the id as a UUID
    Extras extras
    Slice payload

cdef bint readrows_open(ReadRows* r, const Slice* columns) noexcept nogil:
    # Binary arrays as PostgreSQL sent them; False when they do not belong together.
    cdef int i
    cdef uint32_t kind
    for i in range(ROWS_COLUMNS):
        kind = OID_INT4 if i == ROWS_N else OID_INT8 if i < ROWS_IDS else OID_BYTEA
        if not pg_array_of(columns[i], kind, &r.at[i]) or r.at[i].left != r.at[0].left:
            return False
    return True

cdef void readentry_unreadable(ReadCall* c, ReadEntry* e) noexcept nogil:
    # What was given before the row stands; who asks for the row itself is told.
    c.unreadable = True
    e.spent = True
    if e.records == 0:
        e.error = slice_lit(b"UNREADABLE")

cdef bint readentry_row(ReadCall* c, ReadEntry* e) noexcept nogil:
    # Opens the next row that has a record at or behind `next`; False when there is none.
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

cdef bint readcall_behind(ReadCall* c) noexcept nogil:
    # Is there more than was given?
    cdef int i
    for i in range(c.n):
        if c.entries[i].error.n == 0 and c.entries[i].next < c.entries[i].head and c.entries[i].next < c.entries[i].end:
            return True
    return False

cdef bint readentry_next(ReadCall* c, ReadEntry* e, size_t written, ReadRecord* out) noexcept nogil:
    # The next record of an entry that was not erased; False at its end or when a budget is spent. The first record of
    # the call is given whatever its size, so that every call gets on; the first of an entry only if the call's own
    # budget has room for it.
    cdef Extras x
    if e.spent or e.error.n or c.left <= 0:
        return False
    if e.next >= e.end:
        return False
    while True:
        if not e.open and not readentry_row(c, e):
            return False
        if not batchrow_record(&e.row, &out.id, &out.payload, &x):
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
    out.text = x.text
    out.extras = x
    if e.records and <int64_t>out.payload.n > e.most:
        e.spent = True
        return False
    if c.records and (<int64_t>out.payload.n > c.left or written > READ_ANSWER_MOST):
        c.left = 0            # the entries that follow come back empty, and are asked for again
        return False
    out.offset = e.offset
    out.created_us = e.created_us - e.row.age_us
    e.offset += 1
    e.next = e.offset
    e.open = e.row.i < e.row.n
    e.records += 1
    e.most -= out.payload.n
    c.records += 1
    c.bytes += out.payload.n
    c.left -= out.payload.n
    if x.seal.n or e.sealed:
        seal_reveal(&c.seal, e.queue, x.seal, &out.payload)
    return True
