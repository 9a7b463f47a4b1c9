# Searches the payloads of stored rows for texts. In: rows and texts. Out: hits. Payloads are decompressed and decrypted
# first. The GIL is taken only for hits. Owns the buffers for both while a call lasts. No locks.

cdef enum:
    SEARCH_TEXTS = 9          # spellings of the text
    SEARCH_BEFORE = 60        # bytes of an excerpt before the hit
    SEARCH_AFTER = 120        # bytes of an excerpt from the hit on

cdef struct Search:
    Slice queue
    bint sealed               # the queue is encrypted: payloads without a key id are decrypted as well
    Slice[9] texts
    int n_texts
    int64_t since             # skips records stored earlier,
    int64_t until             # or later,
    int64_t below             # or at or after this offset of the open row
    BatchRow row
    int64_t offset            # of the next record
    int64_t created_us
    int64_t first             # first examined offset of the row
    int64_t last              # last examined offset, -1: none
    int64_t unread            # records that could not be examined
    Unzip unzip
    Seal seal

cdef struct SearchHit:
    int64_t offset
    int64_t stored_us
    const unsigned char* id
    Slice text                # the transactionId, empty: the id as a UUID
    Slice payload
    const char* at            # the hit

cdef bint search_next(Search* s, SearchHit* f) noexcept nogil:
    # Finds the next record of the open row that has one of the texts. Returns False at the end. The hit is valid until
    # the next call.
    cdef Extras x
    cdef int i, result
    while s.row.i < s.row.n:
        if not batchrow_record(&s.row, &f.id, &f.payload, &x):
            s.unread += s.row.n - s.row.i
            s.row.i = s.row.n
            break
        f.offset = s.offset
        f.stored_us = s.created_us - s.row.age_us
        f.text = x.text
        s.offset += 1
        if f.offset >= s.below or f.stored_us < s.since or f.stored_us > s.until or f.payload.n == 0:
            continue
        if s.last < 0:
            s.first = f.offset
        s.last = f.offset
        if x.seal.n or s.sealed:
            result = seal_reveal(&s.seal, s.queue, x.seal, &f.payload)
            if result != SEAL_OPENED and result != SEAL_PLAIN:
                s.unread += 1
                continue
        for i in range(s.n_texts):
            f.at = <const char*>memmem(f.payload.p, f.payload.n, s.texts[i].p, s.texts[i].n)
            if f.at != NULL:
                return True
    return False

cdef tuple search_result(Search* s, SearchHit* f, int32_t partition):
    cdef size_t before = f.at - f.payload.p
    cdef size_t after = f.payload.n - before
    cdef unsigned char[16] id
    cdef char[36] name
    cdef char[36] message
    if before > SEARCH_BEFORE:
        before = SEARCH_BEFORE
    if after > SEARCH_AFTER:
        after = SEARCH_AFTER
    if s.row.message != NULL:
        memcpy(id, s.row.message, 16)
    else:
        uuid_message(f.stored_us, partition, f.offset, id)
    uuid_format(f.id, name)
    uuid_format(id, message)
    return (partition, f.offset, f.stored_us,
            f.text.p[:f.text.n].decode("utf-8", "replace") if f.text.n else name[:36].decode(), message[:36].decode(),
            (f.at - before)[:before + after].decode("utf-8", "ignore"))

# When undecryptable payloads were last logged, kept from call to call. Guarded by the GIL.
cdef int64_t search_told_us
cdef int64_t search_plain_us

def payloads_search(bytes queue, bint sealed, list texts, list rows, int64_t since, int64_t until, int64_t below,
                    int most):
    """Messages whose payload has one of these texts: ([(partition, offset, stored at, transactionId, message id,
    excerpt)], how many were looked at, how many could not be, the place of the last of them where there was no room for
    more: (created_at of its row, partition, offset), else None).

    queue: the name of theirs, as bytes; sealed: it is encrypted. texts: 1 to 9, as bytes. rows: (partition, base, n,
    created_at, ids, body, meta) of the log, in the order in which they are wanted; of each, the last record comes
    first. since, until: µs, inclusive. below: of the first row, only records before this offset. most: so many finds.
    """
    cdef Search s
    cdef SearchHit f
    cdef Slice row_ids, row_body, row_meta
    cdef bint there
    cdef int32_t partition
    cdef int64_t base, created_us, last, searched = 0
    global search_told_us, search_plain_us
    cdef int n
    cdef list found = [], here
    memset(&s, 0, sizeof(s))
    if not 0 < len(texts) <= SEARCH_TEXTS or not all(texts):
        raise ValueError("1 to 9 texts, none of them empty")
    for text in texts:
        s.texts[s.n_texts] = read_slice(text)
        s.n_texts += 1
    s.seal.told_us, s.seal.plain_us = search_told_us, search_plain_us
    s.queue = read_slice(queue)
    s.sealed = sealed
    s.since = since
    s.until = until
    s.below = below
    try:
        for partition, base, n, created_us, ids, body, meta in rows:
            s.offset = base
            s.created_us = created_us
            s.last = -1
            row_ids, row_body, row_meta = read_slice(ids), read_slice(body), read_slice(meta)
            with nogil:
                there = batchrow_open(&s.row, row_ids, row_body, row_meta, n, &s.unzip)
            here = []
            if not there:
                s.unread += n
            while there:
                with nogil:
                    there = search_next(&s, &f)
                if there:
                    here.append(search_result(&s, &f, partition))
            here.reverse()
            found += here[:most - len(found)]
            s.below = INT64_MAX
            if s.last >= 0:
                searched += s.last - s.first + 1
            if len(found) >= most:
                last = found[len(found) - 1][1]
                if s.last >= 0 and s.first < last:      # the row's first records come with the next call
                    searched -= last - s.first
                return found, searched, s.unread, (created_us, partition, last)
        return found, searched, s.unread, None
    finally:
        search_told_us, search_plain_us = s.seal.told_us, s.seal.plain_us
        unzip_close(&s.unzip)
        seal_close(&s.seal)

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
    global search_told_us, search_plain_us
    memset(&z, 0, sizeof(z))
    memset(&seal, 0, sizeof(seal))
    seal.told_us, seal.plain_us = search_told_us, search_plain_us
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
        search_told_us, search_plain_us = seal.told_us, seal.plain_us
        unzip_close(&z)
        seal_close(&seal)
