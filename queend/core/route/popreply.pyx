# Writes the pieces of a pop's answer: as JSON, as CloudEvents (route/eventform), or in frames of the 2.x client. Writes
# the messages of a stream. In: messages, names and records, or why there is none. Out: bytes. Stateless, takes no lock.

cdef const char* FRAMES_TYPE = b"application/x-queen-pop"

cdef enum:
    FRAME_TRACE = 1
    FRAME_SUB = 2
    RAW_RECORD = 0
    ZSTD_RECORD = 1

cdef struct FrameWriter:
    Buf* out
    size_t own_at             # of the answer's own keys: their length, then the object
    size_t body_at            # where the own keys end
    Buf origins               # elements of the own key `origins`
    Buf headers               # elements of the own key `headers`
    int32_t partition         # of the claim being written
    size_t claim_at           # of the claim being written: its `end`, followed by attempt and number of records
    uint32_t records
    int64_t end               # offset of the last record written in this claim
    size_t record_at          # of the raw record being written: its number of messages; 0 = none
    uint32_t count
    int64_t created_us

# ---- JSON ------------------------------------------------------------------------------------------------------------

cdef void popreply_open(Buf* b, const PopMessage* m) noexcept nogil:
    if m.as_event:
        buf_byte(b, b'[')
        return
    member_text(b, b"{\"success\":true,\"queue\":", m.queue)
    member_text(b, b",\"partition\":", m.partition)
    member_raw(b, b",\"partitionId\":\"", m.partition_uuid)
    member_raw(b, b"\",\"leaseId\":\"", m.lease)
    member_text(b, b"\",\"consumerGroup\":", m.group)
    member_int(b, b",\"partitionsClaimed\":", m.claimed)
    buf_text(b, b",\"messages\":[")

cdef inline void popreply_add(Buf* b, PopMessage* m, bint first) noexcept nogil:
    # Appends the next message of an answer, which opens with its first one.
    if first:
        popreply_open(b, m)
    else:
        buf_byte(b, b',')
    popreply_message(b, m)

cdef inline void popreply_message(Buf* b, PopMessage* m) noexcept nogil:
    if m.as_event:
        eventform_put(b, m, True)
    else:
        popreply_json(b, m)

cdef void popreply_json(Buf* b, PopMessage* m) noexcept nogil:
    member_uuid(b, b"{\"id\":", m.id)
    buf_text(b, b",\"transactionId\":")
    if m.extras.text.n:
        text_escape(b, m.extras.text)
    else:
        text_uuid(b, m.record_id)
    buf_text(b, b",\"traceId\":")
    if m.extras.trace.n:
        text_uuid(b, <const unsigned char*>m.extras.trace.p)
    else:
        buf_text(b, b"null")
    member_raw(b, b",\"data\":", m.payload)
    buf_text(b, b",\"producerSub\":")
    if m.extras.sub.n:
        text_escape(b, m.extras.sub)
    else:
        buf_text(b, b"null")
    if m.time_us != m.created_us or m.time[0] == 0:
        clock_format(m.created_us, 6, m.time)
        m.time_us = m.created_us
    buf_text(b, b",\"createdAt\":\"")
    buf_put(b, m.time, 27)
    if m.tail_uuid != m.partition_uuid.p or m.tail_attempt != m.attempt or m.tail_n == 0:
        popreply_tail(b, m)
    elif buf_room(b, m.tail_n):
        memcpy(b.data + b.len, b.data + m.tail_at, m.tail_n)
        b.len += m.tail_n
    buf_int(b, m.offset)
    if m.extras.headers.n > 2:
        buf_byte(b, b',')     # members as they were stored
        buf_put(b, m.extras.headers.p + 1, m.extras.headers.n - 2)
    if m.extras.due.n == 8:
        buf_text(b, b",\"deliverAt\":")
        text_time(b, batchrow_extras_due(&m.extras), 6)
    buf_byte(b, b'}')

cdef void popreply_tail(Buf* b, PopMessage* m) noexcept nogil:
    # Writes what all messages of one claim have in common, up to the offset: once, then copied from the answer itself.
    m.tail_uuid = m.partition_uuid.p
    m.tail_attempt = m.attempt
    m.tail_at = b.len
    member_raw(b, b"\",\"partitionId\":\"", m.partition_uuid)
    member_text(b, b"\",\"partition\":", m.partition)
    member_raw(b, b",\"leaseId\":\"", m.lease)
    member_text(b, b"\",\"consumerGroup\":", m.group)
    member_text(b, b",\"queue\":", m.queue)
    member_int(b, b",\"deliveryAttempt\":", m.attempt)
    buf_text(b, b",\"offset\":")
    m.tail_n = b.len - m.tail_at

cdef void popreply_close(Buf* b, const PopReq* q, int conflation) noexcept nogil:
    buf_byte(b, b']')
    if not q.events:
        popreply_end(b, q, conflation)

