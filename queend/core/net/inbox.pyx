# Passes messages between threads. In: messages from any thread. Out: all of them, in order, to the owner. Owns a list
# under inbox.lock; the first message of an empty list wakes the receiving loop. A message is embedded in what it
# carries, as its first field, and belongs to the receiver once it is posted.

cdef inline bint inbox_put(Inbox* box, InboxMsg* m) noexcept nogil:
    # Posts a message, from any thread. Returns False if the receiver has ended; the message then still belongs to the
    # sender.
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
    # Takes all messages that have arrived, in order.
    cdef InboxMsg* m
    uv_mutex_lock(&box.lock)
    m = box.first
    box.first = NULL
    box.last = NULL
    uv_mutex_unlock(&box.lock)
    return m

cdef void inbox_close(Inbox* box) noexcept nogil:
    # Closes the inbox. The owner calls it last, before it closes the wake-up handle.
    uv_mutex_lock(&box.lock)
    box.closed = True
    uv_mutex_unlock(&box.lock)
