# Memory: allocations, which may all fail; the allocator's settings; memory for one item after another (Scratch). In:
# sizes. Out: memory, NULL if it ran out: every caller checks for it, and the process goes on. Owns nothing: a scratch
# belongs to one thread. No locks.

# ---- allocations -----------------------------------------------------------------------------------------------------
# A test lets them fail, one after the other (probe/memory). Until then the check costs one load and a branch that is
# never taken.

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <stdlib.h>

    static int mem_armed;           /* a test counts */
    static int64_t mem_asked;       /* allocations since it began */
    static int64_t mem_fails_from;  /* the first that fails, from 1 on; 0: none does */
    static int64_t mem_fails;       /* how many fail */

    static __attribute__((noinline, cold)) int mem_refused(void)
    {
        int64_t n = __atomic_add_fetch(&mem_asked, 1, __ATOMIC_RELAXED);
        int64_t from = __atomic_load_n(&mem_fails_from, __ATOMIC_RELAXED);
        return from && n >= from && n < from + __atomic_load_n(&mem_fails, __ATOMIC_RELAXED);
    }

    #define MEM_REFUSED() (__builtin_expect(__atomic_load_n(&mem_armed, __ATOMIC_RELAXED), 0) && mem_refused())

    static inline void *mem_malloc(size_t n) { return MEM_REFUSED() ? NULL : malloc(n); }
    static inline void *mem_calloc(size_t n, size_t size) { return MEM_REFUSED() ? NULL : calloc(n, size); }
    static inline void *mem_realloc(void *p, size_t n) { return MEM_REFUSED() ? NULL : realloc(p, n); }
    static inline void *mem_aligned(size_t to, size_t n) { return MEM_REFUSED() ? NULL : aligned_alloc(to, n); }

    static inline void mem_arm(int64_t from, int64_t fails)
    {
        __atomic_store_n(&mem_asked, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&mem_fails_from, from, __ATOMIC_RELAXED);
        __atomic_store_n(&mem_fails, fails, __ATOMIC_RELAXED);
        __atomic_store_n(&mem_armed, 1, __ATOMIC_RELAXED);
    }

    static inline int64_t mem_disarm(void)
    {
        __atomic_store_n(&mem_armed, 0, __ATOMIC_RELAXED);
        return __atomic_load_n(&mem_asked, __ATOMIC_RELAXED);
    }
    """
    void* malloc "mem_malloc"(size_t n)
    void* calloc "mem_calloc"(size_t n, size_t size)
    void* realloc "mem_realloc"(void* p, size_t n)
    void* aligned_alloc "mem_aligned"(size_t to, size_t n)
    void mem_arm(int64_t first, int64_t fails)
    int64_t mem_disarm()

# ---- settings of the allocator ---------------------------------------------------------------------------------------
# A request of a thousand messages takes a few hundred kilobytes and gives them back with its answer. glibc returns
# such blocks to the system each time by default, and asks for them again. That took up to a fifth of the CPU of a large
# push (bench/results/formats.md). Reads of 8 MiB have buffers of up to 16 MiB (docs/inside/decisions/memory.md).

cdef extern from *:
    """
    #ifdef __linux__
    #include <malloc.h>
    #endif
    static void memory_keep(void) {
    #ifdef M_TRIM_THRESHOLD
        mallopt(M_TRIM_THRESHOLD, 64 << 20);   /* free memory at the end of a heap up to this is kept */
        mallopt(M_MMAP_THRESHOLD, 17 << 20);   /* smaller blocks come from a heap */
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
