# Reads JSON in place: strict RFC 8259 with strict UTF-8, nothing allocated, numbers and strings left as they were
# written. In: a slice. Out: a cursor (Json) that walks over it once. The cursor's driver picks what it needs and skips,
# and so validates, the rest. Owns nothing. No locks. Strings and numbers are read by json/scalar.
# Never reads at or past `end`. If more is readable behind it (json_padded), objects and arrays are first checked in one
# walk (includes/jsonwalk.h). Only those that the walk does not accept are read byte by byte.

cdef enum:
    JSON_DEPTH = 512          # default of json_open callers
    JSON_DEPTH_MAX = 1024     # what the stack of json_skip can hold: 64 in each of
    JSON_DEPTH_WORDS = 16

cdef struct Json:
    const char* p             # the next byte
    const char* end
    const char* room          # bytes before it may be read, though they are not the text
    const char* begin
    int depth_left
    bint escaped              # the key that json_member returned has escapes
    const char* error         # why the cursor stopped, static text; p then stands at the byte at fault

cdef jsonwalk* json_walks = jsonwalk_best(32)

# ---- bodies of requests ----------------------------------------------------------------------------------------------

cdef bint json_body(Json* j, Slice body, ApiError* e) noexcept nogil:
    # Opens a request's body, or a slice of it: what is readable behind it is readable behind every slice.
    if body.n == 0:
        return refuse(e, b"Empty request body")
    json_open(j, body, JSON_DEPTH)
    json_padded(j)
    if json_peek(j) == 0 and j.p >= j.end:
        return refuse(e, b"Empty request body")
    return True

cdef bint json_body_object(Json* j, Slice body, const char* text, ApiError* e) noexcept nogil:
    # Opens a body at an object; refuses another value with this text.
    if not json_body(j, body, e):
        return False
    if json_peek(j) == b'{':
        return True
    if not json_skip(j, NULL) or not json_end(j):
        return json_refuse(e, j)
    return refuse(e, text)

cdef bint json_refuse(ApiError* e, Json* j) noexcept nogil:
    # Refuses the text, in the reference's words, and says where. Returns False.
    if j.error == NULL:
        return refuse(e, b"Invalid JSON")
    return refuse_as(e, b"Invalid JSON: %s at byte %lld", j.error, <long long>(j.p - j.begin))

# ---- values of a body for the control plane --------------------------------------------------------------------------
# A value of two bytes becomes an object of a hundred there. Only commas and brackets are counted.

cdef enum:
    VALUES_FREE = 65536       # bytes of a text that may have any number
    VALUES_MOST = 250000

cdef bint json_crowded(Slice text) noexcept nogil:
    # Returns True if the text has more values than VALUES_MOST, and stops there. The result for a malformed text is
    # undefined.
    cdef size_t i = 0
    cdef int n = 0
    cdef char c
    if text.n <= VALUES_FREE:
        return False
    while i < text.n:
        c = text.p[i]
        i += 1
        if c == b'"':
            while i < text.n and text.p[i] != b'"':
                i += 2 if text.p[i] == b'\\' else 1
            i += 1
        elif c == b',' or c == b'[' or c == b'{':
            n += 1
            if n > VALUES_MOST:
                return True
    return False

# ---- the cursor ------------------------------------------------------------------------------------------------------

cdef inline void json_open(Json* j, Slice text, int max_depth) noexcept nogil:
    j.p = text.p
    j.begin = text.p
    j.end = text.p + text.n
    j.room = j.end
    j.depth_left = max_depth if max_depth < JSON_DEPTH_MAX else JSON_DEPTH_MAX
    j.escaped = False
    j.error = NULL

cdef inline void json_padded(Json* j) noexcept nogil:
    # Declares JSONWALK_ROOM bytes behind the text readable, whatever they are. Must follow json_open.
    j.room = j.end + JSONWALK_ROOM

cdef bint json_fail(Json* j, const char* p, const char* error) noexcept nogil:
    # Keeps the first error. Returns False, so that callers can return it.
    if j.error == NULL:
        j.p = p
        j.error = error
    return False

