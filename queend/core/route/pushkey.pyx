# Reads Idempotency-Key: a push repeated with its key stores nothing twice. In: a key, and items. Out: ids. No table
# remembers keys: a record without a transactionId gets an id computed from the key and its place in the request. That
# id is found like any other, within its partition and as long as its message is stored.

cdef enum:
    KEY_MOST = 255            # characters of a key

cdef bint pushkey_take(Slice headers, Slice* key, ApiError* e) noexcept nogil:
    # Reads the key, a token or in quotes, which do not count. Refuses all but 1 to 255 visible ASCII characters, and
    # two keys.
    cdef const char* at = headers.p
    cdef Slice other
    cdef size_t i
    header_next(&at, headers.p + headers.n, b"idempotency-key", key)
    if header_next(&at, headers.p + headers.n, b"idempotency-key", &other):
        return refuse(e, b"Idempotency-Key is given twice")
    if key.n >= 2 and key.p[0] == b'"' and key.p[key.n - 1] == b'"':
        key[0] = slice_of(key.p + 1, key.n - 2)
    if key.n == 0 or key.n > KEY_MOST:
        return refuse(e, b"Idempotency-Key must have 1 to 255 characters")
    for i in range(key.n):
        if key.p[i] < b' ' or key.p[i] > b'~':
            return refuse(e, b"Idempotency-Key must be printable ASCII")
    return True

cdef bint pushkey_apply(Slice headers, Grant* grant, Arena* a, PushReq* q, ApiError* e) noexcept nogil:
    # Computes ids from the key for records without a transactionId of their own. If tokens are in use, each subject has
    # keys of its own; so has each token without a subject.
    cdef unsigned char[40] seed
    cdef Slice key
    cdef Slice subject = slice_of(NULL, 0)
    cdef PushItem* it
    cdef uint64_t n = 0
    cdef int i, k
    if not pushkey_take(headers, &key, e):
        return False
    if grant != NULL:
        subject = grant_subject(grant)
        if subject.n == 0:
            subject = slice_of(<const char*>grant.digest, 32)
    key = text_pair(subject, key, a)
    if key.p == NULL:
        return refuse_memory(e)
    SHA256(<const unsigned char*>key.p, key.n, seed)
    for i in range(q.n):
        it = &q.items[i]
        if it.run == NULL:
            if it.id_kind == ID_MADE:
                pushkey_id(seed, n, it.id)
                it.id_kind = ID_OTHER
                it.keyed = 1
            n += 1
            continue
        if it.run.made:
            for k in range(it.run.n):
                pushkey_id(seed, n + k, it.run.ids + 16 * k)
            it.run.made = False
            it.run.has_v7 = False
            it.keyed = 1
            run_ids(it.run)
        n += it.run.n
    return True

cdef void pushkey_id(unsigned char* seed, uint64_t index, unsigned char* id) noexcept nogil:
    # Computes the id at an index. seed: 32 bytes, and room for 8.
    be64_put(seed + 32, index)
    digest_id(seed, 40, id)
