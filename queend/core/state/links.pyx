# Linked lists. A list is two pointers that follow each other in a struct: to its first member, and to its last.
# In: such a list, and members. A member has two such pointers as well: to the one before, and to the next one. It
# begins with them (Link), or tells where they are (link_put). A member of a singly linked list (link_append) begins
# with a pointer to the next one. Out: the list. Owns nothing. Locks: those of the list.
# Members are read by their own types and written as links, which requires -fno-strict-aliasing (setup.py).

cdef struct Link:
    Link* prev
    Link* next

cdef struct Links:
    Link* first
    Link* last

cdef inline void link_put(void** ends, void* x, void** at) noexcept nogil:
    # Adds a member at the end. ends: the list's pointers. at: the member's pointers.
    cdef ptrdiff_t place = <char*>at - <char*>x
    at[0] = ends[1]
    at[1] = NULL
    if ends[1] != NULL:
        (<void**>(<char*>ends[1] + place))[1] = x
    else:
        ends[0] = x
    ends[1] = x

cdef inline void link_take(void** ends, void* x, void** at) noexcept nogil:
    # Removes a member, as link_put added it.
    cdef ptrdiff_t place = <char*>at - <char*>x
    if at[0] != NULL:
        (<void**>(<char*>at[0] + place))[1] = at[1]
    else:
        ends[0] = at[1]
    if at[1] != NULL:
        (<void**>(<char*>at[1] + place))[0] = at[0]
    else:
        ends[1] = at[0]

cdef inline void link_add(Links* l, Link* x) noexcept nogil:
    link_put(<void**>l, x, <void**>x)

cdef inline void link_del(Links* l, Link* x) noexcept nogil:
    link_take(<void**>l, x, <void**>x)

cdef inline void link_append(void** ends, void* x) noexcept nogil:
    # Adds a member at the end of a singly linked list. ends: its pointers to the first and to the last member.
    (<void**>x)[0] = NULL
    if ends[1] != NULL:
        (<void**>ends[1])[0] = x
    else:
        ends[0] = x
    ends[1] = x
