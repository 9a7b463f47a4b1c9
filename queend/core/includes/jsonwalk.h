/* A JSON object or array, checked in one walk. Where strings and numbers end is known beforehand for 64 bytes at a
 * time, a bit for each: so a step does not wait for the one before it. And nothing asks at every byte whether the text
 * is over: the walk may read a little behind it, and what it found is worth something only if the value ended inside.
 *
 * It only ever says "valid, and it ends here". Whatever it does not understand, json_skip reads again byte by byte, and
 * finds the words for it. */
#ifndef QUEEND_JSONWALK_H
#define QUEEND_JSONWALK_H
#include <stdint.h>
#include <string.h>
#include "wide.h"

#define JSONWALK_DEPTH 1024   /* of which the stack has one bit each */
enum { JSONWALK_ROOM = 80 };  /* bytes behind the text that must be readable for a walk up to its end */
#define JSONWALK_INLINE static inline __attribute__((always_inline))
#define jsonwalk_likely(x) __builtin_expect(!!(x), 1)

#if defined(__SSE2__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

/* The 64 bytes from `base` on, a bit each. */
struct jsonwalk_block {
    const char *base;
    uint64_t special;         /* quote, backslash, control character or not ASCII */
    uint64_t other;           /* no digit */
};

typedef void jsonwalk_look(struct jsonwalk_block *b, const char *p);

JSONWALK_INLINE void jsonwalk_look16(struct jsonwalk_block *b, const char *p) {
    b->base = p;
    b->special = wide_special(p) | (uint64_t)wide_special(p + 16) << 16 | (uint64_t)wide_special(p + 32) << 32
        | (uint64_t)wide_special(p + 48) << 48;
    b->other = wide_no_digit(p) | (uint64_t)wide_no_digit(p + 16) << 16 | (uint64_t)wide_no_digit(p + 32) << 32
        | (uint64_t)wide_no_digit(p + 48) << 48;
}

#define JSONWALK_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt")))

JSONWALK_AVX2 JSONWALK_INLINE uint32_t jsonwalk_special32(__m256i v) {
    __m256i marks = _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
                                    _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')));
    /* signed: what is below a blank is a control or not ASCII */
    return (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(marks, _mm256_cmpgt_epi8(_mm256_set1_epi8(32), v)));
}

JSONWALK_AVX2 JSONWALK_INLINE uint32_t jsonwalk_digit32(__m256i v) {
    __m256i d = _mm256_sub_epi8(v, _mm256_set1_epi8('0'));
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(d, _mm256_set1_epi8(9)), d));
}

JSONWALK_AVX2 JSONWALK_INLINE void jsonwalk_look32(struct jsonwalk_block *b, const char *p) {
    __m256i v = _mm256_loadu_si256((const __m256i *)p), w = _mm256_loadu_si256((const __m256i *)(p + 32));
    b->base = p;
    b->special = jsonwalk_special32(v) | (uint64_t)jsonwalk_special32(w) << 32;
    b->other = ~(jsonwalk_digit32(v) | (uint64_t)jsonwalk_digit32(w) << 32);
}

/* An escape: p stands at its backslash. The byte after it, NULL when there is none. */
static const char *jsonwalk_escape(const char *p) {
    switch (p[1]) {
    case 'u':
        return (hex_digits[(unsigned char)p[2]] | hex_digits[(unsigned char)p[3]] | hex_digits[(unsigned char)p[4]] |
                hex_digits[(unsigned char)p[5]]) & 0xe0 ? NULL : p + 6;
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return p + 2;
    }
    return NULL;
}

/* p stands behind the opening quote; the byte after the closing one. `high` is set where a byte is not ASCII. */
JSONWALK_INLINE const char *jsonwalk_string(const char *p, const char *limit, int *high,
                                            struct jsonwalk_block *b, jsonwalk_look *look) {
    for (;;) {
        uint64_t m = 0;
        if (jsonwalk_likely((size_t)(p - b->base) < 64)) m = b->special >> (p - b->base);
        if (m == 0) {
            if (p > limit) return NULL;
            look(b, p);
            m = b->special;
            if (m == 0) {
                p += 64;
                continue;
            }
        }
        p += wide_first64(m);
        if (jsonwalk_likely(*p == '"')) return p + 1;
        if (*p == '\\') {
            p = jsonwalk_escape(p);
            if (p == NULL) return NULL;
        } else if (*p & 0x80) {
            *high = 1;
            do p++; while (*p & 0x80 && p <= limit);
        } else {
            return NULL;
        }
    }
}

/* p stands where a digit must be; the byte after the last one, NULL when there is none. */
JSONWALK_INLINE const char *jsonwalk_digits(const char *p, const char *limit,
                                            struct jsonwalk_block *b, jsonwalk_look *look) {
    const char *first = p;
    for (;;) {
        uint64_t m = 0;
        if (jsonwalk_likely((size_t)(p - b->base) < 64)) m = b->other >> (p - b->base);
        if (m == 0) {
            if (p > limit) return NULL;
            look(b, p);
            m = b->other;
            if (m == 0) {
                p += 64;
                continue;
            }
        }
        p += wide_first64(m);
        return p != first ? p : NULL;
    }
}

