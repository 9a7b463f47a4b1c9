# Records as one Arrow IPC stream: schema (its metadata tells the entries: marks, errors, where to go on), the two
# dictionaries, one record batch, the end. Columns: queue and partition (dictionaries of utf8, indices int32), offset
# (int64), ts (timestamp, µs, UTC), transactionId and payload (utf8). No column has nulls.

cdef enum:
    IPC_V5 = 4
    IPC_SCHEMA = 1          # kinds of messages
    IPC_DICTIONARY = 2
    IPC_RECORDS = 3
    IPC_INT = 2             # types
    IPC_UTF8 = 5
    IPC_TIMESTAMP = 10
    IPC_COLUMNS = 6
    IPC_BUFFERS = 14        # of a record batch: a validity each, two dictionaries, two int64, two texts

cdef struct IpcText:
    Buf ends                  # int32: where each text begins, and where the last ends
    Buf bytes

cdef struct IpcOut:
    IpcText queues          # dictionaries
    IpcText partitions
    Buf queue                 # int32
    Buf partition
    Buf offset                # int64
    Buf ts
    IpcText txid
    IpcText payload

cdef inline void ipctext_begin(IpcText* t) noexcept nogil:
    buf_init(&t.ends)
    buf_init(&t.bytes)
    buf_le32(&t.ends, 0)

cdef inline void ipctext_free(IpcText* t) noexcept nogil:
    buf_free(&t.ends)
    buf_free(&t.bytes)

cdef inline void ipctext_end(IpcText* t) noexcept nogil:
    # What was appended to `bytes` is a text.
    buf_le32(&t.ends, <uint32_t>t.bytes.len)

cdef inline bint ipctext_failed(IpcText* t) noexcept nogil:
    return t.ends.failed or t.bytes.failed

