# Reads the schema of an Arrow stream: where the known columns stand, and how they are written. In: a FlatTable. Out:
# fields of the reader. Unknown columns are refused.

cdef enum:                    # roles
    ARROW_QUEUE = 0
    ARROW_PARTITION
    ARROW_TXID
    ARROW_PAYLOAD
    ARROW_DUE
    ARROW_TRACE
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

cdef struct ArrowField:
    int role
    int kind                  # of the values, also of those in a dictionary
    ArrowDictionary* dictionary       # NULL: the column has no dictionary
    int width
    bint is_signed
    int unit                  # of a time: ArrowUnit

cdef const char* arrow_role_name(int role) noexcept nogil:
    if role == ARROW_QUEUE:
        return b"queue"
    if role == ARROW_PARTITION:
        return b"partition"
    if role == ARROW_TXID:
        return b"transactionId"
    if role == ARROW_DUE:
        return b"deliverAt"
    if role == ARROW_TRACE:
        return b"traceparent"
    return b"payload"

cdef bint arrow_refuse(ApiError* e, const char* what) noexcept nogil:
    e.status = 400
    snprintf(e.text, 239, b"Invalid Arrow stream: %s", what)
    return False

# Results of arrow_next and arrow_message. The kind of a message is larger than ARROW_END.
cdef enum:
    ARROW_BROKEN = -1         # the stream is refused
    ARROW_END = 0
    ARROW_BATCH = 1           # a record batch stands in rows and columns

cdef int arrow_broken(ApiError* e, const char* what) noexcept nogil:
    # Refuses a stream. Returns ARROW_BROKEN, for functions that read message by message.
    arrow_refuse(e, what)
    return ARROW_BROKEN

cdef bint arrow_refuse_column(ApiError* e, int role, const char* what) noexcept nogil:
    e.status = 400
    snprintf(e.text, 239, b"Invalid Arrow stream: column %s %s", arrow_role_name(role), what)
    return False

cdef bint arrow_schema(ArrowReader* r, FlatTable* schema, ApiError* e) noexcept nogil:
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
    if not arrow_unknown(schema, fields, n, e):
        return False
    for i in range(n):
        if not flat_element(schema, fields + 4 * i, &field) or not arrow_name(&field, &name):
            return arrow_refuse(e, b"malformed schema")
        role = arrow_role(name)
        if seen >> role & 1:
            return arrow_refuse_column(e, role, b"is there twice")
        seen |= 1 << role
        r.fields[r.n_fields].role = role
        if not arrow_field(r, &field, &r.fields[r.n_fields], e):
            return False
        if role == ARROW_DUE:
            r.due_unit = r.fields[r.n_fields].unit
        r.n_fields += 1
    if not seen >> ARROW_PAYLOAD & 1:
        return arrow_refuse(e, b"there is no column payload")
    return True

cdef bint arrow_name(FlatTable* field, Slice* out) noexcept nogil:
    # Reads the name, a vector of bytes; empty if the field has no name.
    out.p = NULL
    out.n = 0
    return flat_vector(field, ARROW_FIELD_NAME, 1, &out.p, &out.n)

cdef int arrow_role(Slice name) noexcept nogil:
    cdef int role
    for role in range(ARROW_ROLES):
        if slice_is(name, arrow_role_name(role)):
            return role
    return ARROW_ROLE_NONE

cdef bint arrow_unknown(FlatTable* schema, const char* fields, size_t n, ApiError* e) noexcept nogil:
    # Refuses unknown columns and names all of them, as far as the text holds.
    cdef FlatTable field
    cdef Slice name
    cdef size_t i, k
    cdef int at = 0
    for i in range(n):
        if not flat_element(schema, fields + 4 * i, &field) or not arrow_name(&field, &name):
            return arrow_refuse(e, b"malformed schema")
        if arrow_role(name) != ARROW_ROLE_NONE:
            continue
        if at == 0:
            at = snprintf(e.text, 239,
                          b"Unknown columns (there are queue, partition, transactionId, payload, deliverAt "
                          b"and traceparent): ")
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

cdef bint arrow_field_time(FlatTable* field, int kind, ArrowField* out, ApiError* e) noexcept nogil:
    cdef FlatTable time
    if (kind != ARROW_TYPE_TIMESTAMP or not flat_child(field, ARROW_FIELD_TYPE, &time)
            or flat_field(field, ARROW_FIELD_DICTIONARY, 4) != NULL):
        return arrow_refuse_column(e, out.role, b"must be a timestamp")
    out.kind = ARROW_WHOLE
    out.unit = <int>flat_int(&time, ARROW_TIME_UNIT, 2)
    if out.unit < ARROW_SECONDS or out.unit > ARROW_NANOSECONDS:
        return arrow_refuse_column(e, out.role, b"must be a timestamp")
    return True

cdef bint arrow_field(ArrowReader* r, FlatTable* field, ArrowField* out, ApiError* e) noexcept nogil:
    cdef int kind = <int>flat_int(field, ARROW_FIELD_TYPE_KIND, 1)
    cdef FlatTable encoding
    cdef FlatTable index
    cdef const char* children
    cdef size_t n
    out.dictionary = NULL
    if kind == ARROW_TYPE_NULL:
        out.kind = ARROW_NULL
    elif out.role == ARROW_DUE:
        return arrow_field_time(field, kind, out, e)
    elif kind == ARROW_TYPE_UTF8 or kind == ARROW_TYPE_BINARY:
        out.kind = ARROW_SMALL
    elif kind == ARROW_TYPE_LARGE_UTF8 or kind == ARROW_TYPE_LARGE_BINARY:
        out.kind = ARROW_LARGE
    else:
        return arrow_refuse_column(e, out.role, b"must be utf8, large_utf8, binary or large_binary")
    if not flat_vector(field, ARROW_FIELD_CHILDREN, 4, &children, &n) or n:
        return arrow_refuse_column(e, out.role, b"has children")
    if flat_field(field, ARROW_FIELD_DICTIONARY, 4) == NULL:
        return True
    if not flat_child(field, ARROW_FIELD_DICTIONARY, &encoding):
        return arrow_refuse(e, b"malformed schema")
    if out.kind == ARROW_NULL:
        return arrow_refuse_column(e, out.role, b"must be utf8, large_utf8, binary or large_binary")
    out.width = 4
    out.is_signed = True
    if flat_field(&encoding, ARROW_ENCODING_INDEX, 4) != NULL:
        if not flat_child(&encoding, ARROW_ENCODING_INDEX, &index):
            return arrow_refuse(e, b"malformed schema")
        out.width = <int>flat_int(&index, ARROW_INT_BITS, 4) // 8
        out.is_signed = flat_int(&index, ARROW_INT_SIGNED, 1) != 0
        if ((out.width != 1 and out.width != 2 and out.width != 4 and out.width != 8)
                or flat_int(&index, ARROW_INT_BITS, 4) % 8):
            return arrow_refuse_column(e, out.role, b"has places of an unknown width")
    out.dictionary = arrow_dictionary(r, flat_int(&encoding, ARROW_ENCODING_ID, 8), True)
    if out.dictionary == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    if out.dictionary.kind != ARROW_NULL and out.dictionary.kind != out.kind:
        return arrow_refuse_column(e, out.role, b"shares a dictionary of another type")
    out.dictionary.kind = out.kind
    return True

cdef ArrowDictionary* arrow_dictionary(ArrowReader* r, int64_t id, bint make) noexcept nogil:
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
