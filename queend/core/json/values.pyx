# Checks whether a JSON text has more values than the control plane may parse. A value of two bytes becomes an object of
# a hundred there. Only commas and brackets are counted.

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
