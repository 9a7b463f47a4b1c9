# Records as one Arrow IPC stream: schema (its metadata tells the entries: marks, errors, where to go on), the two
# dictionaries, one record batch, the end. Columns: queue and partition (dictionaries of utf8, indices int32), offset
# (int64), ts (timestamp, µs, UTC), transactionId and payload (utf8). No column has nulls.

cdef enum:
    ARROW_V5 = 4
    ARROW_SCHEMA = 1          # kinds of messages
    ARROW_DICTIONARY = 2
    ARROW_RECORDS = 3
    ARROW_INT = 2             # types
    ARROW_UTF8 = 5
    ARROW_TIMESTAMP = 10
    ARROW_COLUMNS = 6
    ARROW_BUFFERS = 14        # of a record batch: a validity each, two dictionaries, two int64, two texts

cdef struct ArrowText:
    Buf ends                  # int32: where each text begins, and where the last ends
    Buf bytes

cdef struct ArrowOut:
    ArrowText queues          # dictionaries
    ArrowText partitions
    Buf queue                 # int32
    Buf partition
    Buf offset                # int64
    Buf ts
    ArrowText txid
    ArrowText payload

cdef inline void arrowtext_begin(ArrowText* t) noexcept nogil:
    buf_init(&t.ends)
    buf_init(&t.bytes)
    buf_le32(&t.ends, 0)

cdef inline void arrowtext_free(ArrowText* t) noexcept nogil:
    buf_free(&t.ends)
    buf_free(&t.bytes)

cdef inline void arrowtext_end(ArrowText* t) noexcept nogil:
    # What was appended to `bytes` is a text.
    buf_le32(&t.ends, <uint32_t>t.bytes.len)

cdef inline bint arrowtext_failed(ArrowText* t) noexcept nogil:
    return t.ends.failed or t.bytes.failed

