# Writes columns as one Arrow IPC stream: schema, dictionaries, one record batch, end. In: records of a read. Out:
# bytes. Owner: the call. No locks. No column has nulls.
# The columns queue and partition are dictionaries of utf8 with int32 indices. offset is int64; ts is a timestamp (µs,
# UTC). transactionId, payload, id and headers are utf8; headers is a JSON object or empty. The schema's metadata holds
# the entries: marks, errors, next offsets.

cdef enum:
    IPC_COLUMNS = 8         # of records
    IPC_BUFFERS = 24        # most buffers: validity, ends and bytes per column
    IPC_HEAD = 4096         # bytes of a record batch besides its body

cdef enum:                 # bits of `wanted`
    IPC_QUEUE = 0
    IPC_PARTITION
    IPC_OFFSET
    IPC_TS
    IPC_TXID
    IPC_PAYLOAD
    IPC_ID
    IPC_HEADERS
    IPC_USUAL = 63

cdef struct IpcText:
    Buf ends                  # int32: begin of each text, and end of the last
    Buf bytes

cdef struct IpcColumn:
    const char* name
    uint8_t kind              # column type
    int bits                  # of ARROW_TYPE_INT
    bint dictionary           # the values are places in the text
    IpcText text              # of ARROW_TYPE_UTF8
    Buf values                # of the other columns, and of those with a dictionary: fixed width

# ---- texts and columns -----------------------------------------------------------------------------------------------

cdef inline void ipc_text_end(IpcText* t) noexcept nogil:
    # Ends a text: the bytes appended since the previous end.
    buf_le32(&t.ends, <uint32_t>t.bytes.len)

