# The log read for Python. In: the bytes of rows. Out: the bytes of an answer, columns of offsets, ids as texts. The GIL
# is held only to read the arguments. Owns nothing. No locks.

cdef tuple READ_COLUMNS = ("queue", "partition", "offset", "ts", "transactionId", "payload", "id", "headers")

cdef inline Slice read_slice(bytes b) noexcept:
    return slice_of(b, len(b)) if b is not None else slice_of(NULL, 0)

def read_answer(str form, list entries, int64_t most, tuple columns=None, list ends=None, list numbers=None):
    """The answer of a log read: (its bytes, number of records, bytes of their payloads, whether there is more than was
    given, whether a row was unreadable).

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
        if out.failed:
            raise MemoryError()
        return <bytes>out.data[:out.len], c.records, c.bytes, bool(readentry_behind(&c)), bool(c.unreadable)
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
