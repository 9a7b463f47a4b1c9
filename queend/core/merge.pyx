# Merges consecutive records of one partition into one row of the log, for imports. Formats: docs/inside/storage.md.

cdef bint merge_record(BodyPack* pack, Buf* payloads, Buf* extras, BatchRow* b, int place) noexcept nogil:
    # Takes over the next record: its size, payload and extras. Returns False if the row is broken.
    cdef const unsigned char* id
    cdef Slice payload
    cdef Extras x
    if not batchrow_record(b, &id, &payload, &x):
        return False
    buf_varint(&pack.plain, payload.n)
    buf_slice(payloads, payload)
    extras_put(extras, place, &x)
    return True

def rows_merge(list rows, int least=1024):
    """One row of several: (created_at, ids, body, meta).

    rows: (n, created_at in µs, ids, body, meta) of rows whose offsets follow each other, oldest first; at most 1000
    records in all. least: bytes of payload from which the body is compressed, 0: never. Each record keeps its payload,
    extras and moment. ValueError when a row is in no known format, holds frames of a client, or the moments run
    backwards.
    """
    cdef BatchRow b
    cdef Unzip z
    cdef BodyPack pack
    cdef Buf payloads, extras, times, out
    cdef bytes ids, body, meta
    cdef int n, i
    cdef int place = 0
    cdef int64_t created
    cdef int64_t at
    cdef int64_t before = -1
    cdef int64_t newest = rows[len(rows) - 1][1]
    cdef bint same = True
    memset(&z, 0, sizeof(z))
    memset(&pack, 0, sizeof(pack))
    buf_init(&payloads)
    buf_init(&extras)
    buf_init(&times)
    buf_init(&out)
    try:
        for n, created, ids, body, meta in rows:
            if not body or body[0] == BODY_FRAMES or place + n > ROW_RECORDS or not batchrow_open(
                    &b, slice_of(ids, len(ids)), slice_of(body, len(body)), slice_of(meta, len(meta)), n, &z):
                raise ValueError("a row cannot be merged")
            for i in range(n):
                if not merge_record(&pack, &payloads, &extras, &b, place):
                    raise ValueError("a row contradicts itself")
                at = created - b.age_us
                if at < before or at > newest:
                    raise ValueError("moments run backwards")
                buf_varint(&times, at - before if before >= 0 else newest - at)
                same = same and at == newest
                before = at
                place += 1
        bodypack_body(&pack, &payloads, least, &out)
        if out.failed or pack.plain.failed or extras.failed or times.failed:
            raise MemoryError
        merged = out.data[:out.len]
        buf_clear(&out)
        if not same:
            buf_byte(&out, META_TIMES)
            buf_varint(&out, times.len)
            buf_put(&out, times.data, times.len)
        elif extras.len:
            buf_byte(&out, META_V1)
        buf_put(&out, extras.data, extras.len)
        if out.failed:
            raise MemoryError
        return newest, b"".join([row[2] for row in rows]), merged, out.data[:out.len] if out.len else b""
    finally:
        unzip_close(&z)
        bodypack_free(&pack)
        buf_free(&payloads)
        buf_free(&extras)
        buf_free(&times)
        buf_free(&out)
