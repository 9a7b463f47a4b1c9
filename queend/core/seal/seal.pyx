# Encrypts payloads and decrypts them, by AES-256-GCM. In: a payload and the name of its queue. Out: the envelope that
# Queen MQ stores, itself JSON: {"encrypted":"<base64>","iv":"<base64 of 16 bytes>","authTag":"<base64 of 16 bytes>"};
# and back.
# An envelope sealed here is bound to its queue's name (additional data), so that it cannot pass for another queue's.
# Owns the key ring; one Seal per thread: contexts with their keys, and the room of what was opened last. No locks.

# ---- keys ------------------------------------------------------------------------------------------------------------
# Read once before the threads start, constant until they have ended. The first key seals, all open. A key is known by
# its id, which is public and stands beside every record that it sealed.

cdef enum:
    SEAL_KEYS = 16
    SEAL_ID_MOST = 32         # characters of a key's id

cdef struct SealKey:
    char[SEAL_ID_MOST + 1] id # NUL-terminated
    unsigned char[32] key

cdef struct SealRing:
    int n                     # 0: nothing can be sealed or opened
    bint refuses              # plain payloads of encrypted queues are not delivered
    SealKey[SEAL_KEYS] keys

cdef SealRing sealring

cdef int seal_ring_load(str text) except -1:
    # Reads `id:hex,id:hex`. A ValueError names the place, never the text.
    cdef bytes id, key
    cdef list given = [one for one in text.split(",") if one]
    seal_ring_close()
    if len(given) > SEAL_KEYS:
        raise ValueError(f"seal_keys: at most {SEAL_KEYS} keys")
    for place, one in enumerate(given, 1):
        name, _, hex = one.partition(":")
        try:
            id, key = name.encode("ascii"), bytes.fromhex(hex)
        except ValueError:
            raise ValueError(f"seal_keys: key {place} is not id:hex") from None
        if not 0 < len(id) <= SEAL_ID_MOST or len(key) != 32:
            raise ValueError(f"seal_keys: key {place} is not 32 bytes with an id of 1 to {SEAL_ID_MOST} characters")
        memcpy(sealring.keys[sealring.n].id, <const char*>id, len(id))
        memcpy(sealring.keys[sealring.n].key, <const char*>key, 32)
        sealring.n += 1
    return 0

cdef inline int seal_ring_find(Slice id) noexcept nogil:
    # Returns the place of the key with this id, -1 if it is unknown.
    cdef int i
    for i in range(sealring.n):
        if slice_is(id, sealring.keys[i].id):
            return i
    return -1

cdef void seal_ring_close() noexcept nogil:
    OPENSSL_cleanse(&sealring, sizeof(sealring))

# ---- one thread's contexts -------------------------------------------------------------------------------------------

cdef enum:
    SEAL_IV = 16
    SEAL_TAG = 16
    # sealed and spelled at a time, in the processor's cache: whole blocks, whole groups of base64
    SEAL_CHUNK = 6144
    SEAL_IVS = 64             # taken from the system at once
    SEAL_MOST = 1 << 30       # bytes of a payload, far beyond any request
    SEAL_LOG_US = 10000000    # between two log lines about envelopes that cannot be opened

cdef const char* SEAL_BOUND = b"queend seal 1:"       # the additional data before the queue's name

cdef enum SealOpened:
    SEAL_OPENED = 0
    SEAL_PLAIN = 1            # the payload is not an envelope
    SEAL_NO_KEY = 2           # the key it names is absent, and no other opens it
    SEAL_BROKEN = 3           # its key is here: it was changed, or belongs to another queue
    # the payload is not an envelope, and the operator has such payloads refused: a text stands in its place
    SEAL_REFUSED = 4

cdef struct Seal:
    EVP_CIPHER_CTX* sealing
    EVP_CIPHER_CTX* opening[SEAL_KEYS]
    unsigned char[SEAL_IVS * SEAL_IV] ivs
    int iv                    # number of unused ones
    Scratch room
    int64_t told_us           # when an unopened envelope was last logged, 0: not yet
    int64_t plain_us          # when a plain payload was last logged, 0: not yet
    bint short_of_memory      # memory ran out since the flag was last cleared

