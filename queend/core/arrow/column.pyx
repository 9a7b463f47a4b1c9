# Columns of an Arrow stream: their schema and their values. In: the table of a schema; the buffers of a column. Out:
# fields of the reader, unknown columns refused; values. A column is checked completely when it is opened, so that
# reading it cannot fail. Owner: the request. No locks.

cdef enum ArrowKind:
    ARROW_NULL = 0            # every value is missing
    ARROW_SMALL               # utf8, binary: offsets of 32 bits
    ARROW_LARGE               # large_utf8, large_binary: offsets of 64 bits
    ARROW_INDEX               # places in a dictionary
    ARROW_WHOLE               # whole numbers of 64 bits

cdef struct ArrowColumn:
    int kind
    int64_t n
    const unsigned char* valid        # one bit per value, NULL: all are present
    const char* offsets               # n + 1 offsets; of ARROW_INDEX: the places; of ARROW_WHOLE: the values
    const char* data
    int width                         # of a place: 1, 2, 4, 8
    bint is_signed
    ArrowDictionary* dictionary

cdef struct ArrowChunk:
    # The values that one message added to a dictionary.
    ArrowChunk* next
    ArrowColumn values
    int64_t begin

cdef struct ArrowDictionary:
    ArrowDictionary* next
    int64_t id
    int kind                  # of the values
    ArrowChunk* first
    ArrowChunk* last
    int64_t n
    int chunks

# ---- schema: where the known columns stand, and how they are written -------------------------------------------------

cdef enum:                    # roles
    ARROW_QUEUE = 0
    ARROW_PARTITION
    ARROW_TXID
    ARROW_PAYLOAD
    ARROW_DUE
    ARROW_TRACE
    ARROW_HEADERS
    ARROW_ROLES

cdef enum:                    # of the format's Type
    ARROW_TYPE_NULL = 1
    ARROW_TYPE_INT = 2
    ARROW_TYPE_BINARY = 4
    ARROW_TYPE_UTF8 = 5
    ARROW_TYPE_TIMESTAMP = 10
    ARROW_TYPE_LARGE_BINARY = 19
    ARROW_TYPE_LARGE_UTF8 = 20

# Fields of the format's tables, in the order of Schema.fbs.
cdef enum:                    # Schema
    ARROW_SCHEMA_ENDIANNESS = 0
    ARROW_SCHEMA_FIELDS
    ARROW_SCHEMA_METADATA
cdef enum:                    # KeyValue
    ARROW_PAIR_KEY = 0
    ARROW_PAIR_VALUE
cdef enum:                    # Field
    ARROW_FIELD_NAME = 0
    ARROW_FIELD_NULLABLE
    ARROW_FIELD_TYPE_KIND
    ARROW_FIELD_TYPE
    ARROW_FIELD_DICTIONARY
    ARROW_FIELD_CHILDREN
cdef enum:                    # Timestamp
    ARROW_TIME_UNIT = 0
    ARROW_TIME_ZONE
cdef enum:                    # DictionaryEncoding
    ARROW_ENCODING_ID = 0
    ARROW_ENCODING_INDEX
cdef enum:                    # Int
    ARROW_INT_BITS = 0
    ARROW_INT_SIGNED

cdef enum ArrowUnit:          # of the format's TimeUnit
    ARROW_SECONDS = 0
    ARROW_MILLISECONDS
    ARROW_MICROSECONDS
    ARROW_NANOSECONDS

cdef enum:
    ARROW_ROLE_NONE = -1      # a name that no role has

cdef const char* ARROW_NAMES[ARROW_ROLES]         # by role
ARROW_NAMES = [b"queue", b"partition", b"transactionId", b"payload", b"deliverAt", b"traceparent", b"headers"]

# Results of arrow_next and arrow_message. The kind of a message is larger than ARROW_END.
cdef enum:
    ARROW_BROKEN = -1         # the stream is refused
    ARROW_END = 0
    ARROW_BATCH = 1           # a record batch stands in rows and columns

cdef bint column_schema(ArrowReader* r, FlatTable* schema, ApiError* e) noexcept nogil:
    cdef const char* fields
    cdef size_t n, i
    cdef FlatTable field
    cdef Slice name
    cdef int role
    cdef int seen = 0
    if flat_int(schema, ARROW_SCHEMA_ENDIANNESS, 2) != 0:
        return arrow_refuse(e, b"only little-endian ones are read")
    if not flat_vector(schema, ARROW_SCHEMA_FIELDS, 4, &fields, &n):
        return arrow_refuse(e, b"malformed schema")
    r.n_fields = 0
    if not column_unknown(schema, fields, n, e):
        return False
    for i in range(n):
        if not flat_element(schema, fields + 4 * i, &field) or not column_name(&field, &name):
            return arrow_refuse(e, b"malformed schema")
        role = column_role(name)
        if seen >> role & 1:
            return arrow_refuse_column(e, role, b"is there twice")
        seen |= 1 << role
        r.roles[r.n_fields] = role
        if not column_field(r, &field, role, e):
            return False
        r.n_fields += 1
    if not seen >> ARROW_PAYLOAD & 1:
        return arrow_refuse(e, b"there is no column payload")
    return True

