# The log read for Python: answers of reads, heads and floors, searches of payloads. In: the bytes of rows; texts. Out:
# the bytes of an answer, columns of offsets, hits, ids and moments as texts. The GIL is held only to read the
# arguments, and for hits. Owns buffers while a call lasts. No locks.

cdef tuple READ_COLUMNS = ("queue", "partition", "offset", "ts", "transactionId", "payload", "id", "headers")

cdef inline Slice read_slice(bytes b) noexcept:
    return slice_of(b, len(b)) if b is not None else slice_of(NULL, 0)

cdef class ReadBlock:
    """The bytes of a large answer, behind REPLY_ROOM bytes for its head. The bridge takes this memory over, unless
    another view reads it."""
    cdef char* memory
    cdef Py_ssize_t size
    cdef int views

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.memory == NULL:
            raise BufferError("the answer has left")
        PyBuffer_FillInfo(view, self, self.memory + REPLY_ROOM, self.size, True, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.views -= 1

    def __dealloc__(self):
        free(self.memory)

cdef object read_body(Buf* b):
    # Returns the bytes behind REPLY_ROOM: bytes up to OUT_KEEP, else a memoryview of the memory itself.
    cdef ReadBlock block
    if b.failed:
        raise MemoryError()
    if b.len - REPLY_ROOM <= OUT_KEEP:
        return <bytes>b.data[REPLY_ROOM:b.len]
    block = ReadBlock()
    block.memory = b.data
    block.size = <Py_ssize_t>(b.len - REPLY_ROOM)
    buf_init(b)
    return memoryview(block)

def read_answer(str form, list entries, int64_t most, tuple columns=None, list ends=None, list numbers=None):
    """The answer of a log read: (its bytes, number of records, bytes of their payloads, whether there is more than was
    given, whether a row was unreadable). More than OUT_KEEP bytes are a memoryview, which bridge_reply sends uncopied.

    form: json, ndjson, arrow or events. entries: (queue, partition, error or None, head or -1, floor, first offset,
    most payload bytes, rows), texts as UTF-8 bytes; rows: a list of (base, n, created_at, ids, body, meta), the columns
    of queend.read_rows as PostgreSQL's binary format has them. most: payload bytes of all entries. columns: names of
    those of an Arrow answer. ends: of each entry, the offset at which it ends. numbers: of each entry, its partition's
    number, for the column id. ValueError for a form that is none or rows that do not belong together, MemoryError.
    """
    cdef void (*write)(ReadCall* c, Buf* b) noexcept nogil
    cdef ReadCall c
    cdef ReadRows* rows = NULL
    cdef ReadEntry* e
    cdef Slice[ROWS_COLUMNS] cells
    cdef Buf out
    cdef int i
    cdef size_t n_rows = 0
    if form == "json":
        write = readentry_json
    elif form == "ndjson":
        write = readentry_ndjson
    elif form == "events":
        write = readentry_events
    elif form == "arrow":
        write = ipc_answer
    else:
        raise ValueError(f"no such format: {form}")
    for entry in entries:
        n_rows += len(entry[7])
    memset(&c, 0, sizeof(c))
    buf_init(&out)
    buf_reserve(&out, REPLY_ROOM)
    c.left = most
    c.wanted = IPC_USUAL if columns is None else read_columns(columns)
    try:
        c.entries = <ReadEntry*>calloc(len(entries) + 1, sizeof(ReadEntry))
        rows = <ReadRows*>malloc((n_rows + 1) * sizeof(ReadRows))
        if c.entries == NULL or rows == NULL:
            raise MemoryError()
        n_rows = 0
        for queue, partition, error, head, floor, offset, entry_most, parts in entries:
            e = &c.entries[c.n]
            e.queue = read_slice(queue)
            e.partition = read_slice(partition)
            e.error = read_slice(error)
            e.head = head
            e.floor = floor
            e.next = offset
            e.most = entry_most
            e.rows = &rows[n_rows]
            e.end = ends[c.n] if ends is not None else INT64_MAX
            e.number = numbers[c.n] if numbers is not None else 0
            for part in parts:
                for i in range(ROWS_COLUMNS):
                    cells[i] = read_slice(part[i])
                if not readentry_rows_open(&rows[n_rows], cells):
                    raise ValueError("columns that do not belong together")
                n_rows += 1
                e.n_rows += 1
            c.n += 1
        with nogil:
            read_sealed(&c)
            write(&c, &out)
        return read_body(&out), c.records, c.bytes, bool(readentry_behind(&c)), bool(c.unreadable)
    finally:
        unzip_close(&c.unzip)
        seal_close(&c.seal)
        buf_free(&out)
        free(rows)
        free(c.entries)

cdef int read_columns(tuple names) except -1:
    cdef int bits = 0
    for name in names:
        bits |= 1 << READ_COLUMNS.index(name)
    return bits

# Columns of offsets_answer.
cdef enum:
    OFFSETS_NUMBER = 0
    OFFSETS_NAME
    OFFSETS_HEAD
    OFFSETS_FLOOR
    OFFSETS_AT                # only if timed
    OFFSETS_COLUMNS

def offsets_answer(bytes number, bytes name, bytes head, bytes floor, bytes at, bint timed):
    """Heads and floors of partitions as an Arrow stream: number (int32), name, highWatermark, logStartOffset and, if
    timed, offset.

    Arrays of the same length in PostgreSQL's binary format, None: empty; int4, text, and int8 each. ValueError for
    anything else.
    """
    cdef PgIter[OFFSETS_COLUMNS] arrays
    cdef IpcColumn[OFFSETS_COLUMNS] columns
    cdef IpcColumn* order[OFFSETS_COLUMNS]
    cdef Buf out
    cdef Slice value
    cdef int64_t whole
    cdef int32_t narrow
    cdef int64_t rows
    cdef int n = OFFSETS_COLUMNS if timed else OFFSETS_AT
    cdef int i
    for i, one in enumerate((number, name, head, floor, at)[:n]):
        if not pg_array_of(read_slice(one), OID_INT4 if i == OFFSETS_NUMBER else OID_TEXT if i == OFFSETS_NAME
                           else OID_INT8, &arrays[i]):
            raise ValueError("arrays of another type")
    rows = arrays[OFFSETS_NUMBER].left
    for i in range(n):
        if arrays[i].left != rows:
            raise ValueError("arrays that do not belong together")
    buf_init(&out)
    ipc_column_open(&columns[OFFSETS_NUMBER], b"number", ARROW_TYPE_INT, 32, False)
    ipc_column_open(&columns[OFFSETS_NAME], b"name", ARROW_TYPE_UTF8, 0, False)
    ipc_column_open(&columns[OFFSETS_HEAD], b"highWatermark", ARROW_TYPE_INT, 64, False)
    ipc_column_open(&columns[OFFSETS_FLOOR], b"logStartOffset", ARROW_TYPE_INT, 64, False)
    ipc_column_open(&columns[OFFSETS_AT], b"offset", ARROW_TYPE_INT, 64, False)
    with nogil:
        while pg_next4(&arrays[OFFSETS_NUMBER], &narrow):
            buf_le32(&columns[OFFSETS_NUMBER].values, <uint32_t>narrow)
        while pg_next(&arrays[OFFSETS_NAME], &value):
            ipc_column_text(&columns[OFFSETS_NAME], value)
        for i in range(OFFSETS_HEAD, n):
            while pg_next8(&arrays[i], &whole):
                buf_put(&columns[i].values, &whole, 8)
        for i in range(n):
            order[i] = &columns[i]
            if ipc_column_failed(&columns[i]):
                out.failed = True
        ipc_stream(&out, order, n, rows, NULL, slice_of(NULL, 0))
        for i in range(OFFSETS_COLUMNS):
            ipc_column_close(&columns[i])
    try:
        if out.failed:
            raise MemoryError()
        return <bytes>out.data[:out.len]
    finally:
        buf_free(&out)

cdef void read_sealed(ReadCall* c) noexcept nogil:
    # Marks the entries whose queue is encrypted, as far as this process knows.
    cdef Queue* q
    cdef int i
    if sealring.n == 0 or not catalog.loaded:
        return
    uv_rwlock_rdlock(&catalog.lock)
    for i in range(c.n):
        q = catalog_queue(c.entries[i].queue)
        c.entries[i].sealed = q != NULL and q.sealed
    uv_rwlock_rdunlock(&catalog.lock)

# ---- searches --------------------------------------------------------------------------------------------------------
# Finds texts in payloads and headers of stored rows, which are unpacked and decrypted first.

cdef enum:
    SEARCH_TEXTS = 9          # spellings of the text
    SEARCH_BEFORE = 60        # bytes of an excerpt before the hit
    SEARCH_AFTER = 120        # bytes of an excerpt from the hit on

cdef struct Search:
    Slice queue
    bint sealed               # the queue is encrypted: payloads without a key id are decrypted as well
    Slice[9] texts
    int n_texts
    int64_t since             # skips records stored earlier,
    int64_t until             # or later,
    int64_t below             # or at or after this offset of the open row
    BatchRow row
    int64_t offset            # of the next record
    int64_t created_us
    int64_t first             # first examined offset of the row
    int64_t last              # last examined offset, -1: none
    int64_t unread            # records that could not be examined
    Unzip unzip
    Seal seal

cdef struct SearchHit:
    int64_t offset
    int64_t stored_us
    const unsigned char* id
    Slice text                # the transactionId, empty: the id as a UUID
    Slice payload
    Slice within              # the payload, or the sender's headers, in which the hit is
    const char* at            # the hit

cdef bint read_search_next(Search* s, SearchHit* f) noexcept nogil:
    # Finds the next record of the open row that has one of the texts in its payload or in its sender's headers. Returns
    # False at the end. The hit is valid until the next call.
    cdef Extras x
    cdef EventHeaders h
    cdef int result
    while s.row.i < s.row.n:
        if not batchrow_record(&s.row, &f.id, &f.payload, &x):
            s.unread += s.row.n - s.row.i
            s.row.i = s.row.n
            break
        f.offset = s.offset
        f.stored_us = s.created_us - s.row.age_us
        f.text = x.text
        s.offset += 1
        if f.offset >= s.below or f.stored_us < s.since or f.stored_us > s.until or f.payload.n == 0:
            continue
        if s.last < 0:
            s.first = f.offset
        s.last = f.offset
        if x.seal.n or s.sealed:
            result = seal_reveal(&s.seal, s.queue, x.seal, &f.payload)
            if result != SEAL_OPENED and result != SEAL_PLAIN:
                s.unread += 1
                continue
        if read_search_in(s, f, f.payload):
            return True
        if x.headers.n:
            eventform_headers(x.headers, &h)
            if h.headers.n and read_search_in(s, f, h.headers):
                return True
    return False

cdef inline bint read_search_in(Search* s, SearchHit* f, Slice text) noexcept nogil:
    # Returns True if a text contains one of those that are searched.
    cdef int i
    f.within = text
    for i in range(s.n_texts):
        f.at = <const char*>memmem(text.p, text.n, s.texts[i].p, s.texts[i].n)
        if f.at != NULL:
            return True
    return False

cdef tuple read_search_result(Search* s, SearchHit* f, int32_t partition):
    cdef size_t before = f.at - f.within.p
    cdef size_t after = f.within.n - before
    cdef unsigned char[16] id
    cdef char[36] name
    cdef char[36] message
    if before > SEARCH_BEFORE:
        before = SEARCH_BEFORE
    if after > SEARCH_AFTER:
        after = SEARCH_AFTER
    if s.row.message != NULL:
        memcpy(id, s.row.message, 16)
    else:
        uuid_message(f.stored_us, partition, f.offset, id)
    uuid_format(f.id, name)
    uuid_format(id, message)
    return (partition, f.offset, f.stored_us,
            f.text.p[:f.text.n].decode("utf-8", "replace") if f.text.n else name[:36].decode(), message[:36].decode(),
            (f.at - before)[:before + after].decode("utf-8", "ignore"))

# When undecryptable payloads were last logged, kept from call to call. Guarded by the GIL.
cdef int64_t read_told_us
cdef int64_t read_plain_us

def payloads_search(bytes queue, bint sealed, list texts, list rows, int64_t since, int64_t until, int64_t below,
                    int most):
    """Messages whose payload or headers have one of these texts: ([(partition, offset, stored at, transactionId,
    message id, excerpt)], how many were looked at, how many could not be, the place of the last of them where there was
    no room for more: (created_at of its row, partition, offset), else None).

    queue: the name of theirs, as bytes; sealed: it is encrypted. texts: 1 to 9, as bytes. rows: (partition, base, n,
    created_at, ids, body, meta) of the log, in the order in which they are wanted; of each, the last record comes
    first. since, until: µs, inclusive. below: of the first row, only records before this offset. most: so many finds.
    """
    cdef Search s
    cdef SearchHit f
    cdef Slice row_ids, row_body, row_meta
    cdef bint there
    cdef int32_t partition
    cdef int64_t base, created_us, last, searched = 0
    global read_told_us, read_plain_us
    cdef int n
    cdef list found = [], here
    memset(&s, 0, sizeof(s))
    if not 0 < len(texts) <= SEARCH_TEXTS or not all(texts):
        raise ValueError("1 to 9 texts, none of them empty")
    for text in texts:
        s.texts[s.n_texts] = read_slice(text)
        s.n_texts += 1
    s.seal.told_us, s.seal.plain_us = read_told_us, read_plain_us
    s.queue = read_slice(queue)
    s.sealed = sealed
    s.since = since
    s.until = until
    s.below = below
    try:
        for partition, base, n, created_us, ids, body, meta in rows:
            s.offset = base
            s.created_us = created_us
            s.last = -1
            row_ids, row_body, row_meta = read_slice(ids), read_slice(body), read_slice(meta)
            with nogil:
                there = batchrow_open(&s.row, row_ids, row_body, row_meta, n, &s.unzip)
            here = []
            if not there:
                s.unread += n
            while there:
                with nogil:
                    there = read_search_next(&s, &f)
                if there:
                    here.append(read_search_result(&s, &f, partition))
            here.reverse()
            found += here[:most - len(found)]
            s.below = INT64_MAX
            if s.last >= 0:
                searched += s.last - s.first + 1
            if len(found) >= most:
                last = found[len(found) - 1][1]
                if s.last >= 0 and s.first < last:      # the row's first records come with the next call
                    searched -= last - s.first
                return found, searched, s.unread, (created_us, partition, last)
        return found, searched, s.unread, None
    finally:
        read_told_us, read_plain_us = s.seal.told_us, s.seal.plain_us
        unzip_close(&s.unzip)
        seal_close(&s.seal)

# ---- moments and ids -------------------------------------------------------------------------------------------------

def read_moment(bytes text):
    """Microseconds since the Unix epoch of a time in ISO 8601 (without a zone: UTC); None for anything else."""
    cdef int64_t us = 0
    return us if time_parse(slice_of(text, len(text)), &us) else None

def read_moment_text(int64_t us, int digits=6):
    """The moment as 2026-01-02T03:04:05.678901Z: always 21 characters and `digits`, 3 or 6."""
    cdef char[28] text
    if digits != 3 and digits != 6:
        raise ValueError("3 digits or 6")
    clock_format(us, digits, text)
    return (<bytes>text[:21 + digits]).decode()

def read_partition_id(bytes seed, int number):
    """How a partition's id is spelled on the wire."""
    return read_id(seed, b'p', number)

def read_queue_id(bytes seed, int number):
    """How a queue's id is spelled on the wire."""
    return read_id(seed, b'q', number)

cdef str read_id(bytes seed, char letter, int number):
    cdef unsigned char[16] id
    cdef char[36] text
    if len(seed) != 16:
        raise ValueError("the seed has 16 bytes")
    uuid_serial(<const unsigned char*><const char*>seed, letter, number, id)
    uuid_format(id, text)
    return (<bytes>text[:36]).decode()

def read_partition_number(bytes seed, bytes text):
    """The number in a partition id as it is spelled on the wire; None when it is not one of this database."""
    cdef unsigned char[16] id
    cdef int32_t number = 0
    if len(seed) != 16:
        raise ValueError("the seed has 16 bytes")
    if not uuid_parse(slice_of(text, len(text)), id):
        return None
    return number if uuid_partition_read(<const unsigned char*><const char*>seed, id, &number) else None
