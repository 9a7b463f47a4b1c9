# Single records of the log, for the control plane and imports. In: records, or rows. Out: ids; records packed into the
# row format (docs/inside/storage.md) or read from it; rows without erased payloads; one row of several. Python
# decompresses rows that SQL cannot. Owns a generator of ids, guarded by the GIL. No locks.

# ---- ids -------------------------------------------------------------------------------------------------------------

cdef UuidGen record_ids           # guarded by the GIL
uuid_open(&record_ids)

def record_new_id():
    """16 bytes: a version-7 id of now, larger than the one this process was given before."""
    cdef unsigned char[16] id
    uuid_make(&record_ids, id)
    return id[:16]

def record_key(str transaction_id):
    """The 16 bytes a transactionId is stored and searched by."""
    cdef unsigned char[16] id
    cdef uint8_t kind, keep_text
    cdef bytes text = transaction_id.encode()
    ident_record(slice_of(text, len(text)), id, &kind, &keep_text)
    return id[:16]

# ---- records and rows ------------------------------------------------------------------------------------------------

def record_row(list records):
    """A row of the log of these records: (body, meta). records: (payload as UTF-8 JSON, extras); extras: trace id (16
    bytes), producer's subject, transactionId, delivery moment (8 bytes), key id, headers, each bytes or None."""
    cdef Buf body, meta
    cdef Extras x
    cdef Slice* values = <Slice*>&x
    cdef bytes payload, value
    cdef int place, k
    buf_init(&body)
    buf_init(&meta)
    try:
        buf_byte(&body, BODY_V1)
        for payload, _ in records:
            buf_varint(&body, len(payload))
        for payload, _ in records:
            buf_put(&body, <const char*>payload, len(payload))
        for place, (_, extras) in enumerate(records):
            batchrow_extras_none(&x)
            for k, value in enumerate(extras):
                if value is not None:
                    values[k] = slice_of(value, len(value))
            batchrow_extras_put(&meta, place, &x)
        if body.failed or meta.failed:
            raise MemoryError
        return body.data[:body.len], bytes([META_V1]) + meta.data[:meta.len] if meta.len else b""
    finally:
        buf_free(&body)
        buf_free(&meta)

def record_read(bytes body, int n, int i):
    """Record `i` (from 0) of a row of the log with `n` records: (payload as UTF-8 JSON, transactionId, message id).

    transactionId: text, None unless it stands in the body; message id: 16 bytes, None unless the client made it.
    ValueError when the body is in no known format or has no such record.
    """
    cdef BatchRow b
    cdef Unzip z
    cdef const unsigned char* id
    cdef Slice payload
    cdef Extras x
    cdef bytes ids = bytes(16 * n) if 0 < n <= ROW_RECORDS else b""
    memset(&z, 0, sizeof(z))
    try:
        if i < 0 or not batchrow_open(&b, slice_of(ids, len(ids)), slice_of(body, len(body)), slice_of(NULL, 0), n, &z):
            raise ValueError("the body is in no known format")
        batchrow_seek(&b, i)
        if not batchrow_record(&b, &id, &payload, &x):
            raise ValueError(f"there is no record {i}")
        return (payload.p[:payload.n], x.text.p[:x.text.n].decode() if x.text.n else None,
            b.message[:16] if b.message != NULL else None)
    finally:
        unzip_close(&z)

def row_records(bytes queue, bint sealed, bytes ids, bytes body, bytes meta, int n):
    """The records of a row of the log, in order: [(payload, headers)], each as UTF-8 JSON. payload: b"" where it was
    erased, None where its key is not here; headers: None where the record has none. queue, sealed: as in
    payloads_search. ValueError when the row is in no known format."""
    cdef BatchRow b
    cdef Unzip z
    cdef Seal seal
    cdef Extras x
    cdef Slice payload
    cdef const unsigned char* id
    cdef int result
    cdef list found = []
    global read_told_us, read_plain_us
    memset(&z, 0, sizeof(z))
    memset(&seal, 0, sizeof(seal))
    seal.told_us, seal.plain_us = read_told_us, read_plain_us
    try:
        if not batchrow_open(&b, read_slice(ids), read_slice(body), read_slice(meta), n, &z):
            raise ValueError("the row is in no known format")
        while b.i < b.n:
            if not batchrow_record(&b, &id, &payload, &x):
                raise ValueError("the row contradicts itself")
            result = SEAL_PLAIN
            if payload.n and (x.seal.n or sealed):
                result = seal_reveal(&seal, read_slice(queue), x.seal, &payload)
            found.append((payload.p[:payload.n] if result == SEAL_OPENED or result == SEAL_PLAIN else None,
                          x.headers.p[:x.headers.n] if x.headers.n else None))
        return found
    finally:
        read_told_us, read_plain_us = seal.told_us, seal.plain_us
        unzip_close(&z)
        seal_close(&seal)

