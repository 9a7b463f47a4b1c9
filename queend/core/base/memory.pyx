# What the allocator keeps. A request of a thousand messages takes a few hundred kilobytes and gives them back with its
# answer. Left to itself glibc hands such blocks to the system each time and asks for them again: up to a fifth of the
# CPU of a large push went into that (bench/results/formats.md).

cdef extern from *:
    """
    #ifdef __linux__
    #include <malloc.h>
    #endif
    static void memory_keep(void) {
    #ifdef M_TRIM_THRESHOLD
        mallopt(M_TRIM_THRESHOLD, 64 << 20);   /* free memory at the end of a heap up to this is kept */
        mallopt(M_MMAP_THRESHOLD, 8 << 20);    /* smaller blocks come from a heap */
    #endif
    }
    """
    void memory_keep() nogil
