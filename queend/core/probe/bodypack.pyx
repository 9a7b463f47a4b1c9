# Test seams for compressed rows.

def probe_bodypack(list rows):
    """The bodies of rows, each given as its sizes and payloads (bytes), written one after the other with the same
    context."""
    cdef BodyPack p
    cdef Buf out
    cdef size_t mark
    cdef bytes raw
    memset(&p, 0, sizeof(p))
    buf_init(&out)
    try:
        bodies = []
        for raw in rows:
            mark = out.len
            buf_clear(&p.plain)
            buf_put(&p.plain, <const char*>raw, <size_t>len(raw))
            batchrow_compress(&p, &out)
            if out.failed:
                raise MemoryError
            bodies.append(<bytes>out.data[mark:out.len])
        return bodies
    finally:
        buf_free(&out)
        batchrow_pack_free(&p)
