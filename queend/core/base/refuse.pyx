# The error of a refused request: a status and a text. In: the reason, where it is known. Out: what the answer tells the
# client (net/reply). Owner: the request. No locks.

cdef struct ApiError:
    int status
    char[240] text            # NUL-terminated UTF-8 without control characters

cdef enum:
    REFUSED_HERE = 1          # no status of HTTP: the body takes long, and has to be read again off the loop

cdef inline void refuse_set(ApiError* e, int status, const char* text) noexcept nogil:
    e.status = status
    strncpy(e.text, text, 239)
    e.text[239] = 0

cdef bint refuse(ApiError* e, const char* text) noexcept nogil:
    refuse_set(e, 400, text)
    return False

cdef bint refuse_memory(ApiError* e) noexcept nogil:
    refuse_set(e, 503, b"Out of memory")
    return False

cdef extern from "error.h" nogil:
    bint refuse_as "ERROR_AS"(ApiError* e, const char* format, ...)       # like printf; status 400, returns False
