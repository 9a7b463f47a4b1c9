/* Wide instructions of the processor, elsewhere plain C with the same results. Sixteen bytes at a time for the JSON
 * scanner and the ids, by SSE2, which every x86-64 has; checksums (CRC-32C, Castagnoli) by SSE4.2. All pointers may be
 * unaligned; every function reads and writes exactly what it names. */
#ifndef QUEEND_WIDE_H
#define QUEEND_WIDE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define wide_first(mask) __builtin_ctz(mask)   /* the mask is not 0 */
#define wide_first64(mask) __builtin_ctzll(mask)

/* 0 to 15: a digit; 16 more: a letter in upper case; 255: neither. */
static const unsigned char hex_digits[256] = {
    [0 ... '0' - 1] = 255, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ['9' + 1 ... 'A' - 1] = 255, 26, 27, 28, 29, 30, 31,
    ['F' + 1 ... 'a' - 1] = 255, 10, 11, 12, 13, 14, 15, ['f' + 1 ... 255] = 255};

/* Asks for what lies at p from memory. The empty statement is there because gcc takes a function that only does this
 * for one without effect, and leaves it out. */
static inline void wide_fetch(const void *p) {
    __builtin_prefetch(p);
    __asm__ volatile("");
}

#ifdef __SSE2__
#include <emmintrin.h>

/* One bit per byte: quote, backslash, control character or not ASCII. */
static inline unsigned wide_special(const char *p) {
    __m128i v = _mm_loadu_si128((const __m128i *)p);
    /* signed: what is below a blank is a control or not ASCII */
    __m128i low = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
    __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(low, marks));
}

/* One bit per byte: not a digit. */
static inline unsigned wide_no_digit(const char *p) {
    __m128i d = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8('0'));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(d, _mm_set1_epi8(9)), d)) ^ 0xffff;
}

/* One bit per byte: not ASCII. */
static inline unsigned wide_high(const char *p) {
    return (unsigned)_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)p));
}

static inline __m128i wide_in(__m128i v, char first, char span) {
    __m128i d = _mm_sub_epi8(v, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(d, _mm_set1_epi8(span)), d);
}

/* Sixteen hex digits in `v` become eight bytes, each in 16 bits; `bad` and `upper` gather what is no digit, and what is
 * one in upper case. */
static inline __m128i wide_unhex(__m128i v, __m128i *bad, __m128i *upper) {
    __m128i digit = wide_in(v, '0', 9), lower = wide_in(v, 'a', 5), up = wide_in(v, 'A', 5);
    __m128i letter = _mm_or_si128(lower, up);
    /* the low four bits of a letter are its value less 9 */
    __m128i value = _mm_add_epi8(_mm_and_si128(v, _mm_set1_epi8(15)), _mm_and_si128(letter, _mm_set1_epi8(9)));
    *bad = _mm_or_si128(*bad, _mm_andnot_si128(_mm_or_si128(digit, letter), _mm_set1_epi8(-1)));
    *upper = _mm_or_si128(*upper, up);
    return _mm_and_si128(_mm_or_si128(_mm_slli_epi16(value, 4), _mm_srli_epi16(value, 8)), _mm_set1_epi16(255));
}

/* The 36 characters of a UUID: 0 none, 1 in lower case, 2 with letters in upper case. */
static inline int wide_uuid_parse(const char *p, unsigned char *out) {
    __m128i bad = _mm_setzero_si128(), upper = bad, a, b;
    uint64_t first, last;
    uint32_t second, third, fourth, fifth;
    if (p[8] != '-' || p[13] != '-' || p[18] != '-' || p[23] != '-') return 0;
    /* joined in registers: a load from pieces just stored would wait for them */
    memcpy(&first, p, 8);
    memcpy(&second, p + 9, 4);
    memcpy(&third, p + 14, 4);
    memcpy(&fourth, p + 19, 4);
    memcpy(&fifth, p + 24, 4);
    memcpy(&last, p + 28, 8);
    a = wide_unhex(_mm_set_epi64x((int64_t)((uint64_t)third << 32 | second), (int64_t)first), &bad, &upper);
    b = wide_unhex(_mm_set_epi64x((int64_t)last, (int64_t)((uint64_t)fifth << 32 | fourth)), &bad, &upper);
    if (_mm_movemask_epi8(bad)) return 0;
    _mm_storeu_si128((__m128i *)out, _mm_packus_epi16(a, b));
    return _mm_movemask_epi8(upper) ? 2 : 1;
}