cdef EVP_CIPHER_CTX* seal_context(int key, bint encrypt) noexcept nogil:
    # Returns a context with its key, so that each payload only brings its IV. NULL if memory ran out.
    cdef EVP_CIPHER_CTX* c = EVP_CIPHER_CTX_new()
    if (c != NULL and EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, NULL, NULL, encrypt) == 1
            and EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_IVLEN, SEAL_IV, NULL) == 1
            and EVP_CipherInit_ex(c, NULL, NULL, sealring.keys[key].key, NULL, encrypt) == 1):
        return c
    EVP_CIPHER_CTX_free(c)
    return NULL

cdef bint seal_bind(EVP_CIPHER_CTX* c, Slice queue) noexcept nogil:
    cdef unsigned char[300] text
    cdef size_t n = strlen(SEAL_BOUND)
    cdef int written
    if queue.n > 255:
        return False          # names of queues are shorter
    memcpy(text, SEAL_BOUND, n)
    memcpy(&text[n], queue.p, queue.n)
    return EVP_CipherUpdate(c, NULL, &written, text, <int>(n + queue.n)) == 1

cdef const unsigned char* seal_iv(Seal* s) noexcept nogil:
    # Returns 128 fresh random bits; NULL if the system gives none.
    if s.iv == 0:
        if getrandom(s.ivs, sizeof(s.ivs), 0) != sizeof(s.ivs):
            return NULL
        s.iv = SEAL_IVS
    s.iv -= 1
    return &s.ivs[SEAL_IV * s.iv]

cdef void seal_close(Seal* s) noexcept nogil:
    cdef int i
    EVP_CIPHER_CTX_free(s.sealing)
    for i in range(SEAL_KEYS):
        EVP_CIPHER_CTX_free(s.opening[i])
    free(s.room.p)
    memset(s, 0, sizeof(Seal))

# ---- sealing ---------------------------------------------------------------------------------------------------------

cdef inline size_t seal_size(size_t n) noexcept nogil:
    # Returns the bytes of the envelope of a payload of n bytes.
    return 85 + (n + 2) // 3 * 4

cdef inline char* seal_text(char* at, const char* text) noexcept nogil:
    cdef size_t n = strlen(text)
    memcpy(at, text, n)
    return at + n

cdef inline char* seal_base64(char* at, const unsigned char* p, int n) noexcept nogil:
    # Appends base64 and a NUL: more must follow.
    return at + EVP_EncodeBlock(<unsigned char*>at, p, n)

cdef bint seal_write(Seal* s, Slice queue, Slice payload, char* out) noexcept nogil:
    # Writes the envelope of a payload, exactly seal_size bytes, by the first key. Returns False without key, randomness
    # or memory.
    cdef unsigned char[SEAL_CHUNK] chunk
    cdef unsigned char[16] tag
    cdef const unsigned char* iv
    cdef size_t i = 0
    cdef int n, written
    if sealring.n == 0 or payload.n > SEAL_MOST:
        return False
    if s.sealing == NULL:
        s.sealing = seal_context(0, True)
        if s.sealing == NULL:
            return False
    iv = seal_iv(s)
    if iv == NULL or EVP_CipherInit_ex(s.sealing, NULL, NULL, NULL, iv, -1) != 1 or not seal_bind(s.sealing, queue):
        return False
    out = seal_text(out, b"{\"encrypted\":\"")
    while i < payload.n:
        n = SEAL_CHUNK if payload.n - i > SEAL_CHUNK else <int>(payload.n - i)
        if EVP_CipherUpdate(s.sealing, chunk, &written, <const unsigned char*>payload.p + i, n) != 1 or written != n:
            return False
        out = seal_base64(out, chunk, n)
        i += n
    if (EVP_CipherFinal_ex(s.sealing, chunk, &written) != 1
            or EVP_CIPHER_CTX_ctrl(s.sealing, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG, tag) != 1):
        return False
    out = seal_base64(seal_text(out, b"\",\"iv\":\""), iv, SEAL_IV)
    out = seal_base64(seal_text(out, b"\",\"authTag\":\""), tag, SEAL_TAG)
    seal_text(out, b"\"}")
    return True

# ---- opening ---------------------------------------------------------------------------------------------------------

