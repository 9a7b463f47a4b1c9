# C names that every room uses: of libc, POSIX, libuv, libpq, zstd, zlib, OpenSSL and core/includes. Owns nothing.
# malloc, calloc and realloc are those of base/memory, so that tests can let them fail.
from libc.stdint cimport int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, uintptr_t, INT64_MAX
from libc.stdlib cimport free, atoi, atoll, strtod
from libc.string cimport memcpy, memcmp, memset, memmove, memchr, strlen, strncpy, strcmp, strncmp, strchr, strrchr
from libc.stdio cimport snprintf, fprintf, stderr
from cpython.buffer cimport PyBuffer_FillInfo
from posix.time cimport timespec, clock_gettime, CLOCK_REALTIME, CLOCK_MONOTONIC

from queend.core.includes.uv cimport *
from queend.core.includes.posix cimport *
from queend.core.includes.libpq cimport *
from queend.core.includes.compress cimport *
from queend.core.includes.openssl cimport *

cdef extern from "<endian.h>" nogil:
    uint16_t htobe16(uint16_t)
    uint32_t htobe32(uint32_t)
    uint64_t htobe64(uint64_t)
    uint16_t be16toh(uint16_t)
    uint32_t be32toh(uint32_t)
    uint64_t be64toh(uint64_t)
    uint16_t le16toh(uint16_t)
    uint32_t le32toh(uint32_t)
    uint64_t le64toh(uint64_t)
    uint16_t htole16(uint16_t)
    uint32_t htole32(uint32_t)
    uint64_t htole64(uint64_t)

cdef extern from "<string.h>" nogil:
    char* strstr(const char*, const char*)
    size_t strcspn(const char*, const char*)
    void* memmem(const void*, size_t, const void*, size_t)

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void*, size_t, unsigned int)

cdef extern from "wide.h" nogil:
    int wide_first(unsigned int mask)
    int wide_first64(uint64_t mask)
    unsigned int wide_special(const char* p)          # bits of 16 bytes: quote, backslash, control, not ASCII
    unsigned int wide_no_digit(const char* p)
    unsigned int wide_high(const char* p)             # not ASCII
    void wide_fetch(const void* p)                    # asks for it from memory, without waiting
    int wide_uuid_parse(const char* p, unsigned char* out)      # 36 in, 16 out: 0 malformed, 1 lower case, 2 not only
    void wide_uuid_format(const unsigned char* id, char* out)
    const unsigned char[256] hex_digits
    uint32_t crc32c(uint32_t seed, const void* p, size_t n)
    uint32_t crc32c_plain(uint32_t crc, const unsigned char* p, size_t n)

cdef extern from "jsonwalk.h" nogil:
    enum:
        JSONWALK_ROOM         # bytes readable behind a text for a walk up to its end
    # p stands at '{' or '['. Returns the byte after the value, NULL if it must be read byte by byte
    ctypedef const char* jsonwalk(const char* p, const char* end, const char* room, int most, int* high) noexcept nogil
    jsonwalk* jsonwalk_best(int most)         # of at most so many bytes at a time; NULL if there is none

# Words that several threads read and write without a lock: each access is whole, no order between words is promised
# unless the name says so.
cdef extern from * nogil:
    """
    #include <stdint.h>

    /* Fields of structures: reading one is a plain load, setting one a full store. The fuzz targets have one thread,
     * and clang 14 makes no cast to an atomic type. */
    #ifdef QUEEND_ONE_THREAD
    typedef int shared_int;
    typedef int32_t shared_int32;
    typedef int64_t shared_int64;
    #else
    typedef _Atomic int shared_int;
    typedef _Atomic int32_t shared_int32;
    typedef _Atomic int64_t shared_int64;
    #endif

    static inline int64_t atomic_get64(const int64_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
    static inline void atomic_set64(int64_t *at, int64_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }

    /* For several writers. Returns the sum. */
    static inline int64_t atomic_add64(int64_t *at, int64_t more) {
        return __atomic_add_fetch(at, more, __ATOMIC_RELAXED);
    }
    static inline uint8_t atomic_get8(const uint8_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
    static inline void atomic_set8(uint8_t *at, uint8_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }

    /* Counted by one thread, read by others: a reader that sees a fall sees all that was done before it. */
    static inline void pin_up(int64_t *at) {
        __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    }
    static inline void pin_down(int64_t *at) {
        __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) - 1, __ATOMIC_RELEASE);
    }
    static inline void pin_set(int64_t *at, int64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
    static inline int64_t pin_count(const int64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
    """
    # a word that other threads read without the lock under which it is set
    ctypedef bint SharedFlag "shared_int"
    ctypedef int SharedInt "shared_int"
    ctypedef int32_t SharedInt32 "shared_int32"
    ctypedef int64_t SharedInt64 "shared_int64"
    uint8_t atomic_get8(const uint8_t* at)
    void atomic_set8(uint8_t* at, uint8_t value)
    int64_t atomic_get64(const int64_t* at)
    void atomic_set64(int64_t* at, int64_t value)
    int64_t atomic_add64(int64_t* at, int64_t more)
    void pin_up(int64_t* at)
    void pin_down(int64_t* at)
    void pin_set(int64_t* at, int64_t value)
    int64_t pin_count(const int64_t* at)