def body_erased(bytes body, int n, places, int least=1024):
    """The body of a row of the log with `n` records, without the payloads of those at these places (from 0): each is
    empty. Of message frames the transactionId goes, too, and the message id stays. The others stay byte for byte.
    least: bytes of payload from which the body is compressed, 0: never. ValueError when the body is in no known format.
    """
    cdef BatchRow b
    cdef Unzip z
    cdef BodyPack pack
    cdef Buf payloads, out
    cdef Extras x
    cdef Slice payload
    cdef const unsigned char* id
    cdef const unsigned char* frame
    cdef bytes ids = bytes(16 * n) if 0 < n <= ROW_RECORDS else b""
    cdef int i
    cdef size_t room, done
    gone = frozenset(places)
    memset(&z, 0, sizeof(z))
    memset(&pack, 0, sizeof(pack))
    buf_init(&payloads)
    buf_init(&out)
    try:
        if not batchrow_open(&b, slice_of(ids, len(ids)), slice_of(body, len(body)), slice_of(NULL, 0), n, &z):
            raise ValueError("the body is in no known format")
        for i in range(n):
            frame = b.body
            batchrow_record(&b, &id, &payload, &x)
            if b.sizes != NULL:
                if i in gone:
                    payload.n = 0
                buf_varint(&pack.plain, payload.n)
                buf_slice(&payloads, payload)
            elif i in gone:
                buf_le32(&pack.plain, FRAME_HEAD - 4)
                buf_put(&pack.plain, frame + 4, 17)      # the frame's type and the message id
                buf_byte(&pack.plain, 0)
                buf_byte(&pack.plain, 0)
            else:
                buf_put(&pack.plain, frame, b.body - frame)
        if b.sizes == NULL:
            pack.context = ZSTD_createCCtx()
            room = ZSTD_compressBound(pack.plain.len)
            buf_byte(&out, BODY_FRAMES)
            if pack.context == NULL or pack.plain.failed or not buf_room(&out, room):
                raise MemoryError
            done = ZSTD_compressCCtx(pack.context, out.data + out.len, room, pack.plain.data, pack.plain.len,
                                     PACK_LEVEL)
            if ZSTD_isError(done):
                raise MemoryError
            out.len += done
        else:
            batchrow_body(&pack, &payloads, least, &out)
        if out.failed or pack.plain.failed or payloads.failed:
            raise MemoryError
        return out.data[:out.len]
    finally:
        unzip_close(&z)
        batchrow_pack_free(&pack)
        buf_free(&payloads)
        buf_free(&out)

# ---- consecutive records of one partition merged into one row --------------------------------------------------------

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
    cdef const unsigned char* id
    cdef Slice payload
    cdef Extras x
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
                if not batchrow_record(&b, &id, &payload, &x):
                    raise ValueError("a row contradicts itself")
                buf_varint(&pack.plain, payload.n)
                buf_slice(&payloads, payload)
                batchrow_extras_put(&extras, place, &x)
                at = created - b.age_us
                if at < before or at > newest:
                    raise ValueError("moments run backwards")
                buf_varint(&times, at - before if before >= 0 else newest - at)
                same = same and at == newest
                before = at
                place += 1
        batchrow_body(&pack, &payloads, least, &out)
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
        batchrow_pack_free(&pack)
        buf_free(&payloads)
        buf_free(&extras)
        buf_free(&times)
        buf_free(&out)
