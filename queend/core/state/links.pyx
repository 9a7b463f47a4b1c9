# Linked lists. A list is two pointers that follow each other in a struct: to its first member, and to its last.
# In: such a list, and members. A member begins with a Link; that of a singly linked list (link_append) begins with a
# pointer to the next one. Out: the list. Owns nothing. Locks: those of the list.
# Members are read by their own types and written as links, which requires -fno-strict-aliasing (setup.py).

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

cdef inline void link_append(void** ends, void* x) noexcept nogil:
    # Adds a member at the end of a singly linked list. ends: its pointers to the first and to the last member.
    (<void**>x)[0] = NULL
    if ends[1] != NULL:
        (<void**>ends[1])[0] = x
    else:
        ends[0] = x
    ends[1] = x
