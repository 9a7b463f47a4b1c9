# Heap of due times: an indexed binary min-heap. In: nodes with a time. Out: the node that is due first.
# A node is embedded in its owner and knows its place, so it can be removed at any time. The heap holds only nodes that
# still wait, and owns its array of pointers. The owner locks it.

cdef struct HeapNode:
    int64_t at                # monotonic microseconds
    int pos                   # 1-based place; 0: in no heap
    void* owner

cdef struct Heap:
    HeapNode** nodes          # 1-based
    int n
    int cap

cdef inline void heap_free(Heap* h) noexcept nogil:
    free(h.nodes)
    memset(h, 0, sizeof(Heap))

cdef void heap_up(Heap* h, int i) noexcept nogil:
    cdef HeapNode* node = h.nodes[i]
    while i > 1 and h.nodes[i >> 1].at > node.at:
        h.nodes[i] = h.nodes[i >> 1]
        h.nodes[i].pos = i
        i >>= 1
    h.nodes[i] = node
    node.pos = i

cdef void heap_down(Heap* h, int i) noexcept nogil:
    cdef HeapNode* node = h.nodes[i]
    cdef int child
    while 2 * i <= h.n:
        child = 2 * i
        if child < h.n and h.nodes[child + 1].at < h.nodes[child].at:
            child += 1
        if h.nodes[child].at >= node.at:
            break
        h.nodes[i] = h.nodes[child]
        h.nodes[i].pos = i
        i = child
    h.nodes[i] = node
    node.pos = i

cdef void heap_del(Heap* h, HeapNode* node) noexcept nogil:
    cdef int i = node.pos
    cdef HeapNode* last
    if i == 0:
        return
    node.pos = 0
    last = h.nodes[h.n]
    h.n -= 1
    if last is node:
        return
    h.nodes[i] = last
    last.pos = i
    heap_up(h, i)
    heap_down(h, last.pos)

cdef bint heap_room(Heap* h, int n) noexcept nogil:
    # Makes room for n nodes in all, so that adding cannot fail. Returns False if memory ran out.
    cdef HeapNode** nodes
    cdef int cap = h.cap if h.cap else 64
    if n + 1 <= h.cap:
        return True
    while cap < n + 1:
        cap *= 2
    nodes = <HeapNode**>realloc(h.nodes, cap * sizeof(HeapNode*))
    if nodes == NULL:
        return False
    h.nodes = nodes
    h.cap = cap
    return True

cdef bint heap_add(Heap* h, HeapNode* node, int64_t at) noexcept nogil:
    # Adds a node, or moves it if it is in the heap. Returns False if memory ran out.
    if node.pos != 0:
        heap_del(h, node)
    if not heap_room(h, h.n + 1):
        return False
    h.n += 1
    node.at = at
    h.nodes[h.n] = node
    heap_up(h, h.n)
    return True

cdef void heap_order(Heap* h) noexcept nogil:
    # Restores the order after the times of nodes were changed in place.
    cdef int i = h.n // 2
    while i > 0:
        heap_down(h, i)
        i -= 1

cdef inline HeapNode* heap_top(Heap* h) noexcept nogil:
    return h.nodes[1] if h.n else NULL
