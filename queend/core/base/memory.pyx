# The allocator's settings, and memory for one item after another (Scratch). In: sizes. Out: memory. Owns nothing: a
# scratch belongs to one thread. No locks.

# ---- settings of the allocator ---------------------------------------------------------------------------------------
# A request of a thousand messages takes a few hundred kilobytes and gives them back with its answer. glibc returns
# such blocks to the system each time by default, and asks for them again. That took up to a fifth of the CPU of a large
# push (bench/results/formats.md).

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
    static void memory_give_top(void) {
        /* Gives back the free end of the calling thread's heap. malloc_trim does so for the first heap alone. */
    #ifdef M_TRIM_THRESHOLD
        mallopt(M_TRIM_THRESHOLD, 1 << 20);
        void* volatile p = malloc(256 << 10);      /* free() of more than 64 KiB looks at the end */
        free(p);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
    #endif
    }
    static void memory_give_rest(void) {
        /* Gives back whole pages inside all heaps. */
    #ifdef M_TRIM_THRESHOLD
        malloc_trim(0);
    #endif
    }
    """
    void memory_keep() nogil
    void memory_give_top() nogil
    void memory_give_rest() nogil

# ---- scratch memory --------------------------------------------------------------------------------------------------
# It grows as needed. If it is larger than SCRATCH_KEEP, it is freed at the next use.

cdef enum:
    SCRATCH_LEAST = 65536
    SCRATCH_KEEP = 1048576    # bytes kept from one use to the next

cdef struct Scratch:
    char* p
    size_t size

cdef bint memory_scratch(Scratch* s, size_t n) noexcept nogil:
    # Makes room for n bytes and discards the old content. Returns False if memory ran out.
    if n <= s.size and s.size <= SCRATCH_KEEP:
        return True
    free(s.p)
    s.size = max(n, <size_t>SCRATCH_LEAST)
    s.p = <char*>malloc(s.size)
    if s.p == NULL:
        s.size = 0
    return s.p != NULL