cdef inline const char* json_blank(const char* p, const char* end) noexcept nogil:
    # Returns the first byte that is not white space, or end.
    if p < end and <unsigned char>p[0] > b' ':
        return p
    while p < end and (p[0] == b' ' or p[0] == b'\n' or p[0] == b'\r' or p[0] == b'\t'):
        p += 1
    return p

cdef inline int json_peek(Json* j) noexcept nogil:
    # Skips white space. Returns the next byte (1 to 255); 0 at the end of the text, after an error, or at a NUL byte.
    if j.error != NULL:
        return 0
    j.p = json_blank(j.p, j.end)
    return <unsigned char>j.p[0] if j.p < j.end else 0

cdef inline const char* json_colon(Json* j, const char* p) noexcept nogil:
    # Steps over the colon after a key and the white space around it. Returns the value's place, or NULL with j.error
    # set.
    p = json_blank(p, j.end)
    if p >= j.end or p[0] != b':':
        return scalar_fail(j, p, b"expected a colon" if p < j.end else b"unexpected end")
    return json_blank(p + 1, j.end)

cdef inline const char* json_key_end(Json* j, const char* p) noexcept nogil:
    # Steps over a key, its colon and the white space around them. Returns the value's place, or NULL with j.error set.
    # json_member repeats this code: a common function is not inlined, which costs a push 45 instructions a message.
    if p >= j.end or p[0] != b'"':
        return scalar_fail(j, p, b"expected a key" if p < j.end else b"unexpected end")
    p = scalar_string_end(j, p)
    return json_colon(j, p) if p != NULL else NULL

cdef inline const char* json_walk(Json* j, const char* p) noexcept nogil:
    # Returns the byte after the value at p, a brace or bracket; NULL if it must be read byte by byte.
    cdef int high = 0
    cdef const char* stop
    if json_walks == NULL or j.room == j.end:
        return NULL
    stop = json_walks(p, j.end, j.room, j.depth_left, &high)
    if high and stop != NULL and not text_is_utf8(slice_of(p, stop - p)):
        return NULL
    return stop

# ---- whole values ----------------------------------------------------------------------------------------------------

cdef bint json_skip(Json* j, Slice* raw) noexcept nogil:
    # Steps over one complete value, its exact bytes in raw (may be NULL). Returns False with j.error set. Does not
    # recurse.
    cdef uint64_t[JSON_DEPTH_WORDS] objects     # one bit per open container: set for an object
    cdef const char* end = j.end
    cdef const char* p
    cdef const char* start
    cdef int depth = 0
    cdef bint inside = False                    # in an object; valid only if depth > 0
    cdef char c
    if j.error != NULL:
        return False
    p = json_blank(j.p, end)
    start = p
    if p < end and (p[0] == b'{' or p[0] == b'['):
        p = json_walk(j, p)
        if p != NULL:
            j.p = p
            if raw != NULL:
                raw[0] = slice_of(start, p - start)
            return True
        p = start
    while True:
        # at the first byte of a value
        if p >= end:
            return json_fail(j, p, b"unexpected end")
        c = p[0]
        if c == b'"':
            p = scalar_string_end(j, p)
            if p == NULL:
                return False
        elif c == b'{' or c == b'[':
            if depth >= j.depth_left:
                return json_fail(j, p, b"nested too deep")
            p = json_blank(p + 1, end)
            if p < end and p[0] == c + 2:           # '}' is '{' + 2, ']' is '[' + 2
                p += 1
            else:
                if depth:
                    objects[(depth - 1) >> 6] &= ~(<uint64_t>1 << ((depth - 1) & 63))
                    objects[(depth - 1) >> 6] |= <uint64_t>inside << ((depth - 1) & 63)
                depth += 1
                inside = c == b'{'
                if inside:
                    p = json_key_end(j, p)
                    if p == NULL:
                        return False
                continue
        else:
            p = scalar_end(j, p)
            if p == NULL:
                return False
        # after a value
        while True:
            if depth == 0:
                j.p = p
                if raw != NULL:
                    raw[0] = slice_of(start, p - start)
                return True
            p = json_blank(p, end)
            if p >= end:
                return json_fail(j, p, b"unexpected end")
            c = p[0]
            if c == b',':
                p = json_blank(p + 1, end)
                if inside:
                    p = json_key_end(j, p)
                    if p == NULL:
                        return False
                break
            if c != (c'}' if inside else c']'):
                return json_fail(j, p, b"expected a comma or a closing brace" if inside
                                 else b"expected a comma or a closing bracket")
            p += 1
            depth -= 1
            if depth:
                inside = objects[(depth - 1) >> 6] >> ((depth - 1) & 63) & 1

