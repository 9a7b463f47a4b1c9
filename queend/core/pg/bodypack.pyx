# Compresses the payload bytes of a row: one zstd frame (codec 1) if the row is large enough and shrinks enough,
# otherwise plain. Formats: docs/inside/storage.md; reasons: docs/inside/decisions.
# Owns: a compression context and the row's plain bytes, both reused. One per thread.

cdef enum:
    PACK_LEVEL = 1
    # hash table of 2^n positions: small enough for the cache, which is faster and compresses equally well
    PACK_HASH = 11

cdef struct BodyPack:
    size_t least              # payload bytes from which a row is compressed, 0: never
    Buf plain
    ZSTD_CCtx* context

cdef void bodypack_free(BodyPack* p) noexcept nogil:
    buf_free(&p.plain)
    ZSTD_freeCCtx(p.context)
    p.context = NULL

cdef void bodypack_body(BodyPack* p, const Buf* payloads, size_t least, Buf* out) noexcept nogil:
    # Appends the body of a row whose sizes are in p.plain. least: payload bytes from which the body is compressed, 0:
    # never.
    buf_put(&p.plain, payloads.data, payloads.len)
    if least and payloads.len >= least:
        bodypack_write(p, out)
    else:
        buf_byte(out, BODY_V1)
        buf_put(out, p.plain.data, p.plain.len)

cdef void bodypack_write(BodyPack* p, Buf* out) noexcept nogil:
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
