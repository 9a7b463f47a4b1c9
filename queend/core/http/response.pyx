# The head of an answer: status line, date, whether the connection stays, length. In: a buffer. Out: the same, with room
# for a length that is filled in when the body is written. Also an error as problem+json. In: a status and a text, or a
# JSON body with `error`. Out: bytes. A spelled date belongs to its worker. No locks.

cdef enum:
    LENGTH_WIDTH = 11         # room for the digits of a body's length; blanks before a field's value mean nothing

cdef const char* JSON_TYPE = b"application/json"
cdef const char* EVENTS_TYPE = b"application/cloudevents-batch+json"
cdef const char* PROBLEM_TYPE = b"application/problem+json"
cdef const char* JSON_LINES = b"Content-Type: application/json\r\n"

cdef struct HttpDate:
    int64_t second            # since the epoch; of text
    char[40] text             # `Sun, 06 Nov 1994 08:49:37 GMT`, NUL-terminated

cdef void response_date(HttpDate* d, int64_t second) noexcept nogil:
    # Spells the second unless it already stands there.
    cdef char[27] iso
    cdef const char* days = b"ThuFriSatSunMonTueWed"          # 1 January 1970 was a Thursday
    cdef const char* months = b"JanFebMarAprMayJunJulAugSepOctNovDec"
    cdef char* t = d.text
    cdef int month
    if d.second == second and t[0] != 0:
        return
    d.second = second
    clock_format(second * 1000000, 3, iso)
    month = (iso[5] - c'0') * 10 + iso[6] - c'1'
    memcpy(t, days + (second // 86400 % 7) * 3, 3)
    memcpy(t + 3, b", ", 2)
    memcpy(t + 5, iso + 8, 2)
    t[7] = b' '
    memcpy(t + 8, months + month * 3, 3)
    t[11] = b' '
    memcpy(t + 12, iso, 4)
    t[16] = b' '
    memcpy(t + 17, iso + 11, 8)
    memcpy(t + 25, b" GMT", 5)

cdef const char* response_phrase(int status) noexcept nogil:
    if status == 101: return b"Switching Protocols"
    if status == 200: return b"OK"
    if status == 201: return b"Created"
    if status == 202: return b"Accepted"
    if status == 204: return b"No Content"
    if status == 304: return b"Not Modified"
    if status == 307: return b"Temporary Redirect"
    if status == 400: return b"Bad Request"
    if status == 401: return b"Unauthorized"
    if status == 403: return b"Forbidden"
    if status == 404: return b"Not Found"
    if status == 405: return b"Method Not Allowed"
    if status == 408: return b"Request Timeout"
    if status == 409: return b"Conflict"
    if status == 413: return b"Content Too Large"
    if status == 414: return b"URI Too Long"
    if status == 415: return b"Unsupported Media Type"
    if status == 416: return b"Range Not Satisfiable"
    if status == 417: return b"Expectation Failed"
    if status == 422: return b"Unprocessable Content"
    if status == 426: return b"Upgrade Required"
    if status == 429: return b"Too Many Requests"
    if status == 431: return b"Request Header Fields Too Large"
    if status == 500: return b"Internal Server Error"
    if status == 501: return b"Not Implemented"
    if status == 503: return b"Service Unavailable"
    if status == 505: return b"HTTP Version Not Supported"
    return b"Status"

cdef void response_begin(Buf* b, int status, const char* date) noexcept nogil:
    # Writes status line, date, and that the Content-Type is what the body is. Further header lines may follow.
    buf_put(b, b"HTTP/1.1 ", 9)
    buf_int(b, status)
    buf_byte(b, b' ')
    buf_text(b, response_phrase(status))
    buf_put(b, b"\r\nDate: ", 8)
    buf_text(b, date)
    buf_put(b, b"\r\nX-Content-Type-Options: nosniff\r\n", 35)

cdef void response_end(Buf* b, int status, bint keep_alive, bint http10) noexcept nogil:
    # Ends the head: Connection if it differs from the version's default, room for the length, and the blank line.
    # Leaves the length out for 204 and 304, which have no body.
    if not keep_alive:
        buf_text(b, b"Connection: close\r\n")
    elif http10:
        buf_text(b, b"Connection: keep-alive\r\n")
    if status == 204 or status == 304:
        buf_put(b, b"\r\n", 2)
    else:
        buf_text(b, b"Content-Length:            \r\n\r\n")      # LENGTH_WIDTH and one blanks

cdef void response_length(Buf* b, size_t head_size, size_t length) noexcept nogil:
    # Fills in the length in a head of head_size bytes at the beginning of the buffer.
    cdef char* at = b.data + head_size - 4
    cdef int i
    for i in range(LENGTH_WIDTH):
        at -= 1
        at[0] = <char>(c'0' + length % 10)
        length //= 10
        if length == 0:
            return

# ---- problems --------------------------------------------------------------------------------------------------------
# An error as application/problem+json (RFC 9457), for clients whose Accept names it. Accept is looked at only when an
# error is written. All problems have the type about:blank. The status says what they are; `detail` and, if present,
# `code` say more. The member `error` stays for clients that read it.

cdef bint response_problem_wanted(Slice headers) noexcept nogil:
    # Returns True if the client takes problems at least as willingly as plain JSON.
    cdef int weight = header_accept(headers, PROBLEM_TYPE)
    return weight > 0 and weight >= header_accept(headers, JSON_TYPE)

cdef void response_problem_open(Buf* b, int status, Slice path) noexcept nogil:
    # Writes the members up to `instance`, the path as it was sent.
    buf_text(b, b'{"type":"about:blank","title":"')
    buf_text(b, response_phrase(status))
    member_int(b, b'","status":', status)
    buf_text(b, b',"instance":"')
    uri_encode(b, path, False)
    buf_byte(b, b'"')

cdef void response_problem_put(Buf* b, int status, Slice path, Slice text) noexcept nogil:
    # Writes a refusal in words.
    response_problem_open(b, status, path)
    member_text(b, b',"detail":', text)
    member_text(b, b',"error":', text)
    buf_byte(b, b'}')

cdef bint response_problem_error(Slice body, Slice* literal) noexcept nogil:
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

cdef void response_problem_copy(Buf* b, int status, Slice path, Slice error, Slice body) noexcept nogil:
    # Writes a JSON body as a problem: with its members, except those that mean something else in a problem. error: from
    # response_problem_error.
    cdef Json j
    cdef Slice key, value
    cdef bint first = True
    response_problem_open(b, status, path)
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