cdef inline bint json_string(Json* j, Slice* raw) noexcept nogil:
    # Reads a string: its bytes with the quotes, validated.
    cdef const char* start
    cdef const char* p
    if json_peek(j) != b'"':
        return json_fail(j, j.p, b"expected a string")
    start = j.p
    p = scalar_string_end(j, start)
    if p == NULL:
        return False
    raw[0] = slice_of(start, p - start)
    j.p = p
    return True

# ---- members and elements --------------------------------------------------------------------------------------------

cdef bint json_enter(Json* j, char opening) noexcept nogil:
    # Steps over '{' or '['; iteration by json_member or json_element follows.
    if json_peek(j) != opening:
        return json_fail(j, j.p, b"expected an object" if opening == b'{' else b"expected an array")
    if j.depth_left <= 0:
        return json_fail(j, j.p, b"nested too deep")
    j.depth_left -= 1
    j.p += 1
    return True

cdef inline bint json_object(Json* j, Slice text) noexcept nogil:
    # Opens a text and steps over its opening brace. Returns False if it is no object.
    json_open(j, text, JSON_DEPTH)
    return json_enter(j, b'{')

cdef inline bint json_member(Json* j, bint* first, Slice* key_raw) noexcept nogil:
    # Takes the next member. Requires json_enter(j, '{') and first set to True by the caller. Returns True with the
    # key's literal (quotes included) and the cursor at its value, which the caller must consume. Returns False after
    # the closing brace or with j.error set.
    cdef int c = json_peek(j)
    cdef const char* start
    cdef const char* p
    if j.error != NULL:
        return False
    if c == b'}':
        j.p += 1
        j.depth_left += 1
        return False
    if not first[0]:
        if c != b',':
            return json_fail(j, j.p, b"expected a comma or a closing brace" if j.p < j.end else b"unexpected end")
        j.p += 1
    first[0] = False
    start = json_blank(j.p, j.end)
    if start >= j.end or start[0] != b'"':
        return json_fail(j, start, b"expected a key" if start < j.end else b"unexpected end")
    j.escaped = False
    p = scalar_string_end(j, start)
    if p == NULL:
        return False
    key_raw[0] = slice_of(start, p - start)
    p = json_colon(j, p)
    if p == NULL:
        return False
    j.p = p
    return True

cdef bint json_element(Json* j, bint* first) noexcept nogil:
    # Takes the next element. Requires json_enter(j, '[') and first set to True by the caller. Returns True with the
    # cursor at an element, which the caller must consume. Returns False after the closing bracket or with j.error set.
    cdef int c = json_peek(j)
    if j.error != NULL:
        return False
    if c == b']' :
        j.p += 1
        j.depth_left += 1
        return False
    if not first[0]:
        if c != b',':
            return json_fail(j, j.p, b"expected a comma or a closing bracket" if j.p < j.end else b"unexpected end")
        j.p += 1
        c = json_peek(j)
    if j.p >= j.end or c == b']':
        return json_fail(j, j.p, b"expected a value" if j.p < j.end else b"unexpected end")
    first[0] = False
    return True

cdef bint json_end(Json* j) noexcept nogil:
    # Returns True if only white space is left.
    json_peek(j)
    if j.error != NULL:
        return False
    if j.p < j.end:
        return json_fail(j, j.p, b"unexpected byte after the value")
    return True
