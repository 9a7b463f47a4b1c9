# Writes messages as CloudEvents. In: messages. Out: bytes. A message that came as an event goes out with its attributes
# as they were, any other message as an event of this queue. Data for an acknowledgment stand in extensions, which all
# begin with `queend`.

cdef inline void origin_take(Slice* origin, Slice key, Slice value) noexcept nogil:
    # Takes a member of a message's headers if it says what a redriven dead letter was at first.
    if key_is(key, b"originTransactionId"):
        origin[0] = value
    elif key_is(key, b"originQueue"):
        origin[1] = value
    elif key_is(key, b"originPartition"):
        origin[2] = value
    elif key_is(key, b"originOffset"):
        origin[3] = value

cdef void event_put(Buf* b, PopMessage* m, bint first) noexcept nogil:
    cdef Json j
    cdef Slice key, value
    cdef Slice attributes = slice_of(NULL, 0)
    cdef Slice encoding = slice_of(NULL, 0)
    cdef Slice parent = slice_of(NULL, 0)
    cdef Slice state = slice_of(NULL, 0)
    cdef Slice[4] origin
    cdef bint begun = True
    memset(origin, 0, sizeof(origin))
    if m.extras.headers.n:
        json_open(&j, m.extras.headers, JSON_DEPTH)
        json_peek(&j)
        json_enter(&j, b'{')
        while json_member(&j, &begun, &key) and json_skip(&j, &value):
            if key_is(key, b"cloudEvent"):
                attributes = value
            elif key_is(key, b"dataEncoding"):
                encoding = value
            elif key_is(key, b"traceparent"):
                parent = value
            elif key_is(key, b"tracestate"):
                state = value
            else:
                origin_take(origin, key, value)
    if not first:
        buf_byte(b, b',')
    if m.time_us != m.created_us or m.time[0] == 0:
        clock_format(m.created_us, 6, m.time)
        m.time_us = m.created_us
    buf_byte(b, b'{')
    if attributes.n > 2:
        buf_put(b, attributes.p + 1, attributes.n - 2)
    else:
        event_put_own(b, m)
    event_put_raw(b, b"traceparent", parent)
    event_put_raw(b, b"tracestate", state)
    event_put_delivery(b, m)
    event_put_origin(b, origin)
    if not key_is(encoding, b"none"):
        member_raw(b, b',"data_base64":' if key_is(encoding, b"base64") else b',"data":', m.payload)
    buf_byte(b, b'}')

cdef void event_put_own(Buf* b, PopMessage* m) noexcept nogil:
    # Writes the attributes of a message that did not come as an event.
    buf_text(b, b'"specversion":"1.0","id":')
    if m.extras.text.n and event_clean(m.extras.text):
        json_escape(b, m.extras.text)
    else:
        put_uuid(b, m.record_id)
    buf_text(b, b',"source":"/api/v1/resources/queues/')
    uri_put(b, m.queue, True)
    buf_text(b, b'/partitions/')
    uri_put(b, m.partition, True)
    buf_text(b, b'","type":"queend.message","time":"')
    buf_put(b, m.time, 27)
    buf_text(b, b'","datacontenttype":"application/json"')
    event_put_text(b, b"partitionkey", m.partition)

cdef void event_put_delivery(Buf* b, PopMessage* m) noexcept nogil:
    event_put_text(b, b"queendqueue", m.queue)
    event_put_text(b, b"queendpartition", m.partition)
    event_put_text(b, b"queendpartitionid", m.partition_uuid)
    if m.extras.text.n:
        event_put_text(b, b"queendtransactionid", m.extras.text)
    else:
        member_uuid(b, b',"queendtransactionid":', m.record_id)
    if m.partition_uuid.n:
        # a read by offset does not know the message id
        member_uuid(b, b',"queendmessageid":', m.id)
    if m.extras.trace.n:
        member_uuid(b, b',"queendtraceid":', <const unsigned char*>m.extras.trace.p)
    event_put_text(b, b"queendproducer", m.extras.sub)
    event_put_text(b, b"queendleaseid", m.lease)
    event_put_text(b, b"queendgroup", m.group)
    if m.attempt:
        member_int(b, b',"queendattempt":', m.attempt)
    buf_text(b, b',"queendtime":"')
    buf_put(b, m.time, 27)
    buf_text(b, b'","queendoffset":"')       # numbers of events have 32 bits
    buf_int(b, m.offset)
    buf_byte(b, b'"')

cdef void event_put_origin(Buf* b, Slice* origin) noexcept nogil:
    # Writes what a redriven dead letter was at first: transaction id, queue, partition (JSON texts), offset (digits).
    # Leaves out a text with an escape: attributes hold no control characters.
    event_put_escapeless(b, b"queendorigintransactionid", origin[0])
    event_put_escapeless(b, b"queendoriginqueue", origin[1])
    event_put_escapeless(b, b"queendoriginpartition", origin[2])
    if origin[3].n:
        buf_text(b, b',"queendoriginoffset":"')
        buf_slice(b, origin[3])
        buf_byte(b, b'"')

cdef inline void event_put_escapeless(Buf* b, const char* name, Slice literal) noexcept nogil:
    # Writes a JSON text, unless it is empty or has an escape.
    if literal.n > 2 and memchr(literal.p, b'\\', literal.n) == NULL:
        event_put_raw(b, name, literal)

cdef void event_put_text(Buf* b, const char* name, Slice text) noexcept nogil:
    # Writes an attribute. Leaves out an empty text, or one with control characters, which names of queues may have.
    if text.n == 0 or not event_clean(text):
        return
    buf_text(b, b',"')
    buf_text(b, name)
    buf_text(b, b'":')
    json_escape(b, text)

cdef void event_put_raw(Buf* b, const char* name, Slice literal) noexcept nogil:
    if literal.n:
        buf_text(b, b',"')
        buf_text(b, name)
        buf_text(b, b'":')
        buf_slice(b, literal)
