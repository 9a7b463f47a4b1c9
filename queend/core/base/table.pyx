# Hash table of pointers. In: 64-bit keys; 0 is not allowed. Out: the pointer of a key, NULL if it is missing.
# Open-addressed: linear probing, deletion by backward shift, load at most 3/4. Owns its cells, not what they point to.
# The owner locks it.

cdef struct TableCell:
    uint64_t key
    void* value

cdef struct Table:
    TableCell* cells
    size_t mask
    size_t used

cdef inline uint64_t table_pair(int32_t one, int32_t other) noexcept nogil:
    # Returns a key made of two ids.
    return (<uint64_t><uint32_t>one << 32) | <uint32_t>other

cdef inline void table_init(Table* t) noexcept nogil:
    # Makes an empty table, as zeroed memory is one.
    memset(t, 0, sizeof(Table))

cdef inline void table_free(Table* t) noexcept nogil:
    free(t.cells)
    table_init(t)

cdef inline void* table_get(Table* t, uint64_t key) noexcept nogil:
    cdef size_t i
    if t.used == 0:
        return NULL
    i = slice_mix(key) & t.mask
    while t.cells[i].key != 0:
        if t.cells[i].key == key:
            return t.cells[i].value
        i = (i + 1) & t.mask
    return NULL

cdef bint table_resize(Table* t, size_t size) noexcept nogil:
    cdef TableCell* old = t.cells
    cdef size_t old_size = t.mask + 1 if old != NULL else 0
    cdef size_t i, j
    cdef TableCell* cells = <TableCell*>calloc(size, sizeof(TableCell))
    if cells == NULL:
        return False
    t.cells = cells
    t.mask = size - 1
    for i in range(old_size):
        if old[i].key != 0:
            j = slice_mix(old[i].key) & t.mask
            while cells[j].key != 0:
                j = (j + 1) & t.mask
            cells[j] = old[i]
    free(old)
    return True

cdef bint table_put(Table* t, uint64_t key, void* value) noexcept nogil:
    # Adds or replaces a value. Returns False if memory ran out: the table is then unchanged. Replacing always succeeds.
    cdef size_t i
    if t.cells == NULL and not table_resize(t, 16):
        return False
    i = slice_mix(key) & t.mask
    while t.cells[i].key != 0:
        if t.cells[i].key == key:
            t.cells[i].value = value
            return True
        i = (i + 1) & t.mask
    if (t.used + 1) * 4 > (t.mask + 1) * 3:
        if not table_resize(t, (t.mask + 1) * 2):
            return False
        i = slice_mix(key) & t.mask
        while t.cells[i].key != 0:
            i = (i + 1) & t.mask
    t.cells[i].key = key
    t.cells[i].value = value
    t.used += 1
    return True

cdef void* table_del(Table* t, uint64_t key) noexcept nogil:
    cdef size_t i, j, home
    cdef void* value
    if t.used == 0:
        return NULL
    i = slice_mix(key) & t.mask
    while t.cells[i].key != key:
        if t.cells[i].key == 0:
            return NULL
        i = (i + 1) & t.mask
    value = t.cells[i].value
    j = i
    while True:
        j = (j + 1) & t.mask
        if t.cells[j].key == 0:
            break
        home = slice_mix(t.cells[j].key) & t.mask
        if ((j - home) & t.mask) >= ((j - i) & t.mask):
            t.cells[i] = t.cells[j]
            i = j
    t.cells[i].key = 0
    t.used -= 1
    return value

cdef void table_clear(Table* t) noexcept nogil:
    if t.cells != NULL:
        memset(t.cells, 0, (t.mask + 1) * sizeof(TableCell))
    t.used = 0
