# Reads and writes whole numbers in either byte order, at any alignment.

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
