# What a client is told when a request is refused: one status and one text, written where the reason is known.

cdef struct ApiError:
    int status
    char[240] text            # NUL-terminated UTF-8 without control characters

cdef inline void error_set(ApiError* e, int status, const char* text) noexcept nogil:
    e.status = status
    strncpy(e.text, text, 239)
    e.text[239] = 0
