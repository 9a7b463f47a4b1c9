# Writes the messages of a stream as its client reads them: server-sent events, or frames of a WebSocket. In: messages.
# Out: bytes. Stateless, takes no lock.

cdef enum:
    CHUNK_HEAD = 10           # `0000abcd\r\n`: the size is filled in when the chunk is complete
    SOCKET_TEXT = 0x81        # a whole text message
    SOCKET_SHORT = 125        # at most so many bytes: the length stands in the second byte
    SOCKET_MIDDLE = 65535     # at most so many: in the two bytes that follow; else in eight
    SOCKET_LENGTH_2 = 126     # in the second byte: the length stands in the next two bytes
    SOCKET_LENGTH_8 = 127     # in the second byte: the length stands in the next eight bytes

cdef const char* HEX = b"0123456789abcdef"

cdef inline void feedreply_chunk_open(Buf* b, int form) noexcept nogil:
    if form == FEED_CHUNKS:
        buf_put(b, b"00000000\r\n", CHUNK_HEAD)

cdef void feedreply_chunk_close(Buf* b, int form, size_t at) noexcept nogil:
    # Ends the chunk that began at `at`. Removes an empty chunk, which would end the answer.
    cdef size_t n = b.len - at - CHUNK_HEAD
    cdef int i = 8
    if form != FEED_CHUNKS or b.failed:
        return
    if n == 0:
        b.len = at
        return
    while i:
        i -= 1
        b.data[at + <size_t>i] = HEX[n & 15]
        n >>= 4
    buf_put(b, b"\r\n", 2)

cdef void feedreply_text(Buf* b, int form, const char* text) noexcept nogil:
    # Appends lines of server-sent events as they are.
    cdef size_t at = b.len
    feedreply_chunk_open(b, form)
    buf_text(b, text)
    feedreply_chunk_close(b, form, at)

cdef void feedreply_flatten(Buf* b, size_t at) noexcept nogil:
    # Replaces line ends by blanks. In JSON a line end stands only between tokens, and in an event it would end the
    # line.
    cdef char* p
    cdef char* end = b.data + b.len
    cdef int i
    if b.failed:
        return
    for i in range(2):
        p = b.data + at
        while True:
            p = <char*>memchr(p, b'\r' if i else b'\n', end - p)
            if p == NULL:
                break
            p[0] = b' '

cdef void feedreply_socket(Buf* b, size_t at, PopMessage* m) noexcept nogil:
    # Makes the bytes from `at` on, behind four bytes of room, one text message of a WebSocket.
    cdef size_t n = b.len - at - 4
    if b.failed:
        return
    if n > SOCKET_MIDDLE:
        if buf_reserve(b, 6) == NULL:
            return
        memmove(b.data + at + 10, b.data + at + 4, n)
        if m != NULL:
            m.tail_n = 0      # the tail has moved
        b.data[at + 1] = <char>SOCKET_LENGTH_8
        be64_put(b.data + at + 2, n)
    elif n > SOCKET_SHORT:
        b.data[at + 1] = <char>SOCKET_LENGTH_2
        be16_put(b.data + at + 2, <uint16_t>n)
    else:
        memmove(b.data + at + 2, b.data + at + 4, n)
        b.len -= 2
        b.data[at + 1] = <char>n
    b.data[at] = <char>SOCKET_TEXT

cdef void feedreply_put(Buf* b, PopMessage* m, bint first) noexcept nogil:
    # Appends a message.
    cdef size_t at = b.len
    if m.window:
        if first:
            feedreply_window_open(b, m)
        else:
            buf_byte(b, b',')
        popreply_message(b, m)
        return
    if m.feed == FEED_SOCKET:
        buf_put(b, b"\0\0\0\0", 4)
        buf_text(b, b'{"message":')
        popreply_message(b, m)
        buf_byte(b, b'}')
        feedreply_socket(b, at, m)
        return
    buf_put(b, b"id: ", 4)
    buf_slice(b, m.partition_uuid)
    buf_byte(b, b':')
    buf_int(b, m.offset)
    buf_put(b, b"\ndata: ", 7)
    at = b.len
    popreply_message(b, m)
    feedreply_flatten(b, at)
    buf_put(b, b"\n\n", 2)

# ---- windows ---------------------------------------------------------------------------------------------------------

cdef void feedreply_window_open(Buf* b, PopMessage* m) noexcept nogil:
    # Begins a window: messages of one partition and one lease, as one event. m is the first message.
    if m.feed == FEED_SOCKET:
        m.window_at = b.len
        buf_put(b, b"\0\0\0\0", 4)
        buf_text(b, b'{"window":{"windowId":')
    else:
        buf_text(b, b"event: window\ndata: ")
        m.window_at = b.len
        buf_text(b, b'{"windowId":')
    if m.lease.n:
        buf_byte(b, b'"')
        buf_slice(b, m.partition_uuid)
        buf_byte(b, b':')
        buf_slice(b, m.lease)
        buf_byte(b, b'"')
    else:
        buf_text(b, b"null")  # nothing is to be acknowledged
    member_text(b, b',"queue":', m.queue)
    member_text(b, b',"partition":', m.partition)
    buf_text(b, b',"messages":[')

cdef void feedreply_window_close(Buf* b, PopMessage* m, int64_t last) noexcept nogil:
    # Ends a window. last: offset of its last message.
    if m.feed == FEED_SOCKET:
        buf_text(b, b"]}}")
        feedreply_socket(b, m.window_at, m)
        return
    buf_text(b, b"]}")
    feedreply_flatten(b, m.window_at)
    buf_text(b, b"\nid: ")
    buf_slice(b, m.partition_uuid)
    buf_byte(b, b':')
    buf_int(b, last)
    buf_put(b, b"\n\n", 2)
