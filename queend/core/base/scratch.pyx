# Keeps memory that is used for one item after another. It grows as needed, and is freed at the next use if it is large.

cdef enum:
    SCRATCH_LEAST = 65536
    SCRATCH_KEEP = 1048576    # bytes kept from one use to the next

cdef struct Scratch:
    char* p
    size_t size

cdef bint scratch_room(Scratch* s, size_t n) noexcept nogil:
    # Makes room for n bytes and discards the old content. Returns False if memory ran out.
    if n <= s.size and s.size <= SCRATCH_KEEP:
        return True
    free(s.p)
    s.size = max(n, <size_t>SCRATCH_LEAST)
    s.p = <char*>malloc(s.size)
    if s.p == NULL:
        s.size = 0
    return s.p != NULL
