# A row of the log: `n` records, read and written. In: a row; or sizes, payloads, and extras (fields of a record besides
# its payload). Out: records whose ids, payloads and extras are sliced without copying; or body and meta of a row.
# Formats: docs/inside/storage.md. A body has a version and codec, then n sizes as varints and the payloads, plain or as
# one zstd frame. Or it is one zstd frame of message frames, as a client sent it. A meta has a version byte, then the
# extras. Owns a compression context and the row's plain bytes (BodyPack), one per thread. Compressed content is
# unpacked into the scratch of an Unzip: valid until the next row is opened with it. No locks.

# ---- extras: fields of a record besides its payload ------------------------------------------------------------------
# For each record with such fields, `meta` holds its place in the row as a varint, a byte of flags, and the values. The
# lowest flag's value comes first. From the second flag on a value is a varint length and its bytes, so that a reader
# can skip unknown flags.

cdef inline const unsigned char* batchrow_varint(const unsigned char* p, const unsigned char* end,
                                                 uint64_t* v) noexcept nogil:
    # Returns the position after the varint; NULL if it is cut off or longer than 10 bytes.
    cdef int shift = 0
    v[0] = 0
    while p < end and shift < 64:
        v[0] |= <uint64_t>(p[0] & 0x7f) << shift
        if not p[0] & 0x80:
            return p + 1
        p += 1
        shift += 7
    return NULL

cdef enum:
    EXTRAS_KNOWN = 6

cdef struct Extras:           # in the order of the flags; absent fields are empty
    Slice trace               # 16 bytes
    Slice sub                 # producer subject
    Slice text                # original transactionId
    Slice due                 # delivery time: 8 bytes, big-endian, µs
    Slice seal                # id of the key that encrypts the payload
    Slice headers             # a JSON object

cdef inline void batchrow_extras_none(Extras* x) noexcept nogil:
    cdef Slice* values = <Slice*>x
    cdef int k
    for k in range(EXTRAS_KNOWN):
        values[k].n = 0

cdef inline int64_t batchrow_extras_due(Extras* x) noexcept nogil:
    # Returns the delivery time. Requires a record that has one: 8 bytes.
    return <int64_t>be64(x.due.p)

cdef const unsigned char* batchrow_extras_read(const unsigned char* p, const unsigned char* end,
                                               Extras* x) noexcept nogil:
    # Reads one record's extras, from the flags on; absent fields stay unchanged. Returns the position after them, NULL
    # if they are cut off.
    cdef Slice* values = <Slice*>x
    cdef uint8_t flags
    cdef uint64_t n
    cdef int k
    if p >= end:
        return NULL
    flags = p[0]
    p += 1
    for k in range(8):
        if not flags >> k & 1:
            continue
        n = 16
        if k:
            p = batchrow_varint(p, end, &n)
            if p == NULL:
                return NULL
        if <uint64_t>(end - p) < n:
            return NULL
        if k < EXTRAS_KNOWN:
            values[k] = slice_of(<const char*>p, n)
        p += n
    return p

cdef void batchrow_extras_put(Buf* out, int place, Extras* x) noexcept nogil:
    # Appends the extras of the record at `place`; appends nothing if all are absent.
    cdef Slice* values = <Slice*>x
    cdef uint8_t flags = 0
    cdef int k
    for k in range(EXTRAS_KNOWN):
        if values[k].n:
            flags |= <uint8_t>(1 << k)
    if flags == 0:
        return
    buf_varint(out, place)
    buf_byte(out, flags)
    for k in range(EXTRAS_KNOWN):
        if values[k].n:
            if k:
                buf_varint(out, values[k].n)
            buf_slice(out, values[k])

cdef enum:
    BODY_V1 = 0x10            # plain
    BODY_ZSTD = 0x11
    BODY_FRAMES = 0x12        # the client's message frames
    META_V1 = 0x10
    META_TIMES = 0x11         # the time each record was stored, then as META_V1
    FRAME_HEAD = 23           # bytes of a message frame without transactionId and payload

