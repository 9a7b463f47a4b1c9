# Members of an object by name. In: a cursor in an object, or a name and a value. Out: keys, compared however they are
# escaped; or a member in a buffer, whose name is given with its quotes, colon and comma. Owns nothing. No locks.

cdef inline bint member_next(Json* j, bint* first, Arena* a, Slice* key) noexcept nogil:
    # Reads like json_member, with the key as if it had been written without escapes.
    cdef char* text
    cdef Slice unescaped
    if not json_member(j, first, key):
        return False
    if j.escaped and text_unescape(key[0], a, &unescaped, NULL):
        text = <char*>arena_alloc(a, unescaped.n + 2)
        if text != NULL:
            text[0] = b'"'
            memcpy(text + 1, unescaped.p, unescaped.n)
            text[unescaped.n + 1] = b'"'
            key[0] = slice_of(text, unescaped.n + 2)
    return True

cdef inline bint member_is(Slice key_raw, const char* name) noexcept nogil:
    # Returns True if the key is `name`. key_raw: the literal with its quotes.
    cdef size_t n = strlen(name)
    return key_raw.n == n + 2 and memcmp(key_raw.p + 1, name, n) == 0

# ---- members written -------------------------------------------------------------------------------------------------

cdef inline void member_int(Buf* b, const char* name, int64_t v) noexcept nogil:
    buf_text(b, name)
    buf_int(b, v)

cdef inline void member_text(Buf* b, const char* name, Slice text) noexcept nogil:
    buf_text(b, name)
    text_escape(b, text)

cdef inline void member_raw(Buf* b, const char* name, Slice literal) noexcept nogil:
    buf_text(b, name)
    buf_slice(b, literal)

cdef inline void member_bool(Buf* b, const char* name, bint v) noexcept nogil:
    buf_text(b, name)
    buf_text(b, b"true" if v else b"false")

cdef inline void member_uuid(Buf* b, const char* name, const unsigned char* id) noexcept nogil:
    buf_text(b, name)
    text_uuid(b, id)
