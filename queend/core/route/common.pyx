# Checks and reads names, ids and numbers for several routes, and words the refusal of an item or a parameter. In:
# literals or texts. Out: their values, or a refusal.

cdef const char* QUEUE_TEXT = b"Queue must be a non-empty text of at most 255 bytes"
cdef const char* PARTITION_TEXT = b"Partition must be valid text of at most 255 bytes"
cdef const char* TXID_TEXT = b"TransactionId must be valid text of at most 255 characters"

cdef bint refuse_item(ApiError* e, const char* text, const char* what, int index, const char* field) noexcept nogil:
    # Refuses an item: `Queue must be a string (item 3, field queue)`. Returns False.
    return refuse_as(e, b"%s (%s %d, field %s)", text, what, index, field)

cdef bint refuse_query(ApiError* e, const char* text, const char* field) noexcept nogil:
    return refuse_as(e, b"%s (query, field %s)", text, field)

cdef bint name_take(Slice raw, Arena* a, Slice* out) noexcept nogil:
    # Reads a literal as a name: at most 255 bytes of UTF-8, without a NUL or a lone surrogate. Returns False otherwise.
    cdef bint half = False
    if not json_unescape(raw, a, out, &half) or half:
        return False
    return name_fits(out[0])

cdef inline bint name_fits(Slice text) noexcept nogil:
    # Returns True if the text may be a name. Requires UTF-8.
    return text.n <= NAME_MAX and memchr(text.p, 0, text.n) == NULL

cdef inline bint name_valid(Slice bytes) noexcept nogil:
    return name_fits(bytes) and utf8_valid(bytes)

cdef bint txid_fits(Slice text) noexcept nogil:
    # Returns True if the text may be a transactionId, at most 255 characters. Requires UTF-8.
    cdef size_t i
    cdef size_t n = 0
    if memchr(text.p, 0, text.n) != NULL:
        return False
    if text.n <= TXID_MAX:
        return True
    for i in range(text.n):
        if (<unsigned char>text.p[i] & 0xc0) != 0x80:
            n += 1
    return n <= TXID_MAX

cdef inline bint txid_valid(Slice bytes) noexcept nogil:
    return txid_fits(bytes) and utf8_valid(bytes)

cdef inline bint uuid_plain(Slice text, unsigned char* id) noexcept nogil:
    # Returns True if the text is a UUID in canonical spelling, which is written to id.
    return text.n == 36 and wide_uuid_parse(text.p, id) == UUID_LOWER

cdef inline bint record_uuid(Slice text, unsigned char* id, uint8_t* kind) noexcept nogil:
    # Returns True if the text is a UUID in canonical spelling: it is its own id.
    if not uuid_plain(text, id):
        return False
    # the kind follows from the version nibble alone, as in the database
    kind[0] = ID_V7 if (id[6] >> 4) == 7 else ID_OTHER
    return True

cdef void digest_id(const void* text, size_t n, unsigned char* id) noexcept nogil:
    # Computes the id of a text: a UUID of version 8.
    cdef unsigned char[32] digest
    SHA256(<const unsigned char*>text, n, digest)
    memcpy(id, digest, 16)
    id[6] = (id[6] & 0x0f) | 0x80
    id[8] = (id[8] & 0x3f) | 0x80

cdef void record_id(Slice text, unsigned char* id, uint8_t* kind, uint8_t* keep_text) noexcept nogil:
    # Computes the 16 bytes by which a transactionId is stored and searched (docs/inside/storage.md).
    keep_text[0] = 0
    if record_uuid(text, id, kind):
        return
    digest_id(text.p, text.n, id)
    kind[0] = ID_OTHER
    keep_text[0] = 1

cdef bint record_take(Slice raw, Arena* a, Slice* text, unsigned char* id, uint8_t* kind,
                      uint8_t* keep_text) noexcept nogil:
    # Reads a literal as a transactionId and its record id. A UUID in canonical spelling needs no other check. Returns
    # False if the literal cannot be a transactionId.
    cdef bint half = False
    keep_text[0] = 0
    text[0] = slice_of(raw.p + 1, raw.n - 2)
    if record_uuid(text[0], id, kind):
        return True
    if not json_unescape(raw, a, text, &half) or half or not txid_fits(text[0]):
        return False
    record_id(text[0], id, kind, keep_text)
    return True

cdef bint whole_take(Slice raw, int64_t* out) noexcept nogil:
    # Reads a JSON number that is whole and not negative, of at most 18 digits.
    cdef size_t i
    cdef int64_t v = 0
    if raw.n == 0 or raw.n > 18:
        return False
    for i in range(raw.n):
        if not b'0' <= raw.p[i] <= b'9':
            return False
        v = v * 10 + raw.p[i] - c'0'
    out[0] = v
    return True

cdef bint json_whole(Json* j, Slice text, Slice* value) noexcept nogil:
    # Returns True if the text is exactly one JSON value; else j has the error. Requires readable bytes behind the text,
    # as behind a body. value: may be NULL.
    json_open(j, text, JSON_DEPTH)
    json_padded(j)
    return json_skip(j, value) and json_end(j)

cdef Slice text_pair(Slice one, Slice other, Arena* a) noexcept nogil:
    # Returns both texts with a NUL between them; p NULL if memory ran out.
    cdef char* text = <char*>arena_alloc(a, one.n + 1 + other.n)
    if slice_copy(text, one).p == NULL:
        return slice_of(NULL, 0)
    memcpy(text + one.n + 1, other.p, other.n)
    return slice_of(text, one.n + 1 + other.n)
