# What several routes need: the checks of names and ids, and where an item is refused.

cdef bint refuse_item(ApiError* e, const char* text, const char* what, int index, const char* field) noexcept nogil:
    # `Queue must be a string (item 3, field queue)`
    e.status = 400
    snprintf(e.text, 239, b"%s (%s %d, field %s)", text, what, index, field)
    return False

cdef bint name_take(Slice raw, Arena* a, Slice* out) noexcept nogil:
    # A literal becomes a name: at most 255 bytes of UTF-8, no NUL, no half surrogate.
    cdef bint half = False
    if not json_unescape(raw, a, out, &half) or half:
        return False
    return name_fits(out[0])

cdef inline bint name_fits(Slice text) noexcept nogil:
    # Text that is UTF-8.
    return text.n <= NAME_MAX and memchr(text.p, 0, text.n) == NULL

cdef bint txid_fits(Slice text) noexcept nogil:
    # A transactionId: at most 255 characters. Text that is UTF-8.
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

cdef inline bint record_uuid(Slice text, unsigned char* id, uint8_t* kind) noexcept nogil:
    # A UUID in canonical form is its own id.
    if text.n != 36 or wide_uuid_parse(text.p, id) != 1:
        return False
    # by the version nibble alone, as the database tells them apart
    kind[0] = 1 if (id[6] >> 4) == 7 else 2
    return True

cdef bint record_id(Slice text, unsigned char* id, uint8_t* kind, uint8_t* keep_text) noexcept nogil:
    # The 16 bytes a transactionId is stored and searched by (docs/inside/storage.md).
    cdef unsigned char[32] digest
    keep_text[0] = 0
    if record_uuid(text, id, kind):
        return True
    SHA256(<const unsigned char*>text.p, text.n, digest)
    memcpy(id, digest, 16)
    id[6] = (id[6] & 0x0f) | 0x80
    id[8] = (id[8] & 0x3f) | 0x80
    kind[0] = 2
    keep_text[0] = 1
    return True

cdef bint record_take(Slice raw, Arena* a, Slice* text, unsigned char* id, uint8_t* kind,
                      uint8_t* keep_text) noexcept nogil:
    # The same of a literal. A UUID in canonical form needs no other look. False: it is none that may be one.
    cdef bint half = False
    keep_text[0] = 0
    text[0] = slice_of(raw.p + 1, raw.n - 2)
    if record_uuid(text[0], id, kind):
        return True
    if not json_unescape(raw, a, text, &half) or half or not txid_fits(text[0]):
        return False
    return record_id(text[0], id, kind, keep_text)