cdef inline int64_t arrowtext_count(ArrowText* t) noexcept nogil:
    return <int64_t>(t.ends.len // 4) - 1

cdef void arrow_open(ArrowOut* a) noexcept nogil:
    memset(a, 0, sizeof(ArrowOut))
    arrowtext_begin(&a.queues)
    arrowtext_begin(&a.partitions)
    arrowtext_begin(&a.txid)
    arrowtext_begin(&a.payload)

cdef void arrow_close(ArrowOut* a) noexcept nogil:
    arrowtext_free(&a.queues)
    arrowtext_free(&a.partitions)
    buf_free(&a.queue)
    buf_free(&a.partition)
    buf_free(&a.offset)
    buf_free(&a.ts)
    arrowtext_free(&a.txid)
    arrowtext_free(&a.payload)

cdef bint arrow_failed(ArrowOut* a) noexcept nogil:
    return (arrowtext_failed(&a.queues) or arrowtext_failed(&a.partitions) or a.queue.failed or a.partition.failed
            or a.offset.failed or a.ts.failed or arrowtext_failed(&a.txid) or arrowtext_failed(&a.payload))

# ---- columns -------------------------------------------------------------------------------------------------------

cdef void arrow_gather(ArrowOut* a, ReadCall* c) noexcept nogil:
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
                    arrowtext_end(&a.queues)
                buf_slice(&a.partitions.bytes, e.partition)
                arrowtext_end(&a.partitions)
            buf_le32(&a.queue, <uint32_t>arrowtext_count(&a.queues) - 1)
            buf_le32(&a.partition, <uint32_t>arrowtext_count(&a.partitions) - 1)
            buf_put(&a.offset, &r.offset, 8)
            buf_put(&a.ts, &r.created_us, 8)
            if r.text.n:
                buf_slice(&a.txid.bytes, r.text)
            else:
                at = buf_reserve(&a.txid.bytes, 36)
                if at != NULL:
                    uuid_format(r.id, at)
            arrowtext_end(&a.txid)
            buf_slice(&a.payload.bytes, r.payload)
            arrowtext_end(&a.payload)

# ---- messages ------------------------------------------------------------------------------------------------------

cdef size_t arrow_message(Buf* b, uint8_t kind, int64_t body, FlatTable* t) noexcept nogil:
    # Begins a message; t: its table, of which field 2 is the header still to be written. Returns where the flatbuffer starts.
    cdef size_t base
    flat_pad(b, 0, 8)
    buf_le32(b, <uint32_t>0xffffffff)
    buf_le32(b, 0)                        # length of the metadata: arrow_message_end
    base = b.len
    buf_le32(b, 0)                        # the root's reference
    flat_table(b, base, base, b"2148", t)
    flat_short(b, t.field[0], ARROW_V5)
    flat_byte(b, t.field[1], kind)
    flat_long(b, t.field[3], body)
    return base

cdef void arrow_message_end(Buf* b, size_t base) noexcept nogil:
    # What follows is the body.
    flat_pad(b, base, 8)
    flat_int(b, base - 4, <int32_t>(b.len - base))

cdef void arrow_int(Buf* b, size_t base, size_t slot, int bits) noexcept nogil:
    cdef FlatTable t
    flat_table(b, base, slot, b"41", &t)
    flat_int(b, t.field[0], bits)
    flat_byte(b, t.field[1], 1)           # signed

cdef void arrow_field(Buf* b, size_t base, size_t slot, const char* name, uint8_t kind, int dictionary) noexcept nogil:
    # dictionary: its id, or -1.
    cdef FlatTable t, of, coding
    flat_table(b, base, slot, b"411444" if dictionary >= 0 else b"411404", &t)
    flat_byte(b, t.field[2], kind)
    flat_string(b, base, t.field[0], slice_lit(name))
    if kind == ARROW_INT:
        arrow_int(b, base, t.field[3], 64)
    elif kind == ARROW_TIMESTAMP:
        flat_table(b, base, t.field[3], b"24", &of)
        flat_short(b, of.field[0], 2)     # microseconds
        flat_string(b, base, of.field[1], slice_lit(b"UTC"))
    else:
        flat_table(b, base, t.field[3], b"", &of)
    if dictionary >= 0:
        flat_table(b, base, t.field[4], b"84", &coding)
        flat_long(b, coding.field[0], dictionary)
        arrow_int(b, base, coding.field[1], 32)
    flat_vector(b, base, t.field[5], 0, 4)

cdef void arrow_schema(Buf* b, Slice entries) noexcept nogil:
    # entries: the value of the metadata `queend.entries`.
    cdef FlatTable message, schema, pair
    cdef size_t base = arrow_message(b, ARROW_SCHEMA, 0, &message)
    cdef size_t at
    flat_table(b, base, message.field[2], b"244", &schema)
    at = flat_vector(b, base, schema.field[1], ARROW_COLUMNS, 4)
    arrow_field(b, base, at, b"queue", ARROW_UTF8, 0)
    arrow_field(b, base, at + 4, b"partition", ARROW_UTF8, 1)
    arrow_field(b, base, at + 8, b"offset", ARROW_INT, -1)
    arrow_field(b, base, at + 12, b"ts", ARROW_TIMESTAMP, -1)
    arrow_field(b, base, at + 16, b"transactionId", ARROW_UTF8, -1)
    arrow_field(b, base, at + 20, b"payload", ARROW_UTF8, -1)
    at = flat_vector(b, base, schema.field[2], 1, 4)
    flat_table(b, base, at, b"44", &pair)
    flat_string(b, base, pair.field[0], slice_lit(b"queend.entries"))
    flat_string(b, base, pair.field[1], entries)
    arrow_message_end(b, base)

cdef inline int64_t arrow_padded(size_t n) noexcept nogil:
    return <int64_t>((n + 7) & ~<size_t>7)

cdef void arrow_batch(Buf* b, size_t base, size_t slot, int64_t length, int columns, const size_t* sizes, int n) noexcept nogil:
    # The table of a record batch whose body has n buffers of these sizes, each padded.
    cdef FlatTable t
    cdef size_t at
    cdef int64_t begin = 0
    cdef int i
    flat_table(b, base, slot, b"844", &t)
    flat_long(b, t.field[0], length)
    at = flat_vector(b, base, t.field[1], columns, 16)
    for i in range(columns):
        flat_long(b, at + 16 * i, length)         # and no nulls
    at = flat_vector(b, base, t.field[2], n, 16)
    for i in range(n):
        flat_long(b, at + 16 * i, begin)
        flat_long(b, at + 16 * i + 8, <int64_t>sizes[i])
        begin += arrow_padded(sizes[i])

cdef inline void arrow_body(Buf* b, Buf* part) noexcept nogil:
    buf_put(b, part.data, part.len)
    flat_pad(b, 0, 8)

cdef void arrow_dictionary(Buf* b, int id, ArrowText* t) noexcept nogil:
    cdef FlatTable message, dictionary
    cdef size_t[3] sizes
    cdef size_t base = arrow_message(b, ARROW_DICTIONARY, arrow_padded(t.ends.len) + arrow_padded(t.bytes.len), &message)
    sizes[0] = 0
    sizes[1] = t.ends.len
    sizes[2] = t.bytes.len
    flat_table(b, base, message.field[2], b"84", &dictionary)
    flat_long(b, dictionary.field[0], id)
    arrow_batch(b, base, dictionary.field[1], arrowtext_count(t), 1, sizes, 3)
    arrow_message_end(b, base)
    arrow_body(b, &t.ends)
    arrow_body(b, &t.bytes)

cdef void arrow_records(Buf* b, ArrowOut* a) noexcept nogil:
    cdef FlatTable message
    cdef Buf* parts[8]
    cdef size_t[ARROW_BUFFERS] sizes
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
        body += arrow_padded(parts[i].len)
        if i != 5 and i != 7:
            sizes[k] = 0                  # validity: nothing is null
            k += 1
        sizes[k] = parts[i].len
        k += 1
    base = arrow_message(b, ARROW_RECORDS, body, &message)
    arrow_batch(b, base, message.field[2], <int64_t>(a.offset.len // 8), ARROW_COLUMNS, sizes, k)
    arrow_message_end(b, base)
    for i in range(8):
        arrow_body(b, parts[i])

cdef void read_arrow(ReadCall* c, Buf* b) noexcept nogil:
    cdef ArrowOut a
    cdef Buf entries
    buf_init(&entries)
    arrow_open(&a)
    arrow_gather(&a, c)
    read_entries(c, &entries)             # after the records: it tells how far they go
    arrow_schema(b, slice_of(entries.data, entries.len))
    arrow_dictionary(b, 0, &a.queues)
    arrow_dictionary(b, 1, &a.partitions)
    arrow_records(b, &a)
    buf_le32(b, <uint32_t>0xffffffff)
    buf_le32(b, 0)
    if entries.failed or arrow_failed(&a):
        b.failed = True
    buf_free(&entries)
    arrow_close(&a)