cdef bint column_name(FlatTable* field, Slice* out) noexcept nogil:
    # Reads the name, a vector of bytes; empty if the field has no name.
    out.p = NULL
    out.n = 0
    return flat_vector(field, ARROW_FIELD_NAME, 1, &out.p, &out.n)

cdef int column_role(Slice name) noexcept nogil:
    cdef int role
    for role in range(ARROW_ROLES):
        if slice_is(name, ARROW_NAMES[role]):
            return role
    return ARROW_ROLE_NONE

cdef bint column_unknown(FlatTable* schema, const char* fields, size_t n, ApiError* e) noexcept nogil:
    # Refuses unknown columns and names all of them, as far as the text holds.
    cdef FlatTable field
    cdef Slice name
    cdef size_t i, k
    cdef int at = 0
    for i in range(n):
        if not flat_element(schema, fields + 4 * i, &field) or not column_name(&field, &name):
            return arrow_refuse(e, b"malformed schema")
        if column_role(name) != ARROW_ROLE_NONE:
            continue
        if at == 0:
            at = snprintf(e.text, 239,
                          b"Unknown columns (there are queue, partition, transactionId, payload, deliverAt, "
                          b"traceparent and headers): ")
        elif at < 220:
            at += snprintf(e.text + at, 239 - at, b", ")
        for k in range(name.n):
            if at < 230:      # plain ASCII as it is, any other byte as a question mark
                e.text[at] = name.p[k] if b' ' <= <unsigned char>name.p[k] <= b'~' else b'?'
                at += 1
        e.text[at] = 0
    if at:
        e.status = 400
    return at == 0

cdef bint column_time(ArrowReader* r, FlatTable* field, int kind, ApiError* e) noexcept nogil:
    cdef FlatTable time
    if (kind != ARROW_TYPE_TIMESTAMP or not flat_child(field, ARROW_FIELD_TYPE, &time)
            or flat_field(field, ARROW_FIELD_DICTIONARY, 4) != NULL):
        return arrow_refuse_column(e, ARROW_DUE, b"must be a timestamp")
    r.columns[ARROW_DUE].kind = ARROW_WHOLE
    r.due_unit = <int>flat_int(&time, ARROW_TIME_UNIT, 2)
    if r.due_unit < ARROW_SECONDS or r.due_unit > ARROW_NANOSECONDS:
        return arrow_refuse_column(e, ARROW_DUE, b"must be a timestamp")
    return True

cdef bint column_field(ArrowReader* r, FlatTable* field, int role, ApiError* e) noexcept nogil:
    # Notes how the values of a column are written.
    cdef ArrowColumn* c = &r.columns[role]
    cdef int kind = <int>flat_int(field, ARROW_FIELD_TYPE_KIND, 1)
    cdef FlatTable encoding
    cdef FlatTable index
    cdef const char* children
    cdef size_t n
    if kind == ARROW_TYPE_NULL:
        c.kind = ARROW_NULL
    elif role == ARROW_DUE:
        return column_time(r, field, kind, e)
    elif kind == ARROW_TYPE_UTF8 or kind == ARROW_TYPE_BINARY:
        c.kind = ARROW_SMALL
    elif kind == ARROW_TYPE_LARGE_UTF8 or kind == ARROW_TYPE_LARGE_BINARY:
        c.kind = ARROW_LARGE
    else:
        return arrow_refuse_column(e, role, b"must be utf8, large_utf8, binary or large_binary")
    if not flat_vector(field, ARROW_FIELD_CHILDREN, 4, &children, &n) or n:
        return arrow_refuse_column(e, role, b"has children")
    if flat_field(field, ARROW_FIELD_DICTIONARY, 4) == NULL:
        return True
    if not flat_child(field, ARROW_FIELD_DICTIONARY, &encoding):
        return arrow_refuse(e, b"malformed schema")
    if c.kind == ARROW_NULL:
        return arrow_refuse_column(e, role, b"must be utf8, large_utf8, binary or large_binary")
    c.width = 4
    c.is_signed = True
    if flat_field(&encoding, ARROW_ENCODING_INDEX, 4) != NULL:
        if not flat_child(&encoding, ARROW_ENCODING_INDEX, &index):
            return arrow_refuse(e, b"malformed schema")
        c.width = <int>flat_int(&index, ARROW_INT_BITS, 4) // 8
        c.is_signed = flat_int(&index, ARROW_INT_SIGNED, 1) != 0
        if ((c.width != 1 and c.width != 2 and c.width != 4 and c.width != 8)
                or flat_int(&index, ARROW_INT_BITS, 4) % 8):
            return arrow_refuse_column(e, role, b"has places of an unknown width")
    c.dictionary = column_dictionary(r, flat_int(&encoding, ARROW_ENCODING_ID, 8), True)
    if c.dictionary == NULL:
        return refuse_memory(e)
    if c.dictionary.kind != ARROW_NULL and c.dictionary.kind != c.kind:
        return arrow_refuse_column(e, role, b"shares a dictionary of another type")
    c.dictionary.kind = c.kind
    c.kind = ARROW_INDEX
    return True

