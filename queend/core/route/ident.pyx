# Names, ids and numbers of several routes; ids that follow from an Idempotency-Key; the words that refuse an item. In:
# literals, texts, headers. Out: their values, or a refusal. Stateless, takes no lock.

cdef const char* QUEUE_TEXT = b"Queue must be a non-empty text of at most 255 bytes"
cdef const char* PARTITION_TEXT = b"Partition must be valid text of at most 255 bytes"
cdef const char* TXID_TEXT = b"TransactionId must be valid text of at most 255 characters"

# ---- names and numbers -----------------------------------------------------------------------------------------------

cdef bint refuse_item(Tools* t, const char* text, const char* field) noexcept nogil:
    # Refuses the item that is read: `Queue must be a string (item 3, field queue)`. index -1: the part is not a list.
    # Returns False.
    if t.index < 0:
        return refuse_as(&t.error, b"%s (%s, field %s)", text, t.what, field)
    return refuse_as(&t.error, b"%s (%s %d, field %s)", text, t.what, t.index, field)

cdef bint ident_name(Slice raw, Arena* a, Slice* out) noexcept nogil:
    # Reads a literal as a name: at most 255 bytes of UTF-8, without a NUL or a lone surrogate. Returns False otherwise.
    cdef bint half = False
    if not text_unescape(raw, a, out, &half) or half:
        return False
    return ident_name_fits(out[0])

cdef inline bint ident_name_fits(Slice text) noexcept nogil:
    # Returns True if the text may be a name. Requires UTF-8.
    return text.n <= NAME_MAX and memchr(text.p, 0, text.n) == NULL

cdef inline bint ident_name_valid(Slice bytes) noexcept nogil:
    return ident_name_fits(bytes) and text_is_utf8(bytes)

cdef bint ident_whole(Slice raw, int64_t* out) noexcept nogil:
    # Reads a JSON number that is whole and not negative, of at most 18 digits.
    cdef size_t i
    cdef int64_t v = 0
    if raw.n == 0 or raw.n > 18:
        return False
    for i in range(raw.n):
        if not b'0' <= raw.p[i] <= b'9':
            return False
        v = v * 10 + raw.p[i] - c'0'
    out[0] = v
    return True

cdef Slice ident_pair(Slice one, Slice other, Arena* a) noexcept nogil:
    # Returns both texts with a NUL between them; p NULL if memory ran out.
    cdef char* text = <char*>arena_alloc(a, one.n + 1 + other.n)
    if slice_copy(text, one).p == NULL:
        return slice_of(NULL, 0)
    memcpy(text + one.n + 1, other.p, other.n)
    return slice_of(text, one.n + 1 + other.n)

# ---- ids of messages -------------------------------------------------------------------------------------------------

cdef bint ident_txid(Slice raw, Arena* a, Slice* text, unsigned char* id, uint8_t* kind,
                     uint8_t* keep_text) noexcept nogil:
    # Reads a literal as a transactionId and its record id. A UUID in canonical spelling needs no other check.
    # Returns False if the literal cannot be a transactionId.
    cdef bint half = False
    keep_text[0] = 0
    text[0] = slice_of(raw.p + 1, raw.n - 2)
    if ident_record_uuid(text[0], id, kind):
        return True
    if not text_unescape(raw, a, text, &half) or half or not ident_txid_fits(text[0]):
        return False
    ident_record(text[0], id, kind, keep_text)
    return True

cdef bint ident_txid_fits(Slice text) noexcept nogil:
    # Returns True if the text may be a transactionId, at most 255 characters. Requires UTF-8.
    cdef size_t i
    cdef size_t n = 0
    if memchr(text.p, 0, text.n) != NULL:
        return False
    if text.n <= TXID_MAX:
        return True
    for i in range(text.n):
        if (<unsigned char>text.p[i] & 0xc0) != 0x80:
            n += 1
    return n <= TXID_MAX

cdef inline bint ident_txid_valid(Slice bytes) noexcept nogil:
    return ident_txid_fits(bytes) and text_is_utf8(bytes)

cdef void ident_record(Slice text, unsigned char* id, uint8_t* kind, uint8_t* keep_text) noexcept nogil:
    # Computes the 16 bytes by which a transactionId is stored and searched (docs/inside/storage.md).
    keep_text[0] = 0
    if ident_record_uuid(text, id, kind):
        return
    ident_digest(text.p, text.n, id)
    kind[0] = ID_OTHER
    keep_text[0] = 1

cdef inline bint ident_record_uuid(Slice text, unsigned char* id, uint8_t* kind) noexcept nogil:
    # Returns True if the text is a UUID in canonical spelling: it is its own id.
    if not ident_uuid(text, id):
        return False
    # the kind follows from the version nibble alone, as in the database
    kind[0] = ID_V7 if (id[6] >> 4) == 7 else ID_OTHER
    return True

cdef inline bint ident_uuid(Slice text, unsigned char* id) noexcept nogil:
    # Returns True if the text is a UUID in canonical spelling, which is written to id.
    return text.n == 36 and wide_uuid_parse(text.p, id) == UUID_LOWER

cdef void ident_digest(const void* text, size_t n, unsigned char* id) noexcept nogil:
    # Computes the id of a text: a UUID of version 8.
    cdef unsigned char[32] digest
    slice_sha256(text, n, digest)
    memcpy(id, digest, 16)
    id[6] = (id[6] & 0x0f) | 0x80
    id[8] = (id[8] & 0x3f) | 0x80

# ---- Idempotency-Key -------------------------------------------------------------------------------------------------
# A push repeated with its key stores nothing twice. No table remembers keys: a record without a transactionId gets an
# id computed from the key and its place in the request. That id is found like any other, within its partition and as
# long as its message is stored.

cdef enum:
    KEY_MOST = 255            # characters of a key

cdef bint ident_key_apply(Slice headers, Grant* grant, Slice subject, Arena* a, PushReq* q, ApiError* e) noexcept nogil:
    # Computes ids from the key for records without a transactionId of their own. If tokens are in use, each subject has
    # keys of its own; so has each token without a subject. subject: that of the certificate, used without a token.
    cdef unsigned char[40] seed
    cdef Slice key
    cdef PushItem* it
    cdef uint64_t n = 0
    cdef int i, k
    if not ident_key_read(headers, &key, e):
        return False
    if grant != NULL:
        subject = req_subject(grant)
        if subject.n == 0:
            subject = slice_of(<const char*>grant.digest, 32)
    key = ident_pair(subject, key, a)
    if key.p == NULL:
        return refuse_memory(e)
    slice_sha256(key.p, key.n, seed)
    for i in range(q.n):
        it = &q.items[i]
        if it.run == NULL:
            if it.id_kind == ID_MADE:
                ident_key_id(seed, n, it.id)
                it.id_kind = ID_OTHER
                it.keyed = 1
            n += 1
            continue
        if it.run.made:
            for k in range(it.run.n):
                ident_key_id(seed, n + k, it.run.ids + 16 * k)
            it.run.made = False
            it.run.has_v7 = False
            it.keyed = 1
            pushrun_ids(it.run)
        n += it.run.n
    return True

cdef bint ident_key_read(Slice headers, Slice* key, ApiError* e) noexcept nogil:
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

cdef void ident_key_id(unsigned char* seed, uint64_t index, unsigned char* id) noexcept nogil:
    # Computes the id at an index. seed: 32 bytes, and room for 8.
    be64_put(seed + 32, index)
    ident_digest(seed, 40, id)
