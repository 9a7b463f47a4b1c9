# How threads talk: a list of messages under a mutex, and a wake-up of the receiving loop when the list was empty.
# A message is embedded in what it carries (first field); it belongs to the receiver once posted.

cdef inline bint inbox_put(Inbox* box, InboxMsg* m) noexcept nogil:
    # Any thread. False when the receiver has ended: the message then still belongs to the sender.
    cdef bint first
    cdef bint open
    m.next = NULL
    uv_mutex_lock(&box.lock)
    open = not box.closed
    first = box.first == NULL
    if open:
        if first:
            box.first = m
        else:
            box.last.next = m
        box.last = m
    if open and first:
        uv_async_send(&box.wake)      # under the lock: the handle cannot close meanwhile
    uv_mutex_unlock(&box.lock)
    return open

cdef inline InboxMsg* inbox_take(Inbox* box) noexcept nogil:
    # Everything that has arrived, in order.
    cdef InboxMsg* m
    uv_mutex_lock(&box.lock)
    m = box.first
    box.first = NULL
    box.last = NULL
    uv_mutex_unlock(&box.lock)
    return m

cdef void inbox_close(Inbox* box) noexcept nogil:
    # The owner's last act before its wake-up handle goes.
    uv_mutex_lock(&box.lock)
    box.closed = True
    uv_mutex_unlock(&box.lock)
