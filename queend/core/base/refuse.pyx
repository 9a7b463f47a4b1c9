# The error of a refused request: a status and a text. In: the reason, where it is known. Out: what the answer tells the
# client (net/reply). Owner: the request. No locks.

cdef struct ApiError:
    int status
    char[240] text            # NUL-terminated UTF-8 without control characters

cdef enum:
    REFUSED_HERE = 1          # no status of HTTP: the body takes long, and has to be read again off the loop

cdef inline bint refuse_set(ApiError* e, int status, const char* text) noexcept nogil:
    # Sets the error. Returns False, as all functions here do.
    e.status = status
    strncpy(e.text, text, 239)
    e.text[239] = 0
    return False

cdef bint refuse(ApiError* e, const char* text) noexcept nogil:
    return refuse_set(e, 400, text)

cdef bint refuse_memory(ApiError* e) noexcept nogil:
    return refuse_set(e, 503, b"Out of memory")

cdef extern from * nogil:
    """
    #include <stdio.h>
    /* A refusal with a formatted text. Always 0, so that callers can return it. */
    #define ERROR_AS(e, ...) ((e)->status = 400, snprintf((e)->text, sizeof (e)->text - 1, __VA_ARGS__), 0)
    """
    bint refuse_as "ERROR_AS"(ApiError* e, const char* format, ...)       # like printf; status 400, returns False