cdef inline int64_t ipc_text_count(IpcText* t) noexcept nogil:
    return <int64_t>(t.ends.len // 4) - 1

cdef void ipc_column_open(IpcColumn* c, const char* name, uint8_t kind, int bits, bint dictionary) noexcept nogil:
    memset(c, 0, sizeof(IpcColumn))
    c.name = name
    c.kind = kind
    c.bits = bits
    c.dictionary = dictionary
    if kind == ARROW_TYPE_UTF8:
        buf_le32(&c.text.ends, 0)

cdef inline void ipc_column_close(IpcColumn* c) noexcept nogil:
    buf_free(&c.text.ends)
    buf_free(&c.text.bytes)
    buf_free(&c.values)

cdef inline bint ipc_column_failed(IpcColumn* c) noexcept nogil:
    return c.text.ends.failed or c.text.bytes.failed or c.values.failed

cdef inline void ipc_column_uuid(IpcColumn* c, const unsigned char* id) noexcept nogil:
    cdef char* at = buf_reserve(&c.text.bytes, 36)
    if at != NULL:
        uuid_format(id, at)
    ipc_text_end(&c.text)

cdef inline void ipc_column_text(IpcColumn* c, Slice text) noexcept nogil:
    buf_slice(&c.text.bytes, text)
    ipc_text_end(&c.text)

cdef void ipc_open(IpcColumn* c) noexcept nogil:
    ipc_column_open(&c[IPC_QUEUE], b"queue", ARROW_TYPE_UTF8, 0, True)
    ipc_column_open(&c[IPC_PARTITION], b"partition", ARROW_TYPE_UTF8, 0, True)
    ipc_column_open(&c[IPC_OFFSET], b"offset", ARROW_TYPE_INT, 64, False)
    ipc_column_open(&c[IPC_TS], b"ts", ARROW_TYPE_TIMESTAMP, 64, False)
    ipc_column_open(&c[IPC_TXID], b"transactionId", ARROW_TYPE_UTF8, 0, False)
    ipc_column_open(&c[IPC_PAYLOAD], b"payload", ARROW_TYPE_UTF8, 0, False)
    ipc_column_open(&c[IPC_ID], b"id", ARROW_TYPE_UTF8, 0, False)
    ipc_column_open(&c[IPC_HEADERS], b"headers", ARROW_TYPE_UTF8, 0, False)

# ---- columns of records ----------------------------------------------------------------------------------------------

cdef void ipc_gather(IpcColumn* columns, ReadCall* c) noexcept nogil:
    cdef ReadRecord r
    cdef ReadEntry* e
    cdef Slice queue = slice_of(NULL, 0)
    cdef unsigned char[16] id
    cdef int wanted = c.wanted
    cdef int i
    if wanted >> IPC_PAYLOAD & 1:
        # all at once: memory that doubles is copied each time
        buf_room(&columns[IPC_PAYLOAD].text.bytes, <size_t>min(c.left, <int64_t>READ_ANSWER_MOST))
    for i in range(c.n):
        e = &c.entries[i]
        while readentry_next(c, e, columns[IPC_PAYLOAD].text.bytes.len + columns[IPC_TXID].text.bytes.len
                             + columns[IPC_HEADERS].text.bytes.len + 32 * c.records, &r):
            if e.records == 1:
                if queue.p == NULL or not slice_eq(queue, e.queue):
                    queue = e.queue
                    ipc_column_text(&columns[IPC_QUEUE], queue)
                ipc_column_text(&columns[IPC_PARTITION], e.partition)
            if wanted >> IPC_QUEUE & 1:
                buf_le32(&columns[IPC_QUEUE].values, <uint32_t>ipc_text_count(&columns[IPC_QUEUE].text) - 1)
            if wanted >> IPC_PARTITION & 1:
                buf_le32(&columns[IPC_PARTITION].values, <uint32_t>ipc_text_count(&columns[IPC_PARTITION].text) - 1)
            if wanted >> IPC_OFFSET & 1:
                buf_put(&columns[IPC_OFFSET].values, &r.offset, 8)
            if wanted >> IPC_TS & 1:
                buf_put(&columns[IPC_TS].values, &r.created_us, 8)
            if wanted >> IPC_TXID & 1:
                if r.extras.text.n:
                    ipc_column_text(&columns[IPC_TXID], r.extras.text)
                else:
                    ipc_column_uuid(&columns[IPC_TXID], r.id)
            if wanted >> IPC_PAYLOAD & 1:
                ipc_column_text(&columns[IPC_PAYLOAD], r.payload)
            if wanted >> IPC_ID & 1:
                uuid_message(r.created_us, e.number, r.offset, id)
                ipc_column_uuid(&columns[IPC_ID], id)
            if wanted >> IPC_HEADERS & 1:
                ipc_column_text(&columns[IPC_HEADERS], r.extras.headers)

# ---- FlatBuffers -----------------------------------------------------------------------------------------------------
# Written forwards into a buffer `b`: a table precedes its targets, and a reference is filled in when its target begins.
# Positions are within `b`. `base` is the begin of this flatbuffer, a multiple of 8; alignment counts from it. All
# numbers are little-endian, like the supported machines.

cdef enum:
    IPC_FIELDS = 7           # most fields of a table

cdef struct IpcTable:
    size_t at                 # position of the table
    size_t[IPC_FIELDS] field # positions of its fields, 0: absent

cdef inline void ipc_pad(Buf* b, size_t base, size_t n) noexcept nogil:
    # Appends zeros up to a multiple of n.
    while (b.len - base) % n and not b.failed:
        buf_byte(b, 0)

cdef inline void ipc_put(Buf* b, size_t at, int64_t v, size_t n) noexcept nogil:
    # Sets a number of n bytes.
    if not b.failed:
        memcpy(b.data + at, &v, n)

cdef inline void ipc_refer(Buf* b, size_t slot) noexcept nogil:
    # Sets the reference at `slot` to the present end of the buffer.
    ipc_put(b, slot, <int64_t>(b.len - slot), 4)

cdef void ipc_table(Buf* b, size_t base, size_t slot, const char* sizes, IpcTable* t) noexcept nogil:
    # Writes a zeroed table and sets the reference at `slot` to it. sizes: a digit per field: 0 absent, otherwise its
    # bytes (a reference: 4).
    cdef int n = <int>strlen(sizes)
    cdef uint16_t[IPC_FIELDS + 2] vtable
    cdef size_t end = 4
    cdef size_t size
    cdef size_t vtable_at
    cdef int i
    memset(t, 0, sizeof(IpcTable))
    for i in range(n):
        size = sizes[i] - c'0'
        vtable[2 + i] = 0
        if size:
            end = (end + size - 1) // size * size
            vtable[2 + i] = <uint16_t>end
            end += size
    vtable[0] = <uint16_t>(4 + 2 * n)
    vtable[1] = <uint16_t>end
    ipc_pad(b, base, 2)
    vtable_at = b.len
    buf_put(b, vtable, 4 + 2 * n)
    ipc_pad(b, base, 8)
    ipc_refer(b, slot)
    t.at = b.len
    for i in range(<int>end):
        buf_byte(b, 0)
    ipc_put(b, t.at, <int64_t>(t.at - vtable_at), 4)
    for i in range(n):
        if vtable[2 + i]:
            t.field[i] = t.at + vtable[2 + i]

cdef void ipc_string(Buf* b, size_t base, size_t slot, Slice text) noexcept nogil:
    ipc_pad(b, base, 4)
    ipc_refer(b, slot)
    buf_le32(b, <uint32_t>text.n)
    buf_slice(b, text)
    buf_byte(b, 0)

cdef size_t ipc_vector(Buf* b, size_t base, size_t slot, uint32_t n, size_t size) noexcept nogil:
    # Writes a vector of n zeroed elements of 4 bytes or a multiple of 8. Returns the position of the first.
    cdef size_t at
    cdef size_t i
    while (b.len + 4 - base) % (4 if size == 4 else 8) and not b.failed:
        buf_byte(b, 0)
    ipc_refer(b, slot)
    buf_le32(b, n)
    at = b.len
    for i in range(n * size):
        buf_byte(b, 0)
    return at

# ---- messages of the stream ------------------------------------------------------------------------------------------

cdef size_t ipc_message(Buf* b, uint8_t kind, int64_t body, IpcTable* t) noexcept nogil:
    # Begins a message. t: its table, whose header is still to be written. Returns where the flatbuffer starts.
    cdef size_t base
    ipc_pad(b, 0, 8)
    buf_le32(b, <uint32_t>0xffffffff)
    buf_le32(b, 0)                        # length of the metadata, set by ipc_message_end
    base = b.len
    buf_le32(b, 0)                        # the root's reference
    ipc_table(b, base, base, b"2148", t)
    ipc_put(b, t.field[ARROW_MESSAGE_VERSION], ARROW_V5, 2)
    ipc_put(b, t.field[ARROW_MESSAGE_KIND], kind, 1)
    ipc_put(b, t.field[ARROW_MESSAGE_BODY_LENGTH], body, 8)
    return base

cdef void ipc_message_end(Buf* b, size_t base) noexcept nogil:
    # Ends the metadata; the body follows.
    ipc_pad(b, base, 8)
    ipc_put(b, base - 4, <int64_t>(b.len - base), 4)

cdef void ipc_int(Buf* b, size_t base, size_t slot, int bits) noexcept nogil:
    cdef IpcTable t
    ipc_table(b, base, slot, b"41", &t)
    ipc_put(b, t.field[ARROW_INT_BITS], bits, 4)
    ipc_put(b, t.field[ARROW_INT_SIGNED], True, 1)

cdef void ipc_field(Buf* b, size_t base, size_t slot, IpcColumn* c, int dictionary) noexcept nogil:
    # dictionary: id of the column's dictionary, if it has one.
    cdef IpcTable t, of, coding
    ipc_table(b, base, slot, b"411444" if c.dictionary else b"411404", &t)
    ipc_put(b, t.field[ARROW_FIELD_TYPE_KIND], c.kind, 1)
    ipc_string(b, base, t.field[ARROW_FIELD_NAME], slice_lit(c.name))
    if c.kind == ARROW_TYPE_INT:
        ipc_int(b, base, t.field[ARROW_FIELD_TYPE], c.bits)
    elif c.kind == ARROW_TYPE_TIMESTAMP:
        ipc_table(b, base, t.field[ARROW_FIELD_TYPE], b"24", &of)
        ipc_put(b, of.field[ARROW_TIME_UNIT], ARROW_MICROSECONDS, 2)
        ipc_string(b, base, of.field[ARROW_TIME_ZONE], slice_lit(b"UTC"))
    else:
        ipc_table(b, base, t.field[ARROW_FIELD_TYPE], b"", &of)
    if c.dictionary:
        ipc_table(b, base, t.field[ARROW_FIELD_DICTIONARY], b"84", &coding)
        ipc_put(b, coding.field[ARROW_ENCODING_ID], dictionary, 8)
        ipc_int(b, base, coding.field[ARROW_ENCODING_INDEX], 32)
    ipc_vector(b, base, t.field[ARROW_FIELD_CHILDREN], 0, 4)

cdef void ipc_schema(Buf* b, IpcColumn** columns, int n, const char* key, Slice value) noexcept nogil:
    # Writes the schema. key: of the metadata, NULL: no metadata. Dictionaries have the ids 0, 1, … in the order of
    # their columns.
    cdef IpcTable message, schema, pair
    cdef size_t base = ipc_message(b, ARROW_SCHEMA, 0, &message)
    cdef size_t at
    cdef int i
    cdef int dictionaries = 0
    ipc_table(b, base, message.field[ARROW_MESSAGE_HEADER], b"244" if key != NULL else b"24", &schema)
    at = ipc_vector(b, base, schema.field[ARROW_SCHEMA_FIELDS], n, 4)
    for i in range(n):
        ipc_field(b, base, at + 4 * i, columns[i], dictionaries)
        dictionaries += columns[i].dictionary
    if key != NULL:
        at = ipc_vector(b, base, schema.field[ARROW_SCHEMA_METADATA], 1, 4)
        ipc_table(b, base, at, b"44", &pair)
        ipc_string(b, base, pair.field[ARROW_PAIR_KEY], slice_lit(key))
        ipc_string(b, base, pair.field[ARROW_PAIR_VALUE], value)
    ipc_message_end(b, base)

cdef inline int64_t ipc_padded(size_t n) noexcept nogil:
    return <int64_t>((n + 7) & ~<size_t>7)

cdef void ipc_batch(Buf* b, size_t base, size_t slot, int64_t length, int columns, const size_t* sizes,
                    int n) noexcept nogil:
    # Writes the table of a record batch whose body has n buffers of these sizes, each padded.
    cdef IpcTable t
    cdef size_t at
    cdef int64_t begin = 0
    cdef int i
    ipc_table(b, base, slot, b"844", &t)
    ipc_put(b, t.field[ARROW_BATCH_LENGTH], length, 8)
    at = ipc_vector(b, base, t.field[ARROW_BATCH_NODES], columns, 16)
    for i in range(columns):
        ipc_put(b, at + 16 * i, length, 8)         # no nulls
    at = ipc_vector(b, base, t.field[ARROW_BATCH_BUFFERS], n, 16)
    for i in range(n):
        ipc_put(b, at + 16 * i, begin, 8)
        ipc_put(b, at + 16 * i + 8, <int64_t>sizes[i], 8)
        begin += ipc_padded(sizes[i])

cdef inline void ipc_body(Buf* b, Buf* part) noexcept nogil:
    buf_put(b, part.data, part.len)
    ipc_pad(b, 0, 8)

cdef void ipc_dictionary(Buf* b, int id, IpcText* t) noexcept nogil:
    cdef IpcTable message, dictionary
    cdef size_t[3] sizes
    cdef size_t base = ipc_message(b, ARROW_DICTIONARY_BATCH, ipc_padded(t.ends.len) + ipc_padded(t.bytes.len),
                                   &message)
    sizes[0] = 0
    sizes[1] = t.ends.len
    sizes[2] = t.bytes.len
    ipc_table(b, base, message.field[ARROW_MESSAGE_HEADER], b"84", &dictionary)
    ipc_put(b, dictionary.field[ARROW_PIECE_ID], id, 8)
    ipc_batch(b, base, dictionary.field[ARROW_PIECE_DATA], ipc_text_count(t), 1, sizes, 3)
    ipc_message_end(b, base)
    ipc_body(b, &t.ends)
    ipc_body(b, &t.bytes)

cdef void ipc_records(Buf* b, IpcColumn** columns, int n, int64_t length) noexcept nogil:
    cdef IpcTable message
    cdef Buf* parts[16]
    cdef size_t[IPC_BUFFERS] sizes
    cdef int64_t body = 0
    cdef size_t base
    cdef int i
    cdef int n_parts = 0
    cdef int k = 0
    for i in range(n):
        sizes[k] = 0                  # validity: no value is null
        k += 1
        if columns[i].kind == ARROW_TYPE_UTF8 and not columns[i].dictionary:
            parts[n_parts] = &columns[i].text.ends
            parts[n_parts + 1] = &columns[i].text.bytes
            sizes[k] = columns[i].text.ends.len
            sizes[k + 1] = columns[i].text.bytes.len
            n_parts += 2
            k += 2
        else:
            parts[n_parts] = &columns[i].values
            sizes[k] = columns[i].values.len
            n_parts += 1
            k += 1
    for i in range(n_parts):
        body += ipc_padded(parts[i].len)
    buf_room(b, <size_t>body + IPC_HEAD)
    base = ipc_message(b, ARROW_RECORD_BATCH, body, &message)
    ipc_batch(b, base, message.field[ARROW_MESSAGE_HEADER], length, n, sizes, k)
    ipc_message_end(b, base)
    for i in range(n_parts):
        ipc_body(b, parts[i])

cdef void ipc_stream(Buf* b, IpcColumn** columns, int n, int64_t length, const char* key, Slice value) noexcept nogil:
    # Writes the whole stream.
    cdef int i
    cdef int dictionaries = 0
    ipc_schema(b, columns, n, key, value)
    for i in range(n):
        if columns[i].dictionary:
            ipc_dictionary(b, dictionaries, &columns[i].text)
            dictionaries += 1
    ipc_records(b, columns, n, length)
    buf_le32(b, <uint32_t>0xffffffff)
    buf_le32(b, 0)

cdef void ipc_answer(ReadCall* c, Buf* b) noexcept nogil:
    cdef IpcColumn[IPC_COLUMNS] all_
    cdef IpcColumn* columns[IPC_COLUMNS]
    cdef Buf entries
    cdef int i
    cdef int n = 0
    buf_init(&entries)
    ipc_open(all_)
    ipc_gather(all_, c)
    readentry_list(c, &entries)           # after the records, which determine the next offsets
    for i in range(IPC_COLUMNS):
        if c.wanted >> i & 1:
            columns[n] = &all_[i]
            n += 1
    ipc_stream(b, columns, n, c.records, b"queend.entries", slice_of(entries.data, entries.len))
    b.failed |= entries.failed
    buf_free(&entries)
    for i in range(IPC_COLUMNS):
        b.failed |= ipc_column_failed(&all_[i])
        ipc_column_close(&all_[i])