cdef struct Envelope:
    Slice text                # base64
    unsigned char[18] iv
    unsigned char[18] tag

cdef inline bint seal_parse_short(Slice raw, unsigned char* out) noexcept nogil:
    # Reads a literal of 24 characters of base64: 16 bytes, and two of padding.
    return (raw.n == 26 and raw.p[24] == b'=' and raw.p[23] == b'='
            and EVP_DecodeBlock(out, <const unsigned char*>raw.p + 1, 24) == 18)

# Bits of the members of an envelope that were read.
cdef enum:
    ENVELOPE_TEXT = 1
    ENVELOPE_IV = 2
    ENVELOPE_TAG = 4
    ENVELOPE_WHOLE = 7

cdef bint seal_parse(Slice payload, Envelope* e) noexcept nogil:
    # Reads an object with exactly these three members, in any order. Returns False if the payload has another form.
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef int seen = 0
    json_open(&j, payload, 4)
    if not json_enter(&j, b'{'):
        return False
    while json_member(&j, &first, &key):
        if not json_string(&j, &value):
            return False
        if not seen & ENVELOPE_TEXT and slice_is(key, b'"encrypted"'):
            seen |= ENVELOPE_TEXT
            e.text = slice_of(value.p + 1, value.n - 2)
        elif not seen & ENVELOPE_IV and slice_is(key, b'"iv"') and seal_parse_short(value, e.iv):
            seen |= ENVELOPE_IV
        elif not seen & ENVELOPE_TAG and slice_is(key, b'"authTag"') and seal_parse_short(value, e.tag):
            seen |= ENVELOPE_TAG
        else:
            return False
    return json_end(&j) and seen == ENVELOPE_WHOLE and e.text.n and e.text.n % 4 == 0

cdef bint seal_try(Seal* s, int key, Slice queue, Envelope* e, const char* text, size_t n, char* out) noexcept nogil:
    # Opens an envelope with one key. queue: p NULL if it is not bound to a queue. Returns False if the key does not
    # open it.
    cdef EVP_CIPHER_CTX* c = s.opening[key]
    cdef int written
    if c == NULL:
        c = s.opening[key] = seal_context(key, False)
        if c == NULL:
            return False
    return (EVP_CipherInit_ex(c, NULL, NULL, NULL, e.iv, -1) == 1 and (queue.p == NULL or seal_bind(c, queue))
            and EVP_CipherUpdate(c, <unsigned char*>out, &written, <const unsigned char*>text, <int>n) == 1
            and <size_t>written == n
            and EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, SEAL_TAG, e.tag) == 1
            and EVP_CipherFinal_ex(c, <unsigned char*>out + n, &written) == 1)

