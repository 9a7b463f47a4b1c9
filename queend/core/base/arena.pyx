# An arena owns everything one request needs and gives it all back at once. The first chunk comes from the worker's
# freelist (arenas are opened and closed on the same thread), so an ordinary request costs no malloc.

cdef enum:
    ARENA_CHUNK = 2048
    ARENA_KEEP = 512          # chunks a pool keeps

cdef struct Chunk:
    Chunk* next
    size_t size               # usable bytes after this header

cdef struct ChunkPool:
    Chunk* free_list
    int kept

cdef struct Arena:
    ChunkPool* pool
    Chunk* chunks
    char* at
    char* end
    bint picky                # of the request: names that nobody knows are refused (Prefer: handling=strict)

cdef inline void arena_open(Arena* a, ChunkPool* pool) noexcept nogil:
    a.pool = pool
    a.picky = False
    a.chunks = NULL
    a.at = NULL
    a.end = NULL

cdef void* arena_more(Arena* a, size_t n) noexcept nogil:
    cdef Chunk* c
    cdef size_t size = ARENA_CHUNK - sizeof(Chunk)
    if n <= size:
        if a.chunks != NULL and a.chunks.size * 2 > size and a.chunks.size < 65536:
            size = a.chunks.size * 2      # grow geometrically: few chunks for a large request
    else:
        size = n
    if size == ARENA_CHUNK - sizeof(Chunk) and a.pool != NULL and a.pool.free_list != NULL:
        c = a.pool.free_list
        a.pool.free_list = c.next
        a.pool.kept -= 1
    else:
        c = <Chunk*>malloc(sizeof(Chunk) + size)
        if c == NULL:
            return NULL
        c.size = size
    c.next = a.chunks
    a.chunks = c
    a.at = <char*>c + sizeof(Chunk) + n
    a.end = <char*>c + sizeof(Chunk) + c.size
    return <char*>c + sizeof(Chunk)

cdef inline void* arena_alloc(Arena* a, size_t n) noexcept nogil:
    # n bytes, aligned to 8, not cleared; NULL when memory ran out.
    cdef char* p = a.at
    n = (n + 7) & ~(<size_t>7)
    if p != NULL and <size_t>(a.end - p) >= n:
        a.at = p + n
        return p
    return arena_more(a, n)

cdef inline void* arena_zero(Arena* a, size_t n) noexcept nogil:
    cdef void* p = arena_alloc(a, n)
    if p != NULL:
        memset(p, 0, n)
    return p

cdef Slice arena_copy(Arena* a, Slice s) noexcept nogil:
    # The copy is followed by a NUL that is not counted. p is NULL when memory ran out.
    cdef char* p = <char*>arena_alloc(a, s.n + 1)
    if p == NULL:
        return slice_of(NULL, 0)
    if s.n:
        memcpy(p, s.p, s.n)
    p[s.n] = 0
    return slice_of(p, s.n)

cdef void arena_close(Arena* a) noexcept nogil:
    cdef Chunk* c = a.chunks
    cdef Chunk* following
    while c != NULL:
        following = c.next
        if c.size == ARENA_CHUNK - sizeof(Chunk) and a.pool != NULL and a.pool.kept < ARENA_KEEP:
            c.next = a.pool.free_list
            a.pool.free_list = c
            a.pool.kept += 1
        else:
            free(c)
        c = following
    a.chunks = NULL
    a.at = NULL
    a.end = NULL

cdef void chunkpool_close(ChunkPool* pool) noexcept nogil:
    cdef Chunk* c
    while pool.free_list != NULL:
        c = pool.free_list
        pool.free_list = c.next
        free(c)
    pool.kept = 0
