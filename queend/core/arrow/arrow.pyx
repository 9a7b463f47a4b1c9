# Reads an Arrow IPC stream, message by message: a schema, then dictionaries and record batches in any number. In: bytes
# that stay in place. Out: columns that point into them, or into the arena if a buffer was compressed. Owner: the
# request. Takes no lock.

cdef enum:                    # of the format's MessageHeader
    ARROW_SCHEMA = 1
    ARROW_DICTIONARY_BATCH = 2
    ARROW_RECORD_BATCH = 3
    ARROW_CHUNKS_MAX = 1000   # of one dictionary: a look-up walks over them
    ARROW_CHUNKS_ON_LOOP = 16

# Fields of the format's tables, in the order of Message.fbs.
cdef enum:                    # Message
    ARROW_MESSAGE_VERSION = 0
    ARROW_MESSAGE_KIND
    ARROW_MESSAGE_HEADER
    ARROW_MESSAGE_BODY_LENGTH
cdef enum:                    # RecordBatch
    ARROW_BATCH_LENGTH = 0
    ARROW_BATCH_NODES
    ARROW_BATCH_BUFFERS
    ARROW_BATCH_COMPRESSION
cdef enum:                    # BodyCompression
    ARROW_COMPRESSION_CODEC = 0
    ARROW_COMPRESSION_METHOD
cdef enum:                    # DictionaryBatch
    ARROW_PIECE_ID = 0
    ARROW_PIECE_DATA
    ARROW_PIECE_IS_DELTA

cdef enum:                    # of the format's MetadataVersion
    ARROW_V4 = 3
    ARROW_V5 = 4

cdef enum:                    # of the format's CompressionType, and ArrowBatch.codec
    ARROW_UNCOMPRESSED = -1   # also: instead of the unpacked size of a buffer
    ARROW_ZSTD = 1

cdef enum:
    ARROW_NO_HEADER = 255     # kind of a message without a header

cdef const char* ARROW_TOO_MUCH = b"unpacks to too much"

cdef struct ArrowReader:
    const char* p             # the next message
    const char* end
    Arena* arena
    size_t room               # bytes that may still be unpacked
    Unzip* unzip
    int[ARROW_ROLES] roles              # of the columns, in the order of the stream
    int n_fields
    bint has_schema
    int due_unit              # of the column deliverAt
    ArrowDictionary* dictionaries
    # the record batch that arrow_next found
    int64_t rows
    ArrowColumn[ARROW_ROLES] columns    # by role; ARROW_NULL: also a column that the stream does not have

cdef struct ArrowBatch:
    # The content of a record batch's table.
    FlatTable table
    int64_t n
    const char* nodes         # two numbers of 64 bits each: length, count of missing values
    size_t n_nodes
    const char* buffers       # two numbers of 64 bits each: offset, length
    size_t n_buffers
    int codec                 # ARROW_ZSTD or ARROW_UNCOMPRESSED
    Slice body
    size_t node               # the next node
    size_t buffer

# ---- messages --------------------------------------------------------------------------------------------------------

cdef void arrow_open(ArrowReader* r, Slice text, Unzip* z, Arena* a, size_t room) noexcept nogil:
    # Opens a stream. room: bytes that compressed buffers may unpack to, all together.
    memset(r, 0, sizeof(ArrowReader))
    r.p = text.p
    r.end = text.p + text.n
    r.unzip = z
    r.arena = a
    r.room = room

cdef int arrow_next(ArrowReader* r, ApiError* e) noexcept nogil:
    # Reads up to the next record batch. Returns ARROW_BATCH, ARROW_END or ARROW_BROKEN.
    cdef FlatTable header
    cdef Slice body
    cdef int kind
    while True:
        kind = arrow_message(r, &header, &body, e)
        if kind <= ARROW_END:
            if kind == ARROW_END and not r.has_schema:
                return arrow_broken(e, b"there is no schema")
            return kind
        if kind == ARROW_SCHEMA:
            if r.has_schema:
                return arrow_broken(e, b"a second schema")
            if not column_schema(r, &header, e):
                return ARROW_BROKEN
            r.has_schema = True
        elif not r.has_schema:
            return arrow_broken(e, b"there is no schema")
        elif kind == ARROW_DICTIONARY_BATCH:
            if not arrow_take_dictionary(r, &header, body, e):
                return ARROW_BROKEN
        elif kind == ARROW_RECORD_BATCH:
            return ARROW_BATCH if arrow_take_batch(r, &header, body, e) else ARROW_BROKEN
        else:
            return arrow_broken(e, b"a message that is neither schema, dictionary nor record batch")