cdef ArrowDictionary* column_dictionary(ArrowReader* r, int64_t id, bint make) noexcept nogil:
    cdef ArrowDictionary* d = r.dictionaries
    while d != NULL and d.id != id:
        d = d.next
    if d == NULL and make:
        d = <ArrowDictionary*>arena_zero(r.arena, sizeof(ArrowDictionary))
        if d != NULL:
            d.id = id
            d.next = r.dictionaries
            r.dictionaries = d
    return d

# ---- values of a column ----------------------------------------------------------------------------------------------

cdef const char* column_check(ArrowColumn* c, Slice offsets, Slice data) noexcept nogil:
    # Takes the buffers of a column whose kind, n, width and validity are known. Returns NULL, or what is wrong with
    # them.
    cdef int64_t i, at, before
    cdef size_t width = c.width if c.kind == ARROW_INDEX else 4 if c.kind == ARROW_SMALL else 8
    c.offsets = offsets.p
    c.data = data.p
    if c.n == 0 or c.kind == ARROW_NULL:
        return NULL
    if offsets.n // width < <uint64_t>c.n + (c.kind != ARROW_INDEX and c.kind != ARROW_WHOLE):
        return b"is shorter than its rows"
    if c.kind == ARROW_WHOLE:
        return NULL
    if c.kind == ARROW_INDEX:
        for i in range(c.n):
            if not column_missing(c, i):
                at = column_place(c, i)
                if at < 0 or at >= c.dictionary.n:
                    return b"points outside of its dictionary"
        return NULL
    before = column_offset(c, 0)
    if before < 0:
        return b"has offsets outside of its data"
    for i in range(1, c.n + 1):
        at = column_offset(c, i)
        if at < before:
            return b"has offsets that do not rise"
        before = at
    if <uint64_t>before > data.n:
        return b"has offsets outside of its data"
    return NULL

cdef inline int64_t column_offset(const ArrowColumn* c, int64_t i) noexcept nogil:
    if c.kind == ARROW_SMALL:
        return <int32_t>le32(c.offsets + 4 * i)
    return <int64_t>le64(c.offsets + 8 * i)

cdef inline int64_t column_place(const ArrowColumn* c, int64_t i) noexcept nogil:
    # Returns a place in the dictionary; a negative one is invalid.
    cdef const char* p = c.offsets + i * c.width
    if c.width == 1:
        return <int8_t>p[0] if c.is_signed else <uint8_t>p[0]
    if c.width == 2:
        return <int16_t>le16(p) if c.is_signed else le16(p)
    if c.width == 4:
        return <int32_t>le32(p) if c.is_signed else le32(p)
    return <int64_t>le64(p)

cdef inline bint column_missing(const ArrowColumn* c, int64_t i) noexcept nogil:
    return c.kind == ARROW_NULL or (c.valid != NULL and (c.valid[i >> 3] >> (i & 7) & 1) == 0)

cdef inline Slice column_plain(const ArrowColumn* c, int64_t i) noexcept nogil:
    cdef int64_t at = column_offset(c, i)
    return slice_of(c.data + at, <size_t>(column_offset(c, i + 1) - at))

cdef Slice column_entry(const ArrowDictionary* d, int64_t at) noexcept nogil:
    # Returns a value of a dictionary; p NULL: missing.
    cdef ArrowChunk* chunk = d.first
    while at >= chunk.begin + chunk.values.n:
        chunk = chunk.next
    at -= chunk.begin
    return slice_of(NULL, 0) if column_missing(&chunk.values, at) else column_plain(&chunk.values, at)

cdef inline Slice column_value(const ArrowColumn* c, int64_t i) noexcept nogil:
    # Returns a value of a column; p NULL: missing.
    if column_missing(c, i):
        return slice_of(NULL, 0)
    if c.kind != ARROW_INDEX:
        return column_plain(c, i)
    return column_entry(c.dictionary, column_place(c, i))