cdef void popreply_end(Buf* b, const PopReq* q, int conflation) noexcept nogil:
    # Ends an answer in JSON. conflation: CONFLATION_*. The autopilot does not choose for groups that conflate.
    if conflation == CONFLATION_ON:
        buf_text(b, b',"conflation":true')
    elif conflation == CONFLATION_CONFLICT:
        buf_text(b, b',"conflationConflict":true')
    if q.autopilot and conflation != CONFLATION_ON:
        buf_byte(b, b',')
        popreply_autopilot(b, q)
    buf_byte(b, b'}')

cdef void popreply_autopilot(Buf* b, const PopReq* q) noexcept nogil:
    # Writes the batch and partitions that the daemon chose, as a member of an object.
    member_int(b, b'"autopilot":{"partitions":', q.partitions)
    member_int(b, b',"batch":', q.batch)
    buf_byte(b, b'}')

cdef void popreply_empty(Buf* b, const PopReq* q, int why, const char* uuid, const char* reason,
                         int conflation) noexcept nogil:
    # Writes an empty answer, one form per reason. A pop that was willing to wait, however short, is told that its time
    # is over. Events: an empty array.
    if q.events:
        buf_text(b, b"[]")
        return
    if q.wait:
        why = WHY_EXPIRED
    if why == WHY_EXPIRED or why == WHY_WINDOW or why == WHY_NOTHING:
        member_text(b, b"{\"success\":true,\"queue\":", q.queue)
        member_text(b, b",\"partition\":", q.partition)
        buf_text(b, b",\"partitionId\":")
        if uuid != NULL and why != WHY_EXPIRED:
            buf_byte(b, b'"')
            buf_put(b, uuid, 36)
            buf_text(b, b"\",\"leaseId\":\"\"")
        else:
            buf_text(b, b"null,\"leaseId\":null")
        member_text(b, b",\"consumerGroup\":", q.group)
        if why == WHY_NOTHING:
            buf_text(b, b",\"partitionsClaimed\":0")
        if why == WHY_WINDOW:
            buf_text(b, b",\"windowBufferActive\":true")
        buf_text(b, b",\"messages\":[]")
    else:
        buf_text(b, b"{\"success\":false,\"error\":\"")
        buf_text(b, b"lease_held" if why == WHY_LEASE_HELD else b"partition_not_found" if why == WHY_NOT_FOUND
                 else b"no_available_partition")
        buf_text(b, b"\",\"messages\":[]")
    buf_text(b, b",\"reason\":\"")
    buf_text(b, reason)
    buf_byte(b, b'"')
    popreply_end(b, q, conflation)

# ---- frames ----------------------------------------------------------------------------------------------------------
# Answers with frames=true: application/x-queen-pop, as the 2.x client reads it (docs/binary-formats.md). Records that a
# client framed go out as they are stored, other records as message frames written here; nothing is spelled as JSON.
# Counts and lengths known only afterwards are filled in when their part ends.

cdef void popreply_frames_open(FrameWriter* w, Buf* out, const PopReq* q, Slice queue, Slice group, Slice lease,
                               int claims) noexcept nogil:
    memset(w, 0, sizeof(FrameWriter))
    w.out = out
    buf_put(out, b"QPF1\x01", 5)
    w.own_at = out.len
    buf_le32(out, 0)
    if q.autopilot:
        buf_byte(out, b'{')
        popreply_autopilot(out, q)
        buf_byte(out, b'}')
        popreply_le32_at(out, w.own_at, <uint32_t>(out.len - w.own_at - 4))
    w.body_at = out.len
    popreply_text16(out, queue)
    popreply_text16(out, lease)
    popreply_text16(out, group)
    buf_le32(out, <uint32_t>claims)

cdef void popreply_frames_claim(FrameWriter* w, int32_t partition, Slice name, int64_t first,
                                int attempt) noexcept nogil:
    # Begins a claim: a partition's messages from offset `first` on follow.
    popreply_frames_close(w)
    w.partition = partition
    buf_le64(w.out, <uint64_t>partition)
    popreply_text16(w.out, name)
    buf_le64(w.out, <uint64_t>first)
    w.claim_at = w.out.len
    buf_le64(w.out, 0)
    buf_le32(w.out, <uint32_t>attempt)
    buf_le32(w.out, 0)
    w.records = 0
    w.end = first - 1

cdef void popreply_frames_head(FrameWriter* w, int64_t base, int64_t created_us, int n, int codec,
                               size_t size) noexcept nogil:
    popreply_frames_raw_end(w)
    w.records += 1
    buf_le64(w.out, <uint64_t>base)
    buf_le64(w.out, <uint64_t>created_us)
    buf_le32(w.out, <uint32_t>n)
    buf_byte(w.out, <char>codec)
    buf_le32(w.out, <uint32_t>size)