cdef int seal_open(Seal* s, Slice queue, Slice id, Slice* payload) noexcept nogil:
    # Opens what was sealed with the key `id`. If id is empty, another program sealed it: it names no key and is bound
    # to no queue, so all keys are tried. Returns SEAL_OPENED with the content in payload, valid until the next call.
    # Otherwise payload stays.
    cdef Envelope e
    cdef Slice none = slice_of(NULL, 0)
    cdef Slice out
    cdef Json j
    cdef size_t n
    cdef int i
    cdef int named = seal_ring_find(id) if id.n else -1
    if not seal_parse(payload[0], &e):
        return SEAL_BROKEN if id.n else SEAL_PLAIN
    if e.text.n > 2 * <size_t>SEAL_MOST:
        return SEAL_BROKEN
    if not memory_scratch(&s.room, e.text.n // 4 * 6 + 32):
        s.short_of_memory = True
        return SEAL_BROKEN
    n = <size_t>EVP_DecodeBlock(<unsigned char*>s.room.p, <const unsigned char*>e.text.p, <int>e.text.n)
    if n != e.text.n // 4 * 3:
        return SEAL_BROKEN
    for i in range(2):
        if e.text.p[e.text.n - 1 - i] != b'=':
            break
        n -= 1
    out = slice_of(s.room.p + e.text.n // 4 * 3, n)
    for i in range(-1, sealring.n):
        # tries the named key first, then the others: an id may have been given anew
        if i == named if i >= 0 else named < 0:
            continue
        if seal_try(s, named if i < 0 else i, queue if id.n else none, &e, s.room.p, n, <char*>out.p):
            if not id.n:      # sealed by another holder of the key: it goes into answers that are JSON, so it is
                              # checked
                json_open(&j, out, JSON_DEPTH)
                if not json_skip(&j, NULL) or not json_end(&j):
                    continue
            payload[0] = out
            return SEAL_OPENED
    return SEAL_NO_KEY if named < 0 else SEAL_BROKEN

cdef const char* SEAL_TEXT = (b'{"error":"The payload is not sealed, though its queue is encrypted: '
                              b'it was stored without a key"}')

cdef int seal_plain(Seal* s, Slice queue, int result, Slice* payload) noexcept nogil:
    # Handles a payload of an encrypted queue that is not an envelope: stored before the option was set, or by a client
    # without a key. Returns SEAL_REFUSED with a text in payload if the operator wants that, else `result`.
    cdef char[400] text
    cdef int64_t now = clock_mono_us()
    if s.plain_us == 0 or now - s.plain_us > SEAL_LOG_US:
        s.plain_us = now
        snprintf(text, sizeof(text), b"queue %.*s: %s", <int>queue.n, queue.p,
                 b"not given to consumers (QUEEND_REFUSE_PLAIN)" if sealring.refuses
                 else b"given as it is; QUEEND_REFUSE_PLAIN has it refused")
        log_line(b"warn", b"payload_not_sealed", text)
    if not sealring.refuses:
        return result
    payload[0] = slice_lit(SEAL_TEXT)
    return SEAL_REFUSED

cdef int seal_reveal(Seal* s, Slice queue, Slice id, Slice* payload) noexcept nogil:
    # Opens a payload for an answer, if the queue is encrypted or the record has a key. A payload that cannot be opened
    # is given as it is stored, and logged at most once in SEAL_LOG_US.
    cdef Envelope e
    cdef char[400] text
    cdef int64_t now
    cdef const char* why = b"its key is not here"
    cdef int result = seal_open(s, queue, id, payload)
    if result == SEAL_OPENED:
        return result
    if result == SEAL_PLAIN or sealring.refuses and not seal_parse(payload[0], &e):
        return seal_plain(s, queue, result, payload)
    now = clock_mono_us()
    if s.told_us == 0 or now - s.told_us > SEAL_LOG_US:
        s.told_us = now
        if result == SEAL_BROKEN:
            why = b"it was changed, or is of another queue"
        snprintf(text, sizeof(text), b"queue %.*s, key '%.*s': %s; given as it is stored", <int>queue.n, queue.p,
                 <int>id.n, id.p, why)
        log_line(b"error", b"envelope_not_opened", text)
    return result

# ---- for the control plane -------------------------------------------------------------------------------------------
# Off the hot path. One context, guarded by the GIL.

cdef Seal seal_python

def seal_payload(str queue, bytes payload):
    """The payload (JSON) sealed for this queue: (envelope, id of the key). LookupError when there is no key, ValueError
    for a name no queue has."""
    cdef bytes name = queue.encode()
    cdef bytes out
    if sealring.n == 0:
        raise LookupError("there is no key")
    if len(name) > 255:
        raise ValueError("no queue has such a name")
    out = b" " * seal_size(len(payload))
    if not seal_write(&seal_python, slice_of(name, len(name)), slice_of(payload, len(payload)), <char*>out):
        raise MemoryError()
    return out, sealring.keys[0].id.decode()

def seal_opened(str queue, str key, bytes payload):
    """What an envelope of this queue holds, None where it cannot be opened; a text in place of one that is refused.
    key: the id that stands beside the record; None: sealed by another program, which any of the keys may open."""
    cdef bytes name = queue.encode()
    cdef bytes id = (key or "").encode()
    cdef Slice text = slice_of(payload, len(payload))
    cdef int result = seal_reveal(&seal_python, slice_of(name, len(name)), slice_of(id, len(id)), &text)
    if result != SEAL_OPENED and result != SEAL_REFUSED:
        return None
    return text.p[:text.n]

def seal_envelope(bytes payload):
    """Has it the form of an envelope?"""
    cdef Envelope e
    return bool(seal_parse(slice_of(payload, len(payload)), &e))
