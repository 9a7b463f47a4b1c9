# Unpacks one zstd frame. In: a frame. Out: bytes. The frame's header must give the size, which is bounded before memory
# is taken for it: how much a few bytes may unpack to is decided here. Owns, one per thread, a context and a reusable
# scratch room, both made for the first frame.

cdef enum:
    UNZIP_MOST = 67108864     # bytes that one frame may unpack to
    ZSTD_MAGIC = 0xfd2fb528

cdef enum UnzipResult:
    UNZIP_OK = 0
    UNZIP_BAD = 1             # not exactly one frame, or damaged, or without its size
    UNZIP_LARGE = 2
    UNZIP_MEMORY = 3

cdef struct Unzip:
    ZSTD_DCtx* context
    Scratch room
    bint short_of_memory      # memory ran out since the flag was last cleared

cdef void unzip_close(Unzip* z) noexcept nogil:
    ZSTD_freeDCtx(z.context)
    free(z.room.p)
    memset(z, 0, sizeof(Unzip))

cdef int unzip_size(Slice frame, size_t most, size_t* size) noexcept nogil:
    # Reads the size that a frame unpacks to. The slice must be that frame and nothing else.
    cdef unsigned long long n
    if frame.n < 5 or le32(frame.p) != ZSTD_MAGIC:
        return UNZIP_BAD
    n = ZSTD_getFrameContentSize(frame.p, frame.n)
    if n == ZSTD_CONTENTSIZE_UNKNOWN or n == ZSTD_CONTENTSIZE_ERROR:
        return UNZIP_BAD
    if n > most:
        return UNZIP_LARGE
    if ZSTD_findFrameCompressedSize(frame.p, frame.n) != frame.n:
        return UNZIP_BAD
    size[0] = <size_t>n
    return UNZIP_OK

cdef bint unzip_into(Unzip* z, Slice frame, char* room, size_t size) noexcept nogil:
    # Unpacks to exactly `size` bytes.
    if z.context == NULL:
        z.context = ZSTD_createDCtx()
        if z.context == NULL:
            z.short_of_memory = True
            return False
    return ZSTD_decompressDCtx(z.context, room, size, frame.p, frame.n) == size

cdef int unzip_arena(Unzip* z, Slice frame, size_t most, Arena* a, Slice* out) noexcept nogil:
    # Unpacks into an arena, to be kept. JSONWALK_ROOM bytes behind the result are readable.
    cdef size_t size = 0
    cdef char* room
    cdef int result = unzip_size(frame, most, &size)
    if result != UNZIP_OK:
        return result
    room = <char*>arena_alloc(a, size + JSONWALK_ROOM)
    if room == NULL:
        return UNZIP_MEMORY
    memset(room + size, 0, JSONWALK_ROOM)
    if not unzip_into(z, frame, room, size):
        return UNZIP_BAD
    out[0] = slice_of(room, size)
    return UNZIP_OK

cdef int unzip_scratch(Unzip* z, Slice frame, Slice* out) noexcept nogil:
    # Unpacks into the scratch: valid until the next frame.
    cdef size_t size = 0
    cdef int result = unzip_size(frame, UNZIP_MOST, &size)
    if result != UNZIP_OK:
        return result
    if not scratch_room(&z.room, size):
        z.short_of_memory = True
        return UNZIP_MEMORY
    if not unzip_into(z, frame, z.room.p, size):
        return UNZIP_BAD
    out[0] = slice_of(z.room.p, size)
    return UNZIP_OK
