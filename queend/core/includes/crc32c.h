/* CRC-32C (Castagnoli): by the processor where it can, else by a table. */
#ifndef QUEEND_CRC32C_H
#define QUEEND_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc32c_plain(uint32_t crc, const unsigned char *p, size_t n) {
    static uint32_t table[256];
    static int made;   /* two threads that both make it write the same */
    if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++)
                c = (c >> 1) ^ (0x82f63b78u & (0u - (c & 1)));
            __atomic_store_n(&table[i], c, __ATOMIC_RELAXED);
        }
        __atomic_store_n(&made, 1, __ATOMIC_RELEASE);
    }
    while (n--)
        crc = (crc >> 8) ^ table[(crc ^ *p++) & 255];
    return crc;
}

#ifdef __x86_64__
#include <nmmintrin.h>
__attribute__((target("sse4.2"))) static uint32_t crc32c_wide(uint32_t crc, const unsigned char *p, size_t n) {
    uint64_t c = crc, v;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        c = _mm_crc32_u64(c, v);
    }
    while (n--)
        c = _mm_crc32_u8((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

/* seed: 0, or the checksum of what came before. */
static uint32_t crc32c(uint32_t seed, const void *p, size_t n) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc32c_wide(~seed, (const unsigned char *)p, n);
#endif
    return ~crc32c_plain(~seed, (const unsigned char *)p, n);
}
#endif
