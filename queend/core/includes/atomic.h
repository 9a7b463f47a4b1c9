/* Words that several threads read and write without a lock: each access is whole, no order between words is promised
 * unless the name says so. */
#ifndef QUEEND_ATOMIC_H
#define QUEEND_ATOMIC_H
#include <stdint.h>

/* The same for fields of structures: reading one is a plain load, setting one a full store. */
#ifdef QUEEND_ONE_THREAD      /* the fuzz targets: clang 14 makes no cast to an atomic type, and they have one thread */
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

/* Of several writers: the sum after it. */
static inline int64_t atomic_add64(int64_t *at, int64_t more) { return __atomic_add_fetch(at, more, __ATOMIC_RELAXED); }
static inline uint8_t atomic_get8(const uint8_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
static inline void atomic_set8(uint8_t *at, uint8_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }

/* What one thread counts and others look at: who sees a fall sees all that was done before it. */
static inline void pin_up(int64_t *at) {
    __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}
static inline void pin_down(int64_t *at) {
    __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) - 1, __ATOMIC_RELEASE);
}
static inline void pin_set(int64_t *at, int64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
static inline int64_t pin_count(const int64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

#endif
