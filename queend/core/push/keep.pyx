# Committed chunks that somebody will read soon become rows in memory (memory/rowcache).

cdef CachedRow* cachedrow_make(Engine* e, PushChunk* c) noexcept nogil:
    # A copy of a committed chunk; NULL when memory ran out, then it is not kept. Book not locked. No statement is
    # written.
    cdef RowArgs* scratch = &(<PushArgs*>e.args.at).rows
    cdef CachedRow* r
    cdef char* at
    cdef Slice ids, body, meta
    pgarray_begin(&scratch.ids, OID_BYTEA)
    pgarray_begin(&scratch.body, OID_BYTEA)
    pgarray_begin(&scratch.meta, OID_BYTEA)
    chunk_encode(scratch, NULL, c, True)
    ids = pgarray_only(&scratch.ids)
    body = pgarray_only(&scratch.body)
    meta = pgarray_only(&scratch.meta)
    if ids.n == 0 or body.n == 0 or scratch.meta.buf.failed:
        return NULL
    r = <CachedRow*>malloc(sizeof(CachedRow) + ids.n + body.n + meta.n)
    if r == NULL:
        return NULL
    memset(r, 0, sizeof(CachedRow))
    at = <char*>r + sizeof(CachedRow)
    r.partition = c.group.partition
    r.base = c.first.offset
    r.created_us = c.first.created_us
    r.n = c.n
    r.bytes = sizeof(CachedRow) + ids.n + body.n + meta.n
    r.ids = slice_of(at, ids.n)
    r.body = slice_of(at + ids.n, body.n)
    r.meta = slice_of(at + ids.n + body.n, meta.n)
    memcpy(at, ids.p, ids.n)
    memcpy(at + ids.n, body.p, body.n)
    if meta.n:
        memcpy(at + ids.n + body.n, meta.p, meta.n)
    return r

cdef inline Slice pgarray_only(PgArray* a) noexcept nogil:
    # The only element of an array; empty when it is NULL or memory ran out.
    if a.buf.failed or a.has_null or a.n != 1:
        return slice_of(NULL, 0)
    return slice_of(a.buf.data + PGARRAY_HEADER + 4, a.buf.len - PGARRAY_HEADER - 4)