cdef void popreply_frames_stored(FrameWriter* w, int64_t base, int64_t created_us, int n, Slice z,
                                 int64_t last) noexcept nogil:
    # Writes a row as the client framed it. last: the offset up to which it is delivered.
    popreply_frames_head(w, base, created_us, n, ZSTD_RECORD, z.n)
    buf_slice(w.out, z)
    w.end = last

cdef void popreply_frames_message(FrameWriter* w, PopMessage* m) noexcept nogil:
    # Writes the next message, framed here. Messages with one creation time share a record.
    cdef size_t text_n = m.extras.text.n if m.extras.text.n else 36
    cdef size_t size = (FRAME_HEAD + text_n + m.payload.n + (16 if m.extras.trace.n else 0)
                        + (2 + m.extras.sub.n if m.extras.sub.n else 0))
    cdef char* at
    if w.record_at == 0 or w.created_us != m.created_us or m.offset != w.end + 1:
        popreply_frames_head(w, m.offset, m.created_us, 0, RAW_RECORD, 0)
        w.record_at = w.out.len - 9
        w.created_us = m.created_us
        w.count = 0
    w.count += 1
    w.end = m.offset
    if m.extras.headers.n:
        popreply_frames_beside(w, m)
    at = buf_reserve(w.out, size)
    if at == NULL:
        return
    le32_put(at, <uint32_t>(size - 4))
    at[4] = (FRAME_TRACE if m.extras.trace.n else 0) | (FRAME_SUB if m.extras.sub.n else 0)
    memcpy(at + 5, m.id, 16)
    at += 21
    if m.extras.trace.n:
        memcpy(at, m.extras.trace.p, 16)
        at += 16
    le16_put(at, <uint16_t>text_n)
    at += 2
    if m.extras.text.n:
        memcpy(at, m.extras.text.p, text_n)
    else:
        uuid_format(m.record_id, at)
    at += text_n
    if m.extras.sub.n:
        le16_put(at, <uint16_t>m.extras.sub.n)
        memcpy(at + 2, m.extras.sub.p, m.extras.sub.n)
        at += 2 + m.extras.sub.n
    if m.payload.n:
        memcpy(at, m.payload.p, m.payload.n)

cdef void popreply_frames_beside(FrameWriter* w, PopMessage* m) noexcept nogil:
    # Notes the headers of a message, and what a redriven message was at first, beside its present place.
    cdef EventHeaders h
    eventform_headers(m.extras.headers, &h)
    if h.headers.p != NULL:
        popreply_frames_place(w, &w.headers, m)
        member_raw(&w.headers, b',"headers":', h.headers)
        buf_byte(&w.headers, b'}')
    if h.txid.p == NULL or h.queue.p == NULL or h.partition.p == NULL or h.offset.p == NULL:
        return
    popreply_frames_place(w, &w.origins, m)
    member_raw(&w.origins, b',"originTransactionId":', h.txid)
    member_raw(&w.origins, b',"originQueue":', h.queue)
    member_raw(&w.origins, b',"originPartition":', h.partition)
    member_raw(&w.origins, b',"originOffset":', h.offset)
    buf_byte(&w.origins, b'}')

cdef void popreply_frames_place(FrameWriter* w, Buf* b, PopMessage* m) noexcept nogil:
    # Begins an element with the place of a message.
    if b.len:
        buf_byte(b, b',')
    member_int(b, b'{"partitionId":"', w.partition)
    member_int(b, b'","offset":', m.offset)

cdef void popreply_frames_raw_end(FrameWriter* w) noexcept nogil:
    if w.record_at:
        popreply_le32_at(w.out, w.record_at, w.count)
        popreply_le32_at(w.out, w.record_at + 5, <uint32_t>(w.out.len - w.record_at - 9))
        w.record_at = 0

cdef void popreply_frames_close(FrameWriter* w) noexcept nogil:
    # Ends the claim, if there is one.
    popreply_frames_raw_end(w)
    if w.claim_at and not w.out.failed:
        le64_put(w.out.data + w.claim_at, <uint64_t>w.end)
        popreply_le32_at(w.out, w.claim_at + 12, w.records)

