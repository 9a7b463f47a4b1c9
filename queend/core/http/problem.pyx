# An error as application/problem+json (RFC 9457) for clients whose Accept names it. In: a status and a text, or a JSON
# body with `error`. Out: bytes. Accept is looked at only when an error is written. Owns nothing. No locks.
# All problems have the type about:blank. The status says what they are; `detail` and, if present, `code` say more. The
# member `error` stays for clients that read it.

cdef const char* PROBLEM_TYPE = b"application/problem+json"

cdef bint problem_wanted(Slice headers) noexcept nogil:
    # Returns True if the client takes problems at least as willingly as plain JSON.
    cdef int weight = header_accept(headers, PROBLEM_TYPE)
    return weight > 0 and weight >= header_accept(headers, JSON_TYPE)

cdef void problem_open(Buf* b, int status, Slice path) noexcept nogil:
    # Writes the members up to `instance`, the path as it was sent.
    buf_text(b, b'{"type":"about:blank","title":"')
    buf_text(b, response_phrase(status))
    member_int(b, b'","status":', status)
    buf_text(b, b',"instance":"')
    uri_encode(b, path, False)
    buf_byte(b, b'"')

cdef void problem_put(Buf* b, int status, Slice path, Slice text) noexcept nogil:
    # Writes a refusal in words.
    problem_open(b, status, path)
    member_text(b, b',"detail":', text)
    member_text(b, b',"error":', text)
    buf_byte(b, b'}')

cdef bint problem_error(Slice body, Slice* literal) noexcept nogil:
    # Finds the text of {"error": "…", …}, with its quotes. Returns False if the body has another form.
    cdef Json j
    cdef Slice key, value
    cdef bint first = True
    literal[0] = slice_of(NULL, 0)
    if not json_object(&j, body):
        return False
    while json_member(&j, &first, &key):
        if not json_skip(&j, &value):
            return False
        if key.n == 7 and memcmp(key.p, b'"error"', 7) == 0 and value.p[0] == b'"':
            literal[0] = value
    return j.error == NULL and literal.p != NULL

cdef void problem_copy(Buf* b, int status, Slice path, Slice error, Slice body) noexcept nogil:
    # Writes a JSON body as a problem: with its members, except those that mean something else in a problem. error: from
    # problem_error.
    cdef Json j
    cdef Slice key, value
    cdef bint first = True
    problem_open(b, status, path)
    member_raw(b, b',"detail":', error)
    json_object(&j, body)
    while json_member(&j, &first, &key) and json_skip(&j, &value):
        if not (slice_is(key, b'"type"') or slice_is(key, b'"title"') or slice_is(key, b'"status"')
                or slice_is(key, b'"detail"') or slice_is(key, b'"instance"')):
            buf_byte(b, b',')
            buf_slice(b, key)
            buf_byte(b, b':')
            buf_slice(b, value)
    buf_byte(b, b'}')
