# Unpacks zstd frames of a known size, and streams of gzip and zstd of any size. In: compressed bytes. Out: bytes, or
# UNZIP_*. Owns contexts of zlib and libzstd, and the scratch for a frame: one Unzip per thread, one Coded per body. No
# locks.

# ---- whole zstd frames -----------------------------------------------------------------------------------------------
# The header of a frame must give the size, which is bounded before memory is taken for it. Context and scratch are made
# for the first frame.

cdef enum:
    UNZIP_MOST = 67108864     # bytes that one frame may unpack to
    UNZIP_ON_LOOP = 262144    # bytes that one request may unpack to on a loop: with its checks, 1 ms
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
    bint on_loop              # a worker's: what takes longer is refused with REFUSED_HERE

cdef void unzip_close(Unzip* z) noexcept nogil:
    ZSTD_freeDCtx(z.context)
    free(z.room.p)
    memset(z, 0, sizeof(Unzip))

cdef inline size_t unzip_room(const Unzip* z, size_t most) noexcept nogil:
    # Returns how many bytes a request may unpack to here, of `most` that it may have.
    return min(most, <size_t>UNZIP_ON_LOOP) if z.on_loop else most

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

cdef bint unzip_open(Unzip* z) noexcept nogil:
    # Makes the context for the first frame. Returns False if memory ran out.
    if z.context == NULL:
        z.context = ZSTD_createDCtx()
        z.short_of_memory = z.short_of_memory or z.context == NULL
    return z.context != NULL

cdef bint unzip_into(Unzip* z, Slice frame, char* room, size_t size) noexcept nogil:
    # Unpacks to exactly `size` bytes.
    return unzip_open(z) and ZSTD_decompressDCtx(z.context, room, size, frame.p, frame.n) == size

cdef int unzip_frame(Unzip* z, Slice frame, size_t most, Arena* a, Slice* out) noexcept nogil:
    # Unpacks a frame to at most `most` bytes. a: the arena that keeps them, with JSONWALK_ROOM readable bytes behind
    # them. NULL: they go into the scratch, and are valid until the next frame.
    cdef size_t size = 0
    cdef char* room
    cdef int result = unzip_size(frame, most, &size)
    if result != UNZIP_OK:
        return result
    if a != NULL:
        room = <char*>arena_alloc(a, size + JSONWALK_ROOM)
    else:
        room = z.room.p if memory_scratch(&z.room, size) else NULL
    if room == NULL:
        z.short_of_memory = z.short_of_memory or a == NULL
        return UNZIP_MEMORY
    if a != NULL:
        memset(room + size, 0, JSONWALK_ROOM)
    if not unzip_into(z, frame, room, size):
        return UNZIP_BAD
    out[0] = slice_of(room, size)
    return UNZIP_OK

# ---- streams: content codings of requests ----------------------------------------------------------------------------
# Piece by piece: the whole coded body comes in, and room for a piece. The caller makes more room or gives up. A size
# that the sender tells is only a hint.

cdef enum Coding:
    CODING_NONE = 0
    CODING_GZIP = 1
    CODING_ZSTD = 2

cdef enum:
    GZIP_WINDOW = 31          # of zlib: 32 KiB, and a gzip header
    ZSTD_WINDOW_LOG = 23      # the largest window that RFC 8878 asks receivers for: 8 MiB
    ZSTD_WINDOW = 1 << 23
    GZIP_LEAST = 18           # bytes of a header and a trailer

cdef struct Coded:
    int coding
    z_stream gzip
    ZSTD_DCtx* zstd
    Slice left                # not unpacked yet
    bint whole                # a member or frame has ended, and none has begun behind it

cdef bint unzip_stream_open(Coded* c, int coding, Slice body) noexcept nogil:
    # Opens a coding. Returns False if memory ran out. The caller must call unzip_stream_close in any case.
    memset(c, 0, sizeof(Coded))
    c.coding = coding
    c.left = body
    if coding == CODING_GZIP:
        return inflateInit2(&c.gzip, GZIP_WINDOW) == Z_OK
    c.zstd = ZSTD_createDCtx()
    return c.zstd != NULL and not ZSTD_isError(ZSTD_DCtx_setParameter(c.zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG))