cdef void popreply_frames_end(FrameWriter* w) noexcept nogil:
    # Ends the answer. Puts headers and the origins of redriven messages among the own keys, because a message frame has
    # no place for them. Frees the buffers in which they were gathered.
    cdef size_t own = w.body_at - w.own_at - 4
    cdef size_t n
    cdef char* at
    cdef Buf keys
    popreply_frames_close(w)
    if w.origins.len or w.headers.len:
        # in front of the `}` of the own keys, or as an object of its own
        buf_init(&keys)
        if own == 0:
            buf_byte(&keys, b'{')
        popreply_frames_key(&keys, b'"origins":[', &w.origins, own != 0)
        popreply_frames_key(&keys, b'"headers":[', &w.headers, own != 0)
        if own == 0:
            buf_byte(&keys, b'}')
        n = keys.len
        if not (keys.failed or w.origins.failed or w.headers.failed) and buf_reserve(w.out, n) != NULL:
            at = w.out.data + w.body_at - (1 if own else 0)
            memmove(at + n, at, w.out.data + w.out.len - n - at)
            memcpy(at, keys.data, n)
            popreply_le32_at(w.out, w.own_at, <uint32_t>(own + n))
        else:
            w.out.failed = True
        buf_free(&keys)
    elif w.origins.failed or w.headers.failed:
        w.out.failed = True
    buf_free(&w.origins)
    buf_free(&w.headers)

cdef void popreply_frames_key(Buf* keys, const char* name, Buf* elements, bint follows) noexcept nogil:
    # Appends an own key, if it has elements. follows: another key stands before it.
    if elements.len:
        if follows or keys.len > 1:
            buf_byte(keys, b',')
        buf_text(keys, name)
        buf_put(keys, elements.data, elements.len)
        buf_byte(keys, b']')

cdef inline void popreply_text16(Buf* b, Slice s) noexcept nogil:
    buf_le16(b, <uint16_t>s.n)
    buf_slice(b, s)

cdef inline void popreply_le32_at(Buf* b, size_t at, uint32_t v) noexcept nogil:
    if not b.failed:
        le32_put(b.data + at, v)

# ---- a stream --------------------------------------------------------------------------------------------------------
# Messages as the client of a stream reads them: server-sent events, or frames of a WebSocket.

cdef enum:
    CHUNK_HEAD = 10           # `0000abcd\r\n`: the size is filled in when the chunk is complete
    SOCKET_TEXT = 0x81        # a whole text message
    SOCKET_SHORT = 125        # at most so many bytes: the length stands in the second byte
    SOCKET_MIDDLE = 65535     # at most so many: in the two bytes that follow; else in eight
    SOCKET_LENGTH_2 = 126     # in the second byte: the length stands in the next two bytes
    SOCKET_LENGTH_8 = 127     # in the second byte: the length stands in the next eight bytes

cdef const char* HEX = b"0123456789abcdef"

cdef inline void popreply_feed_chunk_open(Buf* b, int form) noexcept nogil:
    if form == FEED_CHUNKS:
        buf_put(b, b"00000000\r\n", CHUNK_HEAD)

cdef void popreply_feed_chunk_close(Buf* b, int form, size_t at) noexcept nogil:
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

cdef void popreply_feed_text(Buf* b, int form, const char* text) noexcept nogil:
    # Appends lines of server-sent events as they are.
    cdef size_t at = b.len
    popreply_feed_chunk_open(b, form)
    buf_text(b, text)
    popreply_feed_chunk_close(b, form, at)

cdef void popreply_feed_flatten(Buf* b, size_t at) noexcept nogil:
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

cdef void popreply_feed_socket(Buf* b, size_t at, PopMessage* m) noexcept nogil:
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

cdef void popreply_feed_put(Buf* b, PopMessage* m, bint first) noexcept nogil:
    # Appends a message.
    cdef size_t at = b.len
    if m.window:
        if first:
            popreply_feed_window_open(b, m)
        else:
            buf_byte(b, b',')
        popreply_message(b, m)
        return
    if m.feed == FEED_SOCKET:
        buf_put(b, b"\0\0\0\0", 4)
        buf_text(b, b'{"message":')
        popreply_message(b, m)
        buf_byte(b, b'}')
        popreply_feed_socket(b, at, m)
        return
    buf_put(b, b"id: ", 4)
    buf_slice(b, m.partition_uuid)
    buf_byte(b, b':')
    buf_int(b, m.offset)
    buf_put(b, b"\ndata: ", 7)
    at = b.len
    popreply_message(b, m)
    popreply_feed_flatten(b, at)
    buf_put(b, b"\n\n", 2)

# ---- windows of a stream ---------------------------------------------------------------------------------------------

cdef void popreply_feed_window_open(Buf* b, PopMessage* m) noexcept nogil:
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

cdef void popreply_feed_window_close(Buf* b, PopMessage* m, int64_t last) noexcept nogil:
    # Ends a window. last: offset of its last message.
    if m.feed == FEED_SOCKET:
        buf_text(b, b"]}}")
        popreply_feed_socket(b, m.window_at, m)
        return
    buf_text(b, b"]}")
    popreply_feed_flatten(b, m.window_at)
    buf_text(b, b"\nid: ")
    buf_slice(b, m.partition_uuid)
    buf_byte(b, b':')
    buf_int(b, last)
    buf_put(b, b"\n\n", 2)
