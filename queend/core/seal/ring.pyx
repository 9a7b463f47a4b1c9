# Keeps the keys of encrypted queues: read once before the threads start, constant until they have ended. The first key
# seals, all open. A key is known by its id, which is public and stands beside every record it sealed.

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

cdef void sealring_close() noexcept nogil:
    OPENSSL_cleanse(&sealring, sizeof(sealring))

cdef inline Slice sealring_id(int i) noexcept nogil:
    return slice_lit(sealring.keys[i].id)

cdef inline int sealring_find(Slice id) noexcept nogil:
    # Returns the place of the key with this id, -1 if it is unknown.
    cdef int i
    for i in range(sealring.n):
        if slice_is(id, sealring.keys[i].id):
            return i
    return -1

cdef int sealring_load(str text) except -1:
    # Reads `id:hex,id:hex`. A ValueError names the place, never the text.
    cdef bytes id, key
    cdef list given = [one for one in text.split(",") if one]
    sealring_close()
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
