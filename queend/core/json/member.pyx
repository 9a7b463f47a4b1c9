# Reads the members of an object by name, however the name is escaped.

cdef inline bint member_next(Json* j, bint* first, Arena* a, Slice* key) noexcept nogil:
    # Reads like json_member, with the key as if it had been written without escapes.
    cdef char* text
    cdef Slice plain
    if not json_member(j, first, key):
        return False
    if j.escaped and json_unescape(key[0], a, &plain, NULL):
        text = <char*>arena_alloc(a, plain.n + 2)
        if text != NULL:
            text[0] = b'"'
            memcpy(text + 1, plain.p, plain.n)
            text[plain.n + 1] = b'"'
            key[0] = slice_of(text, plain.n + 2)
    return True

cdef inline bint key_is(Slice key_raw, const char* name) noexcept nogil:
    # Returns True if the key is `name`. key_raw: the literal with its quotes.
    cdef size_t n = strlen(name)
    return key_raw.n == n + 2 and memcmp(key_raw.p + 1, name, n) == 0