cdef struct BatchRow:
    int n
    int i                     # next record
    const unsigned char* ids
    const unsigned char* sizes        # NULL: message frames
    const unsigned char* message  # message frames: the id that the client gave the last read record, otherwise NULL
    const unsigned char* body
    const unsigned char* body_end
    const unsigned char* meta
    const unsigned char* meta_end
    int64_t meta_index        # next record that has extras, -1: none left
    const unsigned char* times        # NULL: all records have the row's created_at
    int64_t age_us            # the last read record was stored this long before the row's created_at

# ---- rows read -------------------------------------------------------------------------------------------------------

cdef bint batchrow_open(BatchRow* b, Slice ids, Slice body, Slice meta, int n, Unzip* z) noexcept nogil:
    # Opens a row. Returns False if its format is unknown or it contradicts itself.
    cdef const unsigned char* p
    cdef Slice inner
    cdef uint64_t size
    cdef uint8_t codec
    if n <= 0 or ids.n != <size_t>n * 16 or body.n < 1:
        return False
    codec = <uint8_t>body.p[0]
    inner = slice_of(body.p + 1, body.n - 1)
    if codec == BODY_ZSTD:
        p = batchrow_varint(<const unsigned char*>inner.p, <const unsigned char*>inner.p + inner.n, &size)
        if p == NULL:
            return False
        inner = slice_of(<const char*>p, <const unsigned char*>inner.p + inner.n - p)
        if unzip_frame(z, inner, UNZIP_MOST, NULL, &inner) != UNZIP_OK or inner.n != size:
            return False
    elif codec == BODY_FRAMES:
        if unzip_frame(z, inner, UNZIP_MOST, NULL, &inner) != UNZIP_OK:
            return False
    elif codec != BODY_V1:
        return False
    return batchrow_inner(b, ids, inner, codec == BODY_FRAMES, meta, n)

cdef bint batchrow_inner(BatchRow* b, Slice ids, Slice inner, bint frames, Slice meta, int n) noexcept nogil:
    # Opens a row whose body is unpacked: sizes and payloads, or message frames. Returns False if it contradicts itself.
    cdef const unsigned char* p = <const unsigned char*>inner.p
    cdef uint64_t size
    cdef uint64_t total = 0
    cdef int i
    b.n = n
    b.i = 0
    b.ids = <const unsigned char*>ids.p
    b.body_end = p + inner.n
    b.message = NULL
    b.sizes = p
    if frames:
        b.sizes = NULL
    b.body = p
    if frames:
        for i in range(n):
            p = batchrow_frame(p, b.body_end)
            if p == NULL:
                return False
        if p != b.body_end:
            return False
    else:
        for i in range(n):
            p = batchrow_varint(p, b.body_end, &size)
            if p == NULL or size > inner.n:
                return False
            total += size
        b.body = p
        if total != <uint64_t>(b.body_end - p):
            return False
    b.meta_index = -1
    b.times = NULL
    b.age_us = 0
    if meta.n:
        b.meta = <const unsigned char*>meta.p + 1
        b.meta_end = <const unsigned char*>meta.p + meta.n
        if <unsigned char>meta.p[0] == META_TIMES:
            b.meta = batchrow_varint(b.meta, b.meta_end, &size)
            if b.meta == NULL or size > <uint64_t>(b.meta_end - b.meta):
                return False
            b.times = b.meta
            b.meta += size
        elif <unsigned char>meta.p[0] != META_V1:
            return False
        batchrow_meta_index(b)
    return True

cdef inline const unsigned char* batchrow_frame(const unsigned char* p, const unsigned char* end) noexcept nogil:
    # Returns the position after a message frame; NULL if it is cut off or malformed. A frame: u32 length of the rest,
    # u8 0, id (16 bytes), u16 length of the transactionId, its text, payload; integers little-endian.
    cdef uint32_t n
    if end - p < FRAME_HEAD:
        return NULL
    n = le32(p)
    if (<uint64_t>(end - p) - 4 < n or n < FRAME_HEAD - 4 or p[4] != 0
            or <uint32_t>le16(p + 21) + FRAME_HEAD - 4 > n):
        return NULL
    return p + 4 + n

cdef inline void batchrow_meta_index(BatchRow* b) noexcept nogil:
    cdef uint64_t v
    b.meta_index = -1
    if b.meta < b.meta_end:
        b.meta = batchrow_varint(b.meta, b.meta_end, &v)
        if b.meta != NULL and b.meta < b.meta_end:
            b.meta_index = <int64_t>v