cdef int arrow_message(ArrowReader* r, FlatTable* header, Slice* body, ApiError* e) noexcept nogil:
    # Frames one message. Returns its kind, ARROW_END or ARROW_BROKEN.
    cdef FlatTable message
    cdef size_t left = <size_t>(r.end - r.p)
    cdef uint32_t size
    cdef int64_t length
    cdef int64_t version
    cdef int kind
    if left == 0:
        return ARROW_END
    if left < 8 or le32(r.p) != <uint32_t>0xffffffff:
        return arrow_broken(e, b"unexpected end" if left < 4
                            or le32(r.p) == <uint32_t>0xffffffff else b"no message where one should begin")
    size = le32(r.p + 4)
    if size == 0:
        if left > 8:
            return arrow_broken(e, b"bytes after its end")
        r.p = r.end
        return ARROW_END
    if size > left - 8:
        return arrow_broken(e, b"unexpected end")
    if (size < 4 or not flat_table(r.p + 8, size, le32(r.p + 8), &message)
            or not flat_child(&message, ARROW_MESSAGE_HEADER, header)):
        return arrow_broken(e, b"malformed metadata")
    version = flat_int(&message, ARROW_MESSAGE_VERSION, 2)
    if version != ARROW_V4 and version != ARROW_V5:
        return arrow_broken(e, b"only format versions 4 and 5 are read")
    length = flat_int(&message, ARROW_MESSAGE_BODY_LENGTH, 8)
    if length < 0 or <uint64_t>length > left - 8 - size:
        return arrow_broken(e, b"unexpected end")
    body[0] = slice_of(r.p + 8 + size, <size_t>length)
    r.p += 8 + size + length
    kind = <int>(flat_int(&message, ARROW_MESSAGE_KIND, 1) & 0xff)
    return kind if kind else ARROW_NO_HEADER

# ---- buffers and columns of a batch ----------------------------------------------------------------------------------

cdef bint arrow_batch_open(ArrowBatch* b, Slice body, ApiError* e) noexcept nogil:
    # Opens a batch. Requires b.table.
    cdef FlatTable compression
    b.n = flat_int(&b.table, ARROW_BATCH_LENGTH, 8)
    b.body = body
    b.node = 0
    b.buffer = 0
    b.codec = ARROW_UNCOMPRESSED
    if (b.n < 0 or not flat_vector(&b.table, ARROW_BATCH_NODES, 16, &b.nodes, &b.n_nodes)
            or not flat_vector(&b.table, ARROW_BATCH_BUFFERS, 16, &b.buffers, &b.n_buffers)):
        return arrow_refuse(e, b"malformed metadata")
    if flat_field(&b.table, ARROW_BATCH_COMPRESSION, 4) != NULL:
        if not flat_child(&b.table, ARROW_BATCH_COMPRESSION, &compression):
            return arrow_refuse(e, b"malformed metadata")
        b.codec = <int>flat_int(&compression, ARROW_COMPRESSION_CODEC, 1)
        if b.codec != ARROW_ZSTD or flat_int(&compression, ARROW_COMPRESSION_METHOD, 1) != 0:
            return arrow_refuse(e, b"buffers may be compressed with zstd, nothing else")
    return True

cdef const char* arrow_buffer(ArrowReader* r, ArrowBatch* b, Slice* out) noexcept nogil:
    # Takes the next buffer, unpacked. Returns NULL, or what is wrong.
    cdef uint64_t at, n
    cdef int64_t raw
    cdef char* text
    if b.buffer >= b.n_buffers:
        return b"has no buffer"
    at = le64(b.buffers + 16 * b.buffer)
    n = le64(b.buffers + 16 * b.buffer + 8)
    b.buffer += 1
    if at > b.body.n or n > b.body.n - at:
        return b"lies outside of the message"
    out[0] = slice_of(b.body.p + at, n)
    if b.codec == ARROW_UNCOMPRESSED or n == 0:
        return NULL
    if n < 8:
        return b"is badly compressed"
    raw = <int64_t>le64(out.p)
    out[0] = slice_of(out.p + 8, n - 8)
    if raw == ARROW_UNCOMPRESSED:
        return NULL
    if raw < 0 or <uint64_t>raw > r.room:
        return ARROW_TOO_MUCH
    r.room -= <size_t>raw
    text = <char*>arena_alloc(r.arena, <size_t>raw + JSONWALK_ROOM)
    if text == NULL or not unzip_open(r.unzip):
        return b"finds no memory"
    memset(text + raw, 0, JSONWALK_ROOM)
    if not unzip_into(r.unzip, out[0], text, <size_t>raw):
        return b"is badly compressed"
    out[0] = slice_of(text, <size_t>raw)
    return NULL

