# What the routes share: paths, queries, names and the texts of refusals.

cdef const HotRoute* route_match(int method, Slice path) noexcept nogil:
    # NULL: it belongs to the control plane.
    cdef int i
    for i in range(n_hot_routes):
        if hot_routes[i].methods >> method & 1 and route_fits(&hot_routes[i], path):
            return &hot_routes[i]
    return NULL

cdef inline bint route_fits(const HotRoute* t, Slice path) noexcept nogil:
    cdef const char* at = t.path + t.fixed
    cdef const char* p = path.p + t.fixed
    cdef const char* end = path.p + path.n
    cdef const char* begin
    if path.n < t.fixed or memcmp(path.p, t.path, t.fixed) != 0:
        return False
    while at[0]:
        if at[0] != b':':
            if p == end or p[0] != at[0]:
                return False
            p += 1
            at += 1
            continue
        begin = p
        while p < end and p[0] != b'/':
            p += 1
        while at[0] and at[0] != b'/' and at[0] != b'?':
            at += 1
        if at[0] == b'?':
            at += 1
        elif p == begin:
            return False
    return p == end

cdef bint percent_decode(Slice raw, Arena* a, bint plus, Slice* out) noexcept nogil:
    # %XX once, and '+' to a blank where asked. False: a bad escape, a NUL, text that is not UTF-8, or no memory.
    cdef char* text
    cdef size_t i = 0
    cdef size_t n = 0
    cdef int high, low
    cdef bint plain = memchr(raw.p, b'%', raw.n) == NULL and not (plus and memchr(raw.p, b'+', raw.n) != NULL)
    if plain:
        out[0] = raw
        return utf8_valid(raw) and memchr(raw.p, 0, raw.n) == NULL
    text = <char*>arena_alloc(a, raw.n)
    if text == NULL:
        return False
    while i < raw.n:
        if raw.p[i] == b'%':
            if i + 2 >= raw.n:
                return False
            high = hex_value(<unsigned char>raw.p[i + 1])
            low = hex_value(<unsigned char>raw.p[i + 2])
            if high < 0 or low < 0 or (high == 0 and low == 0):
                return False
            text[n] = <char>(high * 16 + low)
            i += 3
        else:
            text[n] = b' ' if plus and raw.p[i] == b'+' else raw.p[i]
            i += 1
        n += 1
    out[0] = slice_of(text, n)
    return utf8_valid(out[0])

cdef int query_find(Slice query, const char* key, Arena* a, Slice* out) noexcept nogil:
    # The first value of a key: 1 found, 0 absent, -1 found but not decodable.
    cdef const char* p = query.p
    cdef const char* end = query.p + query.n
    cdef const char* stop
    cdef const char* equal
    cdef size_t n = strlen(key)
    out[0] = slice_of(NULL, 0)
    while p < end:
        stop = <const char*>memchr(p, b'&', end - p)
        if stop == NULL:
            stop = end
        equal = <const char*>memchr(p, b'=', stop - p)
        if <size_t>((equal if equal != NULL else stop) - p) == n and memcmp(p, key, n) == 0:
            if equal == NULL:
                out[0] = slice_of(stop, 0)
                return 1
            return 1 if percent_decode(slice_of(equal + 1, stop - equal - 1), a, True, out) else -1
        p = stop + 1
    return 0

cdef bint query_int(Slice query, const char* key, Arena* a, int missing, int* out) noexcept nogil:
    # C stoi: blanks and a sign before, rubbish behind; what is no number, or none that fits, is the default. False:
    # absent.
    cdef Slice s
    cdef size_t i = 0
    cdef int64_t v = 0
    cdef bint negative = False
    cdef size_t digits = 0
    out[0] = missing
    if query_find(query, key, a, &s) != 1 or s.n == 0:
        return False
    while i < s.n and (s.p[i] == b' ' or (9 <= s.p[i] <= 13)):
        i += 1
    if i < s.n and (s.p[i] == b'-' or s.p[i] == b'+'):
        negative = s.p[i] == b'-'
        i += 1
    while i < s.n and 48 <= s.p[i] <= 57:
        v = v * 10 + (s.p[i] - 48)
        if v > 0x7fffffff:
            return False
        i += 1
        digits += 1
    if digits == 0:
        return False
    out[0] = <int>(-v if negative else v)
    return True

cdef bint query_bool(Slice query, const char* key, Arena* a) noexcept nogil:
    cdef Slice s
    return query_find(query, key, a, &s) == 1 and (slice_is(s, b"true") or slice_is(s, b"1"))

cdef bint refuse(ApiError* e, const char* text) noexcept nogil:
    error_set(e, 400, text)
    return False

cdef bint refuse_json(ApiError* e, Json* j) noexcept nogil:
    # The reference's words, and where.
    e.status = 400
    if j.error == NULL:
        strncpy(e.text, b"Invalid JSON", 239)
    else:
        snprintf(e.text, 239, b"Invalid JSON: %s at byte %lld", j.error, <long long>(j.p - j.begin))
    return False

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

cdef bint txid_take(Slice raw, Arena* a, Slice* out) noexcept nogil:
    # The same for a transactionId: at most 255 characters.
    cdef bint half = False
    return json_unescape(raw, a, out, &half) and not half and txid_fits(out[0])

cdef bint txid_fits(Slice text) noexcept nogil:
    # Text that is UTF-8.
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

cdef bint body_open(Json* j, Slice body, ApiError* e) noexcept nogil:
    # A request's body, or a slice of it: what is readable behind it is readable behind every slice.
    if body.n == 0:
        return refuse(e, b"Empty request body")
    json_open(j, body, JSON_DEPTH)
    json_padded(j)
    if json_peek(j) == 0 and j.p >= j.end:
        return refuse(e, b"Empty request body")
    return True

cdef inline bint member_next(Json* j, bint* first, Arena* a, Slice* key) noexcept nogil:
    # json_member with the key as if it had been written without escapes.
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
    # key_raw: the literal with its quotes.
    cdef size_t n = strlen(name)
    return key_raw.n == n + 2 and memcmp(key_raw.p + 1, name, n) == 0

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

cdef inline void put_uuid(Buf* b, const unsigned char* id) noexcept nogil:
    # A literal with its quotes.
    cdef char* at = buf_reserve(b, 38)
    if at != NULL:
        at[0] = b'"'
        uuid_format(id, at + 1)
        at[37] = b'"'

cdef inline void put_time(Buf* b, int64_t us, int digits) noexcept nogil:
    cdef char* at = buf_reserve(b, 23 + digits)
    if at != NULL:
        at[0] = b'"'
        clock_format(us, digits, at + 1)
        at[22 + digits] = b'"'
