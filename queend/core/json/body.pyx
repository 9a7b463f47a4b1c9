# Opens a request's body as JSON, or refuses it.

cdef bint refuse_json(ApiError* e, Json* j) noexcept nogil:
    # Refuses the text, in the reference's words, and says where. Returns False.
    e.status = 400
    if j.error == NULL:
        strncpy(e.text, b"Invalid JSON", 239)
    else:
        snprintf(e.text, 239, b"Invalid JSON: %s at byte %lld", j.error, <long long>(j.p - j.begin))
    return False

cdef bint body_open(Json* j, Slice body, ApiError* e) noexcept nogil:
    # Opens a request's body, or a slice of it: what is readable behind it is readable behind every slice.
    if body.n == 0:
        return refuse(e, b"Empty request body")
    json_open(j, body, JSON_DEPTH)
    json_padded(j)
    if json_peek(j) == 0 and j.p >= j.end:
        return refuse(e, b"Empty request body")
    return True

cdef bint body_object(Json* j, Slice body, const char* text, ApiError* e) noexcept nogil:
    # Opens a body at an object; refuses another value with this text.
    if not body_open(j, body, e):
        return False
    if json_peek(j) == b'{':
        return True
    if not json_skip(j, NULL) or not json_end(j):
        return refuse_json(e, j)
    return refuse(e, text)