/* p stands at a digit or a minus; the byte after the number. */
JSONWALK_INLINE const char *jsonwalk_number(const char *p, const char *limit,
                                            struct jsonwalk_block *b, jsonwalk_look *look) {
    const char *first;
    if (*p == '-') p++;
    first = p;
    p = jsonwalk_digits(p, limit, b, look);
    if (p == NULL || (*first == '0' && p != first + 1)) return NULL;
    if (*p == '.') {
        p = jsonwalk_digits(p + 1, limit, b, look);
        if (p == NULL) return NULL;
    }
    if ((*p | 32) == 'e') {
        p++;
        if (*p == '+' || *p == '-') p++;
        p = jsonwalk_digits(p, limit, b, look);
    }
    return p;
}

JSONWALK_INLINE const char *jsonwalk_blank(const char *p, const char *limit) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        if (p++ > limit) return p;      /* nothing is blank there that a value could end with: the next look gives up */
    return p;
}

/* p stands at '{' or '['; the text ends at `end`, bytes before `room` may be read; at most `most` containers in each
 * other. The byte after the value, NULL: it is not valid, or not clear from here. `high` is set when it has bytes that
 * are not ASCII: whether they are UTF-8 is not looked at; all of them stand in strings. */
JSONWALK_INLINE const char *jsonwalk_over(const char *p, const char *end, const char *room, int most, int *high,
                                          jsonwalk_look *look) {
    struct jsonwalk_block block;
    uint64_t objects[JSONWALK_DEPTH / 64];
    const char *limit = room - JSONWALK_ROOM;
    int depth = 0, inside = 0;
    char c;
    if (p > limit) return NULL;
    look(&block, p);
value:
    if (p > limit) return NULL;
    c = *p;
    if (c == '"') {
        p = jsonwalk_string(p + 1, limit, high, &block, look);
        if (p == NULL) return NULL;
    } else if ((unsigned char)(c - '0') < 10 || c == '-') {
        p = jsonwalk_number(p, limit, &block, look);
        if (p == NULL) return NULL;
    } else if (c == '{' || c == '[') {
        if (depth >= most) return NULL;
        objects[depth >> 6] = depth & 63
            ? (objects[depth >> 6] & ~((uint64_t)1 << (depth & 63))) | (uint64_t)inside << (depth & 63)
            : (uint64_t)inside;
        depth++;
        inside = c == '{';
        p++;
        if (!jsonwalk_likely(*p == '"')) p = jsonwalk_blank(p, limit);
        if (*p == c + 2) goto close;
        if (inside) goto key;
        goto value;
    } else if (c == 't' && !memcmp(p, "true", 4)) {
        p += 4;
    } else if (c == 'f' && !memcmp(p, "false", 5)) {
        p += 5;
    } else if (c == 'n' && !memcmp(p, "null", 4)) {
        p += 4;
    } else {
        const char *before = p;
        p = jsonwalk_blank(p, limit);
        if (p == before) return NULL;
        goto value;
    }
after:
    if (jsonwalk_likely(*p == ',')) {
        p++;
        if (!inside) goto value;
        if (!jsonwalk_likely(*p == '"')) p = jsonwalk_blank(p, limit);
key:
        if (*p != '"') return NULL;
        p = jsonwalk_string(p + 1, limit, high, &block, look);
        if (p == NULL) return NULL;
        if (!jsonwalk_likely(*p == ':')) {
            p = jsonwalk_blank(p, limit);
            if (*p != ':') return NULL;
        }
        p++;
        goto value;
    }
    if (*p != (inside ? '}' : ']')) {
        const char *before = p;
        p = jsonwalk_blank(p, limit);
        if (p == before || p > limit) return NULL;
        goto after;
    }
close:
    p++;
    depth--;
    if (depth == 0) return p <= end ? p : NULL;
    if (p > limit) return NULL;
    inside = objects[depth >> 6] >> (depth & 63) & 1;
    goto after;
}

static const char *jsonwalk16(const char *p, const char *end, const char *room, int most, int *high) {
    return jsonwalk_over(p, end, room, most, high, jsonwalk_look16);
}

JSONWALK_AVX2 static const char *jsonwalk32(const char *p, const char *end, const char *room, int most, int *high) {
    return jsonwalk_over(p, end, room, most, high, jsonwalk_look32);
}
#endif

typedef const char *jsonwalk(const char *p, const char *end, const char *room, int most, int *high);

#if defined(__SSE2__) && defined(__GNUC__)
/* A bit of its own: not every compiler's __builtin_cpu_supports knows it. */
static int jsonwalk_lzcnt(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & 1 << 5);
}
#endif

/* The widest this processor can do, of at most `most` bytes; NULL: none. */
static jsonwalk *jsonwalk_best(int most) {
#if defined(__SSE2__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (most >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")
        && jsonwalk_lzcnt())
        return jsonwalk32;
    return most >= 16 ? jsonwalk16 : NULL;
#else
    (void)most;
    return NULL;
#endif
}
#endif
