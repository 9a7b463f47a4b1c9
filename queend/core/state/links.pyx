# Doubly linked lists. A list is two pointers that follow each other in a struct: to its first member, and to its last.
# In: such a list, and members that begin with a Link. Out: the list. Owns nothing. Locks: those of the list.

cdef struct Link:
    Link* prev
    Link* next

cdef struct Links:
    Link* first
    Link* last

cdef inline void link_add(Links* l, Link* x) noexcept nogil:
    # Adds a member at the end.
    x.prev = l.last
    x.next = NULL
    if l.last != NULL:
        l.last.next = x
    else:
        l.first = x
    l.last = x

cdef inline void link_del(Links* l, Link* x) noexcept nogil:
    if x.prev != NULL:
        x.prev.next = x.next
    else:
        l.first = x.next
    if x.next != NULL:
        x.next.prev = x.prev
    else:
        l.last = x.prev
