# One record of a stored body, for readers that are not on the hot path. Python may unpack what SQL cannot.

def record_read(bytes body, int n, int i):
    """Record `i` (from 0) of a row of the log with `n` records: (payload as UTF-8 JSON, transactionId, message id).

    transactionId: text, None unless it stands in the body; message id: 16 bytes, None unless the client made it. ValueError
    when the body is in no known format or has no such record.
    """
    cdef BatchRow b
    cdef Unzip z
    cdef const unsigned char* id
    cdef Slice payload, trace, sub, text
    cdef bytes ids = bytes(16 * n) if 0 < n <= ROW_RECORDS else b""
    memset(&z, 0, sizeof(z))
    try:
        if i < 0 or not batchrow_open(&b, slice_of(ids, len(ids)), slice_of(body, len(body)), slice_of(NULL, 0), n, &z):
            raise ValueError("the body is in no known format")
        batchrow_seek(&b, i)
        if not batchrow_record(&b, &id, &payload, &trace, &sub, &text):
            raise ValueError(f"there is no record {i}")
        return payload.p[:payload.n], text.p[:text.n].decode() if text.n else None, b.message[:16] if b.message != NULL else None
    finally:
        unzip_close(&z)