cdef const char* arrow_column(ArrowReader* r, ArrowBatch* b, ArrowColumn* c) noexcept nogil:
    # Takes the next column's node and buffers. Requires its kind, width, sign and dictionary. Returns NULL, or what is
    # wrong.
    cdef const char* why
    cdef int64_t missing
    cdef Slice valid
    cdef Slice offsets
    cdef Slice data = slice_of(NULL, 0)
    c.valid = NULL
    c.n = b.n
    if b.node >= b.n_nodes:
        return b"has no node"
    if <int64_t>le64(b.nodes + 16 * b.node) != b.n:
        return b"is not as long as the batch"
    missing = <int64_t>le64(b.nodes + 16 * b.node + 8)
    b.node += 1
    if c.kind == ARROW_NULL:
        return NULL
    why = arrow_buffer(r, b, &valid)
    if why != NULL:
        return why
    if missing != 0 and b.n:
        if valid.n < <uint64_t>(b.n // 8 + (b.n % 8 != 0)):
            return b"does not tell which values are missing"
        c.valid = <const unsigned char*>valid.p
    why = arrow_buffer(r, b, &offsets)
    if why == NULL and c.kind != ARROW_INDEX and c.kind != ARROW_WHOLE:
        why = arrow_buffer(r, b, &data)
    if why != NULL:
        return why
    return column_check(c, offsets, data)

# ---- batches and dictionaries ----------------------------------------------------------------------------------------

cdef bint arrow_take_batch(ArrowReader* r, FlatTable* header, Slice body, ApiError* e) noexcept nogil:
    cdef ArrowBatch b
    cdef const char* why
    cdef int i
    b.table = header[0]
    if not arrow_batch_open(&b, body, e):
        return False
    r.rows = b.n
    for i in range(r.n_fields):
        why = arrow_column(r, &b, &r.columns[r.roles[i]])
        if why != NULL:
            arrow_refuse_column(e, r.roles[i], why)
            return arrow_refuse_here(r, why, e)
    return True

cdef bint arrow_take_dictionary(ArrowReader* r, FlatTable* header, Slice body, ApiError* e) noexcept nogil:
    # Takes values of a dictionary, which replace those it had or are added to them.
    cdef ArrowDictionary* d = column_dictionary(r, flat_int(header, ARROW_PIECE_ID, 8), False)
    cdef ArrowChunk* chunk
    cdef ArrowBatch b
    cdef const char* why
    if d == NULL:
        return arrow_refuse(e, b"a dictionary that no column has")
    if not flat_child(header, ARROW_PIECE_DATA, &b.table) or not arrow_batch_open(&b, body, e):
        return arrow_refuse(e, b"malformed metadata") if b.table.at == 0 else False
    chunk = <ArrowChunk*>arena_zero(r.arena, sizeof(ArrowChunk))
    if chunk == NULL:
        return refuse_memory(e)
    chunk.values.kind = d.kind
    why = arrow_column(r, &b, &chunk.values)
    if why != NULL:
        refuse_as(e, b"Invalid Arrow stream: a dictionary %s", why)
        return arrow_refuse_here(r, why, e)
    if flat_int(header, ARROW_PIECE_IS_DELTA, 1) == 0:
        d.first = NULL
        d.last = NULL
        d.n = 0
        d.chunks = 0
    if r.unzip.on_loop and d.chunks >= ARROW_CHUNKS_ON_LOOP:
        e.status = REFUSED_HERE
        return False
    if d.chunks >= ARROW_CHUNKS_MAX:
        return arrow_refuse(e, b"a dictionary in too many pieces")
    chunk.begin = d.n
    if d.last == NULL:
        d.first = chunk
    else:
        d.last.next = chunk
    d.last = chunk
    d.chunks += 1
    d.n += chunk.values.n
    return True

# ---- refusals --------------------------------------------------------------------------------------------------------

cdef bint arrow_refuse_here(const ArrowReader* r, const char* why, ApiError* e) noexcept nogil:
    # Lets the body be read again where it may unpack to more, if that is what is wrong.
    if r.unzip.on_loop and why == ARROW_TOO_MUCH:
        e.status = REFUSED_HERE
    return False

cdef bint arrow_refuse(ApiError* e, const char* what) noexcept nogil:
    return refuse_as(e, b"Invalid Arrow stream: %s", what)

cdef int arrow_broken(ApiError* e, const char* what) noexcept nogil:
    # Refuses a stream. Returns ARROW_BROKEN, for functions that read message by message.
    arrow_refuse(e, what)
    return ARROW_BROKEN

cdef bint arrow_refuse_column(ApiError* e, int role, const char* what) noexcept nogil:
    return refuse_as(e, b"Invalid Arrow stream: column %s %s", ARROW_NAMES[role], what)
