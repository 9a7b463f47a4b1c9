# Memory of one request or statement, freed as a whole. In: sizes. Out: memory, aligned to 8 bytes; NULL if memory ran
# out.
# Owns the chunks of an arena, and blocks that it adopted. A worker's pool owns free chunks, and large blocks that go
# back to the system in slices. An ordinary request costs no malloc, because its first chunk comes from the pool.
# An arena is opened and closed on the thread of its pool. No locks.

cdef enum:
    ARENA_CHUNK = 2048
    ARENA_KEEP = 512          # chunks a pool keeps
    ARENA_LARGE = 8 << 20     # bytes of a block that goes back a slice at a time
    ARENA_SLICE = 2 << 20

cdef struct Chunk:
    Chunk* next
    size_t size               # usable bytes after this header

cdef struct FreedBlock:       # at the beginning of a large block that is given back
    FreedBlock* next
    size_t left               # bytes of the block that may have pages

cdef struct Adopted:          # memory that was not the arena's before
    Adopted* next
    void* block
    size_t size

cdef struct ChunkPool:
    Chunk* free_list
    int kept
    FreedBlock* freed_blocks
    int64_t freed_bytes       # bytes of the freed blocks that may have pages

cdef struct Arena:
    ChunkPool* pool
    Chunk* chunks
    Adopted* adopted
    size_t size               # bytes of all chunks and adopted blocks
    char* at
    char* end
    bint strict               # of the request: unknown names are refused (Prefer: handling=strict)

cdef inline void arena_open(Arena* a, ChunkPool* pool) noexcept nogil:
    a.pool = pool
    a.strict = False
    a.chunks = NULL
    a.adopted = NULL
    a.size = 0
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
    a.size += sizeof(Chunk) + c.size
    a.at = <char*>c + sizeof(Chunk) + n
    a.end = <char*>c + sizeof(Chunk) + c.size
    return <char*>c + sizeof(Chunk)

cdef inline void* arena_alloc(Arena* a, size_t n) noexcept nogil:
    # Returns n bytes, aligned to 8, not cleared; NULL if memory ran out.
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

cdef void* arena_grow(Arena* a, const void* old, int n, size_t size, int least, int* room) noexcept nogil:
    # Returns an array with room for one more element than n, of `size` bytes each. It is `old`, or a copy four times as
    # large; the first has room for `least`. Returns NULL if memory ran out.
    cdef void* more
    if n < room[0]:
        return <void*>old
    room[0] = n * 4 if n else least
    more = arena_alloc(a, room[0] * size)
    if more != NULL and n:
        memcpy(more, old, n * size)
    return more

cdef inline Slice arena_copy(Arena* a, Slice s) noexcept nogil:
    # Returns a copy, followed by a NUL that is not counted. p is NULL if memory ran out.
    return slice_copy(<char*>arena_alloc(a, s.n + 1), s)

cdef bint arena_adopt(Arena* a, void* block, size_t size) noexcept nogil:
    # Makes the block the arena's. Returns False if memory ran out; then it is still the caller's.
    cdef Adopted* one = <Adopted*>arena_alloc(a, sizeof(Adopted))
    if one != NULL:
        arena_adopt_at(a, one, block, size)
    return one != NULL

cdef void arena_adopt_at(Arena* a, Adopted* one, void* block, size_t size) noexcept nogil:
    # Makes the block the arena's. one: memory for its entry, which may be in the block itself.
    one.block = block
    one.size = size
    one.next = a.adopted
    a.adopted = one
    a.size += size

# ---- memory given back -----------------------------------------------------------------------------------------------

cdef inline void arena_free_block(ChunkPool* pool, void* block, size_t size) noexcept nogil:
    # Gives back a block. The pages of a large one take milliseconds, so they go back a slice per turn; the block itself
    # is its entry in the list.
    cdef FreedBlock* r = <FreedBlock*>block
    if pool == NULL or size < ARENA_LARGE:
        free(block)
        return
    r.left = size
    r.next = pool.freed_blocks
    pool.freed_blocks = r
    pool.freed_bytes += <int64_t>size

cdef void arena_pool_turn(ChunkPool* pool) noexcept nogil:
    # Gives back a slice of a large block. Called in each turn of the loop.
    cdef FreedBlock* r = pool.freed_blocks
    cdef size_t at
    if r == NULL:
        return
    if r.left > 2 * ARENA_SLICE:
        at = (<size_t>r + r.left - ARENA_SLICE) & ~(<size_t>ARENA_SLICE - 1)    # whole pages, whatever their size
        madvise(<void*>at, (<size_t>r + r.left - at) & ~(<size_t>65535), MADV_DONTNEED)
        pool.freed_bytes -= <int64_t>(<size_t>r + r.left - at)
        r.left = at - <size_t>r
    else:
        pool.freed_blocks = r.next
        pool.freed_bytes -= <int64_t>r.left
        free(r)

cdef void arena_close(Arena* a) noexcept nogil:
    cdef Chunk* c = a.chunks
    cdef Chunk* following
    cdef Adopted* one
    while a.adopted != NULL:
        one = a.adopted
        a.adopted = one.next
        arena_free_block(a.pool, one.block, one.size)
    while c != NULL:
        following = c.next
        if c.size == ARENA_CHUNK - sizeof(Chunk) and a.pool != NULL and a.pool.kept < ARENA_KEEP:
            c.next = a.pool.free_list
            a.pool.free_list = c
            a.pool.kept += 1
        else:
            arena_free_block(a.pool, c, sizeof(Chunk) + c.size)
        c = following
    a.chunks = NULL
    a.size = 0
    a.at = NULL
    a.end = NULL

cdef void arena_pool_close(ChunkPool* pool) noexcept nogil:
    cdef Chunk* c
    cdef FreedBlock* r
    while pool.free_list != NULL:
        c = pool.free_list
        pool.free_list = c.next
        free(c)
    pool.kept = 0
    pool.freed_bytes = 0
    while pool.freed_blocks != NULL:
        r = pool.freed_blocks
        pool.freed_blocks = r.next
        free(r)
