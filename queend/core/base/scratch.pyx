# Memory for one thing after another: it grows to what is asked for, and what is large is not kept.

cdef enum:
    SCRATCH_LEAST = 65536
    SCRATCH_KEEP = 1048576    # bytes kept from one to the next

cdef struct Scratch:
    char* p
    size_t size

cdef bint scratch_room(Scratch* s, size_t n) noexcept nogil:
    # n bytes; what stood there is gone. False when memory ran out.
    if n <= s.size and s.size <= SCRATCH_KEEP:
        return True
    free(s.p)
    s.size = max(n, <size_t>SCRATCH_LEAST)
    s.p = <char*>malloc(s.size)
    if s.p == NULL:
        s.size = 0
    return s.p != NULL
