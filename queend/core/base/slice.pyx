# Borrowed bytes (a place and a length), and numbers in bytes. In: bytes. Out: slices of them, comparisons, hashes and
# digests, numbers; copies with an owner. A slice owns nothing: its memory must outlive it; for a request that is its
# arena. Owns hash_seed, constant after the start. No locks.

cdef enum:
    LETTER_SMALL = 0x20       # the bit that makes an ASCII letter small

cdef struct Slice:
    const char* p
    size_t n

cdef inline Slice slice_of(const char* p, size_t n) noexcept nogil:
    cdef Slice s
    s.p = p
    s.n = n
    return s

cdef inline Slice slice_lit(const char* text) noexcept nogil:
    return slice_of(text, strlen(text))

cdef inline Slice slice_from(Slice s, size_t at) noexcept nogil:
    # Returns what stands from there on. Requires at <= s.n.
    return slice_of(s.p + at, s.n - at)

cdef inline Slice slice_until(Slice s, char c) noexcept nogil:
    # Returns what stands before the first such byte; all of it if there is no such byte.
    cdef const char* at = <const char*>memchr(s.p, c, s.n) if s.n else NULL
    return slice_of(s.p, at - s.p if at != NULL else s.n)

cdef inline Slice slice_cut(Slice* s, char c) noexcept nogil:
    # Takes what stands before the first such byte from s, and removes both; takes all of s if there is no such byte.
    cdef Slice first = slice_until(s[0], c)
    s[0] = slice_from(s[0], min(first.n + 1, s.n))
    return first

cdef inline Slice slice_trim(Slice s) noexcept nogil:
    # Returns s without blanks and tabs around it.
    while s.n and (s.p[0] == b' ' or s.p[0] == b'\t'):
        s = slice_from(s, 1)
    while s.n and (s.p[s.n - 1] == b' ' or s.p[s.n - 1] == b'\t'):
        s.n -= 1
    return s

# ---- comparisons -----------------------------------------------------------------------------------------------------

cdef inline bint slice_eq(Slice a, Slice b) noexcept nogil:
    return a.n == b.n and (a.n == 0 or memcmp(a.p, b.p, a.n) == 0)

cdef inline bint slice_is(Slice a, const char* text) noexcept nogil:
    cdef size_t n = strlen(text)
    return a.n == n and (n == 0 or memcmp(a.p, text, n) == 0)

cdef inline bint slice_nfolds(const char* p, const char* lower, size_t n) noexcept nogil:
    # Returns True if p is `lower` but for the case of its letters.
    cdef size_t i
    cdef char c
    for i in range(n):
        c = p[i]
        if c >= b'A' and c <= b'Z':
            c += LETTER_SMALL
        if c != lower[i]:
            return False
    return True

cdef inline bint slice_nsame(const char* a, const char* b, size_t n) noexcept nogil:
    # Returns True if both are equal but for the case of letters.
    cdef size_t i
    for i in range(n):
        if ((a[i] | LETTER_SMALL if b'A' <= a[i] <= b'Z' else a[i])
                != (b[i] | LETTER_SMALL if b'A' <= b[i] <= b'Z' else b[i])):
            return False
    return True

cdef inline bint slice_folds(Slice s, const char* lower) noexcept nogil:
    # Returns True if all of s is `lower`, in any case.
    cdef size_t n = strlen(lower)
    return s.n == n and slice_nfolds(s.p, lower, n)

cdef inline bint slice_begins(Slice s, const char* lower) noexcept nogil:
    # Returns True if s begins with `lower`, in any case.
    cdef size_t n = strlen(lower)
    return s.n >= n and slice_nfolds(s.p, lower, n)

# ---- copies ----------------------------------------------------------------------------------------------------------

cdef inline Slice slice_copy(char* room, Slice s) noexcept nogil:
    # Copies into room for one byte more, which becomes a NUL. Returns p NULL if room is NULL (memory ran out).
    if room == NULL:
        return slice_of(NULL, 0)
    if s.n:
        memcpy(room, s.p, s.n)
    room[s.n] = 0
    return slice_of(room, s.n)

cdef Slice slice_keep(Slice s) noexcept nogil:
    # Returns an own copy, with a NUL behind it; p is NULL if memory ran out.
    return slice_copy(<char*>malloc(s.n + 1), s)

# ---- hashes ----------------------------------------------------------------------------------------------------------

cdef uint64_t hash_seed       # of this process: clients cannot choose texts whose hashes meet
getrandom(&hash_seed, 8, 0)

cdef inline uint64_t slice_mix(uint64_t h) noexcept nogil:
    # Mixes like the finaliser of splitmix64: every input bit reaches every output bit.
    h ^= h >> 30
    h *= <uint64_t>0xbf58476d1ce4e5b9
    h ^= h >> 27
    h *= <uint64_t>0x94d049bb133111eb
    h ^= h >> 31
    return h

cdef inline uint64_t slice_hash(Slice s, uint64_t seed) noexcept nogil:
    # Hashes a text. seed: hash_seed, or a value made of it, wherever clients choose the text.
    cdef uint64_t h = seed ^ (s.n * <uint64_t>0x9e3779b97f4a7c15)
    cdef uint64_t w
    cdef size_t i = 0
    while i + 8 <= s.n:
        memcpy(&w, s.p + i, 8)
        h = slice_mix(h ^ w)
        i += 8
    if i < s.n:
        w = 0
        memcpy(&w, s.p + i, s.n - i)
        h = slice_mix(h ^ w)
    return slice_mix(h)

cdef inline void slice_sha256(const void* text, size_t n, unsigned char* out) noexcept nogil:
    # Writes 32 bytes to out. SHA256() of OpenSSL 3 looks the algorithm up for every text, under a lock. For a short
    # text that takes seven times as long as the digest.
    cdef SHA256_CTX c
    SHA256_Init(&c)
    SHA256_Update(&c, text, n)
    SHA256_Final(out, &c)

# ---- numbers in either byte order, at any alignment ------------------------------------------------------------------

cdef inline uint16_t le16(const void* p) noexcept nogil:
    cdef uint16_t v
    memcpy(&v, p, 2)
    return le16toh(v)

cdef inline uint32_t le32(const void* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return le32toh(v)

cdef inline uint64_t le64(const void* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return le64toh(v)

cdef inline uint16_t be16(const void* p) noexcept nogil:
    cdef uint16_t v
    memcpy(&v, p, 2)
    return be16toh(v)

cdef inline uint32_t be32(const void* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return be32toh(v)

cdef inline uint64_t be64(const void* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return be64toh(v)

cdef inline void le16_put(void* p, uint16_t v) noexcept nogil:
    v = htole16(v)
    memcpy(p, &v, 2)

cdef inline void le32_put(void* p, uint32_t v) noexcept nogil:
    v = htole32(v)
    memcpy(p, &v, 4)

cdef inline void le64_put(void* p, uint64_t v) noexcept nogil:
    v = htole64(v)
    memcpy(p, &v, 8)

cdef inline void be16_put(void* p, uint16_t v) noexcept nogil:
    v = htobe16(v)
    memcpy(p, &v, 2)

cdef inline void be32_put(void* p, uint32_t v) noexcept nogil:
    v = htobe32(v)
    memcpy(p, &v, 4)

cdef inline void be64_put(void* p, uint64_t v) noexcept nogil:
    v = htobe64(v)
    memcpy(p, &v, 8)

cdef inline int slice_hex(unsigned char c) noexcept nogil:
    cdef int v = hex_digits[c]
    return v & 15 if v != 255 else -1
