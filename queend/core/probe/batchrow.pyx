# Test seams for rows of the log.

def probe_zip(bytes data, int level=1):
    """One zstd frame with its content size."""
    cdef ZSTD_CCtx* context = ZSTD_createCCtx()
    cdef size_t room = ZSTD_compressBound(len(data))
    cdef char* out = <char*>malloc(room)
    cdef size_t n = ZSTD_compressCCtx(context, out, room, <const char*>data, len(data), level)
    try:
        if ZSTD_isError(n):
            raise MemoryError
        return out[:n]
    finally:
        free(out)
        ZSTD_freeCCtx(context)

def probe_batchrow(bytes ids, bytes body, bytes meta, int n, int seek=0, list ages=None, list more=None):
    """The records from `seek` on: (id, payload, trace id, producer, text, message id), None where there is none.
    ages: gets how long before the row's created_at each was stored (µs). more: gets (delivery moment, key id, headers)
    of each, empty where there is none.

    ValueError when the row is not readable.
    """
    cdef ProbeRoom room = ProbeRoom(body, ids, meta)      # three adjacent slices
    cdef BatchRow b
    cdef Unzip z
    cdef const unsigned char* id
    cdef Slice payload
    cdef Extras x
    memset(&z, 0, sizeof(z))
    try:
        if not batchrow_open(&b, room.path, room.body, room.query, n, &z):
            raise ValueError("not a row of the log")
        batchrow_seek(&b, seek)
        out = []
        while batchrow_record(&b, &id, &payload, &x):
            if ages is not None:
                ages.append(b.age_us)
            if more is not None:
                more.append((probe_bytes(x.due), probe_bytes(x.seal), probe_bytes(x.headers)))
            out.append((<bytes>id[:16], probe_bytes(payload), probe_bytes(x.trace) if x.trace.n else None,
                        probe_text(x.sub) if x.sub.n else None, probe_text(x.text) if x.text.n else None,
                        <bytes>b.message[:16] if b.message != NULL else None))
        if len(out) != n - seek:
            raise ValueError("cut off")
        return out
    finally:
        unzip_close(&z)

def probe_unzip(bytes frame):
    """What one zstd frame with its content size unpacks to; ValueError."""
    cdef Unzip z
    cdef Slice out
    memset(&z, 0, sizeof(z))
    try:
        if unzip_frame(&z, slice_of(frame, len(frame)), UNZIP_MOST, NULL, &out) != UNZIP_OK:
            raise ValueError("not a zstd frame")
        return out.p[:out.n]
    finally:
        unzip_close(&z)
