# First requests of groups that begin `new`, for a queue that does not exist yet or for a namespace or task. In: such
# requests. Out: when the first of them came. The group is made when its queue exists, and begins at that moment: it
# gets what was pushed in between. Owner: the process. A hash table of fixed size, guarded by book.lock.

cdef enum:
    AWAITED_SETS = 1024
    AWAITED_WAYS = 4              # entries in which a group may stand; the entry with the oldest last request gives way

cdef int64_t AWAITED_US = <int64_t>3600 * 1000000       # a group is forgotten so long after its last request

cdef struct Awaited:
    uint64_t key                  # 0: free
    int64_t first_us              # monotonic, of the first request
    int64_t last_us               # monotonic, of the last request

cdef Awaited[AWAITED_SETS * AWAITED_WAYS] awaited

cdef inline uint64_t awaited_key(bint any_queue, Slice name, Slice task, Slice group) noexcept nogil:
    return hash_mix(namewaiters_hash(any_queue, name, task) + slice_hash(group, hash_seed)) | 1

cdef Awaited* awaited_find(uint64_t key, int64_t now) noexcept nogil:
    # Returns the group's entry, or NULL if it has none or was forgotten.
    cdef Awaited* a = &awaited[(key >> 1) % AWAITED_SETS * AWAITED_WAYS]
    cdef int i
    for i in range(AWAITED_WAYS):
        if a[i].key == key:
            return &a[i] if now - a[i].last_us <= AWAITED_US else NULL
    return NULL

cdef void awaited_note(uint64_t key, int64_t started_us, int64_t now) noexcept nogil:
    # Notes a request. The moment of the first one stays.
    cdef Awaited* a = awaited_find(key, now)
    cdef Awaited* all_ = &awaited[(key >> 1) % AWAITED_SETS * AWAITED_WAYS]
    cdef int i
    if a == NULL:
        a = all_
        for i in range(AWAITED_WAYS):
            if all_[i].key == key:
                a = &all_[i]
                break
            if all_[i].last_us < a.last_us:
                a = &all_[i]
        a.key = key
        a.first_us = started_us
    a.last_us = now

cdef void awaited_forget(uint64_t key) noexcept nogil:
    # Forgets a group that was made: its row says where it begins from now on.
    cdef Awaited* a = &awaited[(key >> 1) % AWAITED_SETS * AWAITED_WAYS]
    cdef int i
    for i in range(AWAITED_WAYS):
        if a[i].key == key:
            memset(&a[i], 0, sizeof(Awaited))
