/* Every allocation of the core. A test makes them fail, one after the other (probe/memory); until then the question
 * costs one load and a branch that is never taken. */
#ifndef QUEEND_MEM_H
#define QUEEND_MEM_H
#include <stdint.h>
#include <stdlib.h>

static int mem_armed;           /* a test counts */
static int64_t mem_asked;       /* allocations since it began */
static int64_t mem_fails_from;  /* the first that fails, from 1 on; 0: none does */
static int64_t mem_fails;       /* how many fail */

static __attribute__((noinline, cold)) int mem_refused(void)
{
    int64_t n = __atomic_add_fetch(&mem_asked, 1, __ATOMIC_RELAXED);
    int64_t from = __atomic_load_n(&mem_fails_from, __ATOMIC_RELAXED);
    return from && n >= from && n < from + __atomic_load_n(&mem_fails, __ATOMIC_RELAXED);
}

#define MEM_REFUSED() (__builtin_expect(__atomic_load_n(&mem_armed, __ATOMIC_RELAXED), 0) && mem_refused())

static inline void *mem_malloc(size_t n) { return MEM_REFUSED() ? NULL : malloc(n); }
static inline void *mem_calloc(size_t n, size_t size) { return MEM_REFUSED() ? NULL : calloc(n, size); }
static inline void *mem_realloc(void *p, size_t n) { return MEM_REFUSED() ? NULL : realloc(p, n); }
static inline void *mem_aligned(size_t to, size_t n) { return MEM_REFUSED() ? NULL : aligned_alloc(to, n); }

static inline void mem_arm(int64_t from, int64_t fails)
{
    __atomic_store_n(&mem_asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&mem_fails_from, from, __ATOMIC_RELAXED);
    __atomic_store_n(&mem_fails, fails, __ATOMIC_RELAXED);
    __atomic_store_n(&mem_armed, 1, __ATOMIC_RELAXED);
}

static inline int64_t mem_disarm(void)
{
    __atomic_store_n(&mem_armed, 0, __ATOMIC_RELAXED);
    return __atomic_load_n(&mem_asked, __ATOMIC_RELAXED);
}

#endif