static inline __m128i wide_hex(__m128i nibbles) {
    __m128i letters = _mm_and_si128(_mm_cmpgt_epi8(nibbles, _mm_set1_epi8(9)), _mm_set1_epi8('a' - '0' - 10));
    return _mm_add_epi8(_mm_add_epi8(nibbles, _mm_set1_epi8('0')), letters);
}

/* Writes the 36 characters. */
static inline void wide_uuid_format(const unsigned char *id, char *out) {
    __m128i v = _mm_loadu_si128((const __m128i *)id), mask = _mm_set1_epi8(15);
    __m128i high = _mm_and_si128(_mm_srli_epi16(v, 4), mask), low = _mm_and_si128(v, mask);
    char text[32];
    _mm_storeu_si128((__m128i *)text, wide_hex(_mm_unpacklo_epi8(high, low)));
    _mm_storeu_si128((__m128i *)(text + 16), wide_hex(_mm_unpackhi_epi8(high, low)));
    memcpy(out, text, 8);
    memcpy(out + 9, text + 8, 4);
    memcpy(out + 14, text + 12, 4);
    memcpy(out + 19, text + 16, 4);
    memcpy(out + 24, text + 20, 4);
    memcpy(out + 28, text + 24, 8);
    out[8] = out[13] = out[18] = out[23] = '-';
}

#else

static inline unsigned wide_special(const char *p) {
    unsigned m = 0;
    for (int i = 0; i < 16; i++) {
        unsigned char c = (unsigned char)p[i];
        m |= (unsigned)(c < 0x20 || c >= 0x80 || c == '"' || c == '\\') << i;
    }
    return m;
}

static inline unsigned wide_no_digit(const char *p) {
    unsigned m = 0;
    for (int i = 0; i < 16; i++) m |= (unsigned)(p[i] < '0' || p[i] > '9') << i;
    return m;
}

static inline unsigned wide_high(const char *p) {
    unsigned m = 0;
    for (int i = 0; i < 16; i++) m |= (unsigned)((unsigned char)p[i] >> 7) << i;
    return m;
}

static inline int wide_uuid_parse(const char *p, unsigned char *out) {
    unsigned seen = 0;
    if (p[8] != '-' || p[13] != '-' || p[18] != '-' || p[23] != '-') return 0;
    for (int i = 0; i < 16; i++) {
        unsigned char a = hex_digits[(unsigned char)p[0]], b = hex_digits[(unsigned char)p[1]];
        seen |= a | b;
        out[i] = (unsigned char)(a << 4 | (b & 15));
        p += i == 3 || i == 5 || i == 7 || i == 9 ? 3 : 2;
    }
    return seen & 0xe0 ? 0 : seen & 16 ? 2 : 1;
}

static inline void wide_uuid_format(const unsigned char *id, char *out) {
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
        *out++ = "0123456789abcdef"[id[i] >> 4];
        *out++ = "0123456789abcdef"[id[i] & 15];
    }
}
#endif

/* ---- checksums ---- */
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

/* seed: 0, or the checksum of the bytes before. */
static uint32_t crc32c(uint32_t seed, const void *p, size_t n) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc32c_wide(~seed, (const unsigned char *)p, n);
#endif
    return ~crc32c_plain(~seed, (const unsigned char *)p, n);
}
#endif
