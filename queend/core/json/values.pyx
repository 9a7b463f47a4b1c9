# Is a JSON text more than the control plane is to parse? A value of two bytes becomes an object of a hundred there.
# Commas and brackets are counted, nothing else is looked at.

cdef enum:
    VALUES_FREE = 65536       # bytes of a text that may have any number
    VALUES_MOST = 250000

cdef bint json_crowded(Slice text) noexcept nogil:
    # More values than the control plane parses? Stops there. A text that is none may be told anything.
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