cdef void unzip_stream_close(Coded* c) noexcept nogil:
    if c.coding == CODING_GZIP:
        inflateEnd(&c.gzip)
    ZSTD_freeDCtx(c.zstd)

cdef size_t unzip_hint(int coding, Slice body) noexcept nogil:
    # Returns the size that the sender tells, 0 if it tells none. gzip tells that of its last member alone.
    cdef unsigned long long n
    if coding == CODING_GZIP:
        return le32(body.p + body.n - 4) if body.n >= GZIP_LEAST else 0
    n = ZSTD_getFrameContentSize(body.p, body.n)
    return 0 if n == ZSTD_CONTENTSIZE_UNKNOWN or n == ZSTD_CONTENTSIZE_ERROR else <size_t>n

cdef int64_t unzip_window(int coding, Slice body) noexcept nogil:
    # Returns the bytes that libzstd keeps besides the output: the window of a frame without a size (RFC 8878
    # 3.1.1.1.2), ZSTD_WINDOW at most. A frame with a size is unpacked in place.
    cdef int b
    if coding != CODING_ZSTD or body.n < 6 or unzip_hint(coding, body):
        return 0
    b = <unsigned char>body.p[5]
    return min(<int64_t>ZSTD_WINDOW, (<int64_t>1 << (10 + (b >> 3))) // 8 * (8 + (b & 7)))

cdef int unzip_stream_next(Coded* c, char* room, size_t n, size_t* got) noexcept nogil:
    # Unpacks at most n bytes. UNZIP_OK: *got bytes; the room is full, or c.whole says that this was all of it.
    # UNZIP_BAD: damaged, or its end is missing.
    got[0] = 0
    if c.coding == CODING_GZIP:
        return unzip_gzip(c, room, n, got)
    return unzip_zstd(c, room, n, got)

cdef int unzip_gzip(Coded* c, char* room, size_t n, size_t* got) noexcept nogil:
    cdef z_stream* z = &c.gzip
    cdef int outcome
    cdef unsigned int most
    while got[0] < n and not (c.whole and c.left.n == 0):
        c.whole = False
        z.next_in = <unsigned char*>c.left.p
        z.avail_in = <unsigned int>min(c.left.n, <size_t>1 << 30)
        z.next_out = <unsigned char*>room + got[0]
        most = <unsigned int>min(n - got[0], <size_t>1 << 30)
        z.avail_out = most
        outcome = inflate(z, Z_NO_FLUSH)
        got[0] += most - z.avail_out
        c.left.n -= <size_t>(<const char*>z.next_in - c.left.p)
        c.left.p = <const char*>z.next_in
        if outcome == Z_STREAM_END:
            c.whole = True
            if c.left.n and inflateReset(z) != Z_OK:
                return UNZIP_BAD
        elif outcome == Z_MEM_ERROR:
            return UNZIP_MEMORY
        elif outcome != Z_OK or c.left.n == 0 and z.avail_out:
            return UNZIP_BAD
    return UNZIP_OK

cdef int unzip_zstd(Coded* c, char* room, size_t n, size_t* got) noexcept nogil:
    cdef ZSTD_inBuffer from_
    cdef ZSTD_outBuffer to
    cdef size_t outcome
    while got[0] < n and not (c.whole and c.left.n == 0):
        c.whole = False
        from_.src = c.left.p
        from_.size = c.left.n
        from_.pos = 0
        to.dst = room
        to.size = n
        to.pos = got[0]
        outcome = ZSTD_decompressStream(c.zstd, &to, &from_)
        if ZSTD_isError(outcome):
            return UNZIP_MEMORY if ZSTD_getErrorCode(outcome) == ZSTD_error_memory_allocation else UNZIP_BAD
        c.left = slice_from(c.left, from_.pos)
        c.whole = outcome == 0
        if not c.whole and c.left.n == 0 and to.pos < n:
            return UNZIP_BAD
        got[0] = to.pos
    return UNZIP_OK
