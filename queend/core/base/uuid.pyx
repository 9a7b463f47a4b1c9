# UUIDs: of version 7 (strictly increasing inside one generator), lease ids, message ids and partition ids. In: a clock,
# numbers, texts. Out: 16 bytes, or text. Message ids and partition ids are computed instead of stored (formats in
# docs/inside/storage.md).
# A generator and a store of random bytes belong to one thread. No locks.

cdef struct UuidGen:
    int64_t last_ms
    uint32_t seq              # 12-bit counter inside one millisecond
    uint64_t state            # xorshift64*: for uniqueness only, never for secrets

cdef void uuid_open(UuidGen* g) noexcept nogil:
    g.last_ms = 0
    g.seq = 0
    g.state = 0
    getrandom(&g.state, sizeof(g.state), 0)
    g.state |= 1

cdef inline uint64_t uuid_random(UuidGen* g) noexcept nogil:
    g.state ^= g.state >> 12
    g.state ^= g.state << 25
    g.state ^= g.state >> 27
    return g.state * <uint64_t>0x2545F4914F6CDD1D

cdef void uuid_make(UuidGen* g, unsigned char* out) noexcept nogil:
    uuid_next(g, clock_wall_us() // 1000, out)

cdef inline void uuid_next(UuidGen* g, int64_t ms, unsigned char* out) noexcept nogil:
    # Makes one of many ids, for which the clock is read once. 48 bits ms, 12 bits sequence, 62 random bits. If the
    # clock stands still or goes back the sequence goes on, and runs over into the next millisecond after 4096 ids.
    if ms > g.last_ms:
        g.last_ms = ms
        g.seq = 0
    else:
        g.seq += 1
        if g.seq > 0xfff:
            g.last_ms += 1
            g.seq = 0
    cdef uint64_t hi = (<uint64_t>g.last_ms << 16) | 0x7000 | g.seq
    cdef uint64_t lo = (uuid_random(g) >> 2) | (<uint64_t>1 << 63)
    be64_put(out, hi)
    be64_put(out + 8, lo)

# ---- lease ids -------------------------------------------------------------------------------------------------------

cdef struct Secrets:
    int left                  # bytes of the kernel's randomness that are unused
    unsigned char[256] bytes  # as many as one call is sure to return

cdef void uuid_secret(Secrets* s, unsigned char* out, int n) noexcept nogil:
    if s.left < n:
        while getrandom(s.bytes, sizeof(s.bytes), 0) != sizeof(s.bytes):
            pass                      # a signal came while the kernel still gathered randomness, at the start of the
                                      # machine
        s.left = sizeof(s.bytes)
    s.left -= n
    memcpy(out, s.bytes + s.left, n)
    memset(s.bytes + s.left, 0, n)

cdef void uuid_lease(Secrets* s, const unsigned char* seed, int32_t partition, unsigned char* out) noexcept nogil:
    # Makes a lease id, of version 8. If its first bit is set the id names its partition. It then has 89 random bits,
    # and the partition's number under a mask of them and the seed. Partition 0 stands for several partitions, which the
    # database stores (queend.leases).
    uuid_secret(s, out, 16 if partition == 0 else 12)
    out[0] = out[0] & 0x7f if partition == 0 else out[0] | 0x80
    out[6] = (out[6] & 0x0f) | 0x80
    out[8] = (out[8] & 0x3f) | 0x80
    if partition == 0:
        return
    be32_put(out + 12, <uint32_t>partition)
    uuid_mask(seed, b'l', out)

cdef void uuid_mask(const unsigned char* seed, char letter, unsigned char* id) noexcept nogil:
    # Masks the number in the last 4 bytes of an id, or unmasks it. The mask is a digest of the seed, the letter of its
    # kind and the 12 bytes before the number.
    cdef unsigned char[29] msg
    cdef unsigned char[32] digest
    cdef int i
    memcpy(msg, seed, 16)
    msg[16] = <unsigned char>letter
    memcpy(&msg[17], id, 12)
    slice_sha256(msg, 29, digest)
    for i in range(4):
        id[12 + i] ^= digest[i]

# ---- order and text --------------------------------------------------------------------------------------------------

cdef inline bint uuid_less(const unsigned char* a, const unsigned char* b) noexcept nogil:
    # Returns True if a is before b in memcmp's order.
    cdef uint64_t x = be64(a)
    cdef uint64_t y = be64(b)
    return be64(a + 8) < be64(b + 8) if x == y else x < y

# Results of wide_uuid_parse.
cdef enum:
    UUID_MALFORMED = 0
    UUID_LOWER = 1            # all letters are small
    UUID_MIXED = 2

cdef inline bint uuid_parse(Slice s, unsigned char* out) noexcept nogil:
    # Parses the 36-character form, either case. Returns False and leaves `out` undefined if it is malformed.
    return s.n == 36 and wide_uuid_parse(s.p, out) != UUID_MALFORMED

cdef inline void uuid_format(const unsigned char* id, char* out) noexcept nogil:
    # Writes 36 bytes, no NUL.
    wide_uuid_format(id, out)

# ---- ids computed from numbers ---------------------------------------------------------------------------------------

cdef void uuid_message(int64_t created_us, int32_t partition, int64_t offset, unsigned char* out) noexcept nogil:
    # Computes a message id: 48 bits ms, then 42 bits offset and 32 bits partition id in the 74 free bits. It sorts like
    # the offset.
    cdef uint64_t ms = <uint64_t>(created_us // 1000)
    cdef uint64_t hi = (ms << 16) | 0x7000 | ((<uint64_t>offset >> 30) & 0xfff)
    cdef uint64_t lo = (<uint64_t>1 << 63) | ((<uint64_t>offset & 0x3fffffff) << 32) | <uint32_t>partition
    be64_put(out, hi)
    be64_put(out + 8, lo)

cdef void uuid_serial(const unsigned char* seed, char letter, int32_t number, unsigned char* out) noexcept nogil:
    # Spells a serial number as a UUID that cannot be guessed by counting. It has 12 tag bytes from the seed and the
    # number, then the number under a mask that the tag gives. The letter is 'p' for partitions, 'q' for queues.
    cdef unsigned char[21] msg
    cdef unsigned char[32] digest
    memcpy(msg, seed, 16)
    msg[16] = <unsigned char>letter
    be32_put(&msg[17], <uint32_t>number)
    slice_sha256(msg, 21, digest)
    memcpy(out, digest, 12)
    out[6] = (out[6] & 0x0f) | 0x80
    out[8] = (out[8] & 0x3f) | 0x80
    be32_put(out + 12, <uint32_t>number)
    uuid_mask(seed, c'm' if letter == b'p' else c'r', out)

cdef bint uuid_partition_read(const unsigned char* seed, const unsigned char* id, int32_t* number) noexcept nogil:
    # Reads the number of a partition's id. Returns False if this database did not spell it.
    cdef unsigned char[16] again
    memcpy(again, id, 16)
    uuid_mask(seed, b'm', again)
    number[0] = <int32_t>be32(again + 12)
    if number[0] <= 0:
        return False
    uuid_serial(seed, b'p', number[0], again)
    return memcmp(again, id, 16) == 0