cdef bint batchrow_record(BatchRow* b, const unsigned char** id, Slice* payload, Extras* x) noexcept nogil:
    # Reads the next record; b.age_us then says when it was stored. Returns False at the end or if the row is broken.
    # If x.text is absent, the transactionId is the id as a UUID.
    cdef uint64_t size
    cdef const unsigned char* next_frame
    batchrow_extras_none(x)
    if b.i >= b.n:
        return False
    id[0] = b.ids + 16 * <size_t>b.i
    if b.sizes != NULL:
        b.sizes = batchrow_varint(b.sizes, b.body_end, &size)
        payload[0] = slice_of(<const char*>b.body, size)
        b.body += size
    else:
        next_frame = b.body + 4 + le32(b.body)
        b.message = b.body + 5
        x.text = slice_of(<const char*>b.body + FRAME_HEAD, le16(b.body + 21))
        payload[0] = slice_of(x.text.p + x.text.n, <const char*>next_frame - x.text.p - x.text.n)
        b.body = next_frame
    if b.times != NULL:
        b.times = batchrow_varint(b.times, b.meta_end, &size)
        if b.times == NULL or size >> 62 or (b.i and <int64_t>size > b.age_us):
            return False
        b.age_us = b.age_us - <int64_t>size if b.i else <int64_t>size
    if b.meta_index == b.i:
        b.meta = batchrow_extras_read(b.meta, b.meta_end, x)
        if b.meta == NULL:
            return False
        batchrow_meta_index(b)
    b.i += 1
    return True

cdef void batchrow_seek(BatchRow* b, int i) noexcept nogil:
    # Skips records before i.
    cdef const unsigned char* id
    cdef Slice payload
    cdef Extras x
    while b.i < i and batchrow_record(b, &id, &payload, &x):
        pass

# ---- rows written ----------------------------------------------------------------------------------------------------
# The payload bytes become one zstd frame if the row is large enough and shrinks enough, otherwise they stay plain.
# Reasons: docs/inside/decisions.

cdef enum:
    PACK_LEVEL = 1
    # hash table of 2^n positions: small enough for the cache, which is faster and compresses equally well
    PACK_HASH = 11

cdef struct BodyPack:
    size_t least              # payload bytes from which a row is compressed, 0: never
    Buf plain
    ZSTD_CCtx* context

cdef void batchrow_body(BodyPack* p, const Buf* payloads, size_t least, Buf* out) noexcept nogil:
    # Appends the body of a row whose sizes are in p.plain. least: payload bytes from which the body is compressed, 0:
    # never.
    buf_put(&p.plain, payloads.data, payloads.len)
    if least and payloads.len >= least:
        batchrow_compress(p, out)
    else:
        buf_byte(out, BODY_V1)
        buf_put(out, p.plain.data, p.plain.len)

cdef void batchrow_compress(BodyPack* p, Buf* out) noexcept nogil:
    # Appends the body whose sizes and payloads are in p.plain: compressed if that saves an eighth or more.
    cdef size_t mark = out.len
    cdef size_t room, n
    cdef char* at
    if p.plain.failed:
        out.failed = True
        return
    if p.context == NULL:
        p.context = ZSTD_createCCtx()
        if p.context != NULL:
            ZSTD_CCtx_setParameter(p.context, ZSTD_c_compressionLevel, PACK_LEVEL)
            ZSTD_CCtx_setParameter(p.context, ZSTD_c_hashLog, PACK_HASH)
    if p.context != NULL:
        buf_byte(out, BODY_ZSTD)
        buf_varint(out, p.plain.len)
        room = ZSTD_compressBound(p.plain.len)
        if buf_room(out, room) and not out.failed:
            at = out.data + out.len
            n = ZSTD_compress2(p.context, at, room, p.plain.data, p.plain.len)
            if not ZSTD_isError(n) and n < p.plain.len - p.plain.len // 8:
                out.len += n
                return
        if out.failed:
            return
        out.len = mark
    buf_byte(out, BODY_V1)
    buf_put(out, p.plain.data, p.plain.len)

cdef void batchrow_pack_free(BodyPack* p) noexcept nogil:
    buf_free(&p.plain)
    ZSTD_freeCCtx(p.context)
    p.context = NULL