cdef inline int64_t ipctext_count(IpcText* t) noexcept nogil:
    return <int64_t>(t.ends.len // 4) - 1

cdef void ipc_open(IpcOut* a) noexcept nogil:
    memset(a, 0, sizeof(IpcOut))
    ipctext_begin(&a.queues)
    ipctext_begin(&a.partitions)
    ipctext_begin(&a.txid)
    ipctext_begin(&a.payload)

cdef void ipc_close(IpcOut* a) noexcept nogil:
    ipctext_free(&a.queues)
    ipctext_free(&a.partitions)
    buf_free(&a.queue)
    buf_free(&a.partition)
    buf_free(&a.offset)
    buf_free(&a.ts)
    ipctext_free(&a.txid)
    ipctext_free(&a.payload)

cdef bint ipc_failed(IpcOut* a) noexcept nogil:
    return (ipctext_failed(&a.queues) or ipctext_failed(&a.partitions) or a.queue.failed or a.partition.failed
            or a.offset.failed or a.ts.failed or ipctext_failed(&a.txid) or ipctext_failed(&a.payload))

# ---- columns -------------------------------------------------------------------------------------------------------

cdef void ipc_gather(IpcOut* a, ReadCall* c) noexcept nogil:
    cdef ReadRecord r
    cdef ReadEntry* e
    cdef Slice queue = slice_of(NULL, 0)
    cdef char* at
    cdef int i
    for i in range(c.n):
        e = &c.entries[i]
        while readentry_next(c, e, a.payload.bytes.len + a.txid.bytes.len + 32 * c.records, &r):
            if e.records == 1:
                if queue.p == NULL or not slice_eq(queue, e.queue):
                    queue = e.queue
                    buf_slice(&a.queues.bytes, queue)
                    ipctext_end(&a.queues)
                buf_slice(&a.partitions.bytes, e.partition)
                ipctext_end(&a.partitions)
            buf_le32(&a.queue, <uint32_t>ipctext_count(&a.queues) - 1)
            buf_le32(&a.partition, <uint32_t>ipctext_count(&a.partitions) - 1)
            buf_put(&a.offset, &r.offset, 8)
            buf_put(&a.ts, &r.created_us, 8)
            if r.text.n:
                buf_slice(&a.txid.bytes, r.text)
            else:
                at = buf_reserve(&a.txid.bytes, 36)
                if at != NULL:
                    uuid_format(r.id, at)
            ipctext_end(&a.txid)
            buf_slice(&a.payload.bytes, r.payload)
            ipctext_end(&a.payload)

# ---- messages ------------------------------------------------------------------------------------------------------

cdef size_t ipc_message(Buf* b, uint8_t kind, int64_t body, FbsTable* t) noexcept nogil:
    # Begins a message; t: its table, of which field 2 is the header still to be written. Returns where the flatbuffer starts.
    cdef size_t base
    fbs_pad(b, 0, 8)
    buf_le32(b, <uint32_t>0xffffffff)
    buf_le32(b, 0)                        # length of the metadata: ipc_message_end
    base = b.len
    buf_le32(b, 0)                        # the root's reference
    fbs_table(b, base, base, b"2148", t)
    fbs_short(b, t.field[0], IPC_V5)
    fbs_byte(b, t.field[1], kind)
    fbs_long(b, t.field[3], body)
    return base

cdef void ipc_message_end(Buf* b, size_t base) noexcept nogil:
    # What follows is the body.
    fbs_pad(b, base, 8)
    fbs_int(b, base - 4, <int32_t>(b.len - base))

cdef void ipc_int(Buf* b, size_t base, size_t slot, int bits) noexcept nogil:
    cdef FbsTable t
    fbs_table(b, base, slot, b"41", &t)
    fbs_int(b, t.field[0], bits)
    fbs_byte(b, t.field[1], 1)           # signed

cdef void ipc_field(Buf* b, size_t base, size_t slot, const char* name, uint8_t kind, int dictionary) noexcept nogil:
    # dictionary: its id, or -1.
    cdef FbsTable t, of, coding
    fbs_table(b, base, slot, b"411444" if dictionary >= 0 else b"411404", &t)
    fbs_byte(b, t.field[2], kind)
    fbs_string(b, base, t.field[0], slice_lit(name))
    if kind == IPC_INT:
        ipc_int(b, base, t.field[3], 64)
    elif kind == IPC_TIMESTAMP:
        fbs_table(b, base, t.field[3], b"24", &of)
        fbs_short(b, of.field[0], 2)     # microseconds
        fbs_string(b, base, of.field[1], slice_lit(b"UTC"))
    else:
        fbs_table(b, base, t.field[3], b"", &of)
    if dictionary >= 0:
        fbs_table(b, base, t.field[4], b"84", &coding)
        fbs_long(b, coding.field[0], dictionary)
        ipc_int(b, base, coding.field[1], 32)
    fbs_vector(b, base, t.field[5], 0, 4)

cdef void ipc_schema(Buf* b, Slice entries) noexcept nogil:
    # entries: the value of the metadata `queend.entries`.
    cdef FbsTable message, schema, pair
    cdef size_t base = ipc_message(b, IPC_SCHEMA, 0, &message)
    cdef size_t at
    fbs_table(b, base, message.field[2], b"244", &schema)
    at = fbs_vector(b, base, schema.field[1], IPC_COLUMNS, 4)
    ipc_field(b, base, at, b"queue", IPC_UTF8, 0)
    ipc_field(b, base, at + 4, b"partition", IPC_UTF8, 1)
    ipc_field(b, base, at + 8, b"offset", IPC_INT, -1)
    ipc_field(b, base, at + 12, b"ts", IPC_TIMESTAMP, -1)
    ipc_field(b, base, at + 16, b"transactionId", IPC_UTF8, -1)
    ipc_field(b, base, at + 20, b"payload", IPC_UTF8, -1)
    at = fbs_vector(b, base, schema.field[2], 1, 4)
    fbs_table(b, base, at, b"44", &pair)
    fbs_string(b, base, pair.field[0], slice_lit(b"queend.entries"))
    fbs_string(b, base, pair.field[1], entries)
    ipc_message_end(b, base)

cdef inline int64_t ipc_padded(size_t n) noexcept nogil:
    return <int64_t>((n + 7) & ~<size_t>7)

cdef void ipc_batch(Buf* b, size_t base, size_t slot, int64_t length, int columns, const size_t* sizes, int n) noexcept nogil:
    # The table of a record batch whose body has n buffers of these sizes, each padded.
    cdef FbsTable t
    cdef size_t at
    cdef int64_t begin = 0
    cdef int i
    fbs_table(b, base, slot, b"844", &t)
    fbs_long(b, t.field[0], length)
    at = fbs_vector(b, base, t.field[1], columns, 16)
    for i in range(columns):
        fbs_long(b, at + 16 * i, length)         # and no nulls
    at = fbs_vector(b, base, t.field[2], n, 16)
    for i in range(n):
        fbs_long(b, at + 16 * i, begin)
        fbs_long(b, at + 16 * i + 8, <int64_t>sizes[i])
        begin += ipc_padded(sizes[i])

cdef inline void ipc_body(Buf* b, Buf* part) noexcept nogil:
    buf_put(b, part.data, part.len)
    fbs_pad(b, 0, 8)

cdef void ipc_dictionary(Buf* b, int id, IpcText* t) noexcept nogil:
    cdef FbsTable message, dictionary
    cdef size_t[3] sizes
    cdef size_t base = ipc_message(b, IPC_DICTIONARY, ipc_padded(t.ends.len) + ipc_padded(t.bytes.len), &message)
    sizes[0] = 0
    sizes[1] = t.ends.len
    sizes[2] = t.bytes.len
    fbs_table(b, base, message.field[2], b"84", &dictionary)
    fbs_long(b, dictionary.field[0], id)
    ipc_batch(b, base, dictionary.field[1], ipctext_count(t), 1, sizes, 3)
    ipc_message_end(b, base)
    ipc_body(b, &t.ends)
    ipc_body(b, &t.bytes)

cdef void ipc_records(Buf* b, IpcOut* a) noexcept nogil:
    cdef FbsTable message
    cdef Buf* parts[8]
    cdef size_t[IPC_BUFFERS] sizes
    cdef int64_t body = 0
    cdef size_t base
    cdef int i, k = 0
    parts[0] = &a.queue
    parts[1] = &a.partition
    parts[2] = &a.offset
    parts[3] = &a.ts
    parts[4] = &a.txid.ends
    parts[5] = &a.txid.bytes
    parts[6] = &a.payload.ends
    parts[7] = &a.payload.bytes
    for i in range(8):
        body += ipc_padded(parts[i].len)
        if i != 5 and i != 7:
            sizes[k] = 0                  # validity: nothing is null
            k += 1
        sizes[k] = parts[i].len
        k += 1
    base = ipc_message(b, IPC_RECORDS, body, &message)
    ipc_batch(b, base, message.field[2], <int64_t>(a.offset.len // 8), IPC_COLUMNS, sizes, k)
    ipc_message_end(b, base)
    for i in range(8):
        ipc_body(b, parts[i])

cdef void read_arrow(ReadCall* c, Buf* b) noexcept nogil:
    cdef IpcOut a
    cdef Buf entries
    buf_init(&entries)
    ipc_open(&a)
    ipc_gather(&a, c)
    read_entries(c, &entries)             # after the records: it tells how far they go
    ipc_schema(b, slice_of(entries.data, entries.len))
    ipc_dictionary(b, 0, &a.queues)
    ipc_dictionary(b, 1, &a.partitions)
    ipc_records(b, &a)
    buf_le32(b, <uint32_t>0xffffffff)
    buf_le32(b, 0)
    if entries.failed or ipc_failed(&a):
        b.failed = True
    buf_free(&entries)
    ipc_close(&a)
