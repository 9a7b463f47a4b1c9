# Checks which characters and forms CloudEvents 1.0 allows in attributes (text, URI, media type, time). Checks and
# writes base64 of binary data. Writes messages as events. In: a value, or a message. Out: whether the value is valid;
# bytes. Stateless, takes no lock.

# ---- values of attributes --------------------------------------------------------------------------------------------

cdef bint eventform_clean(Slice text) noexcept nogil:
    # Returns True if a CloudEvents String may hold the text: no control characters.
    cdef size_t i
    cdef unsigned char c
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if c < b' ' or c == b'\x7f' or (c == 0xc2 and i + 1 < text.n and <unsigned char>text.p[i + 1] < 0xa0):
            return False
    return True

cdef bint eventform_uri(Slice text, bint absolute) noexcept nogil:
    # Returns True for a URI reference, or (absolute) a URI: allowed characters, complete escapes, a scheme.
    cdef size_t i
    cdef unsigned char c
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if c <= b' ' or memchr(b"\"<>\\^`{|}", c, 9) != NULL:
            return False
        if c == b'%' and (i + 2 >= text.n or slice_hex(<unsigned char>text.p[i + 1]) < 0
                          or slice_hex(<unsigned char>text.p[i + 2]) < 0):
            return False
    if not absolute:
        return text.n > 0
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if c == b':':
            return i > 0
        if not (b'a' <= (c | LETTER_SMALL) <= b'z'
                or (i and (b'0' <= c <= b'9' or c == b'+' or c == b'-' or c == b'.'))):
            return False
    return False

cdef bint eventform_media_type(Slice text) noexcept nogil:
    # Returns True for type/subtype, with or without parameters.
    cdef size_t i = 0
    cdef int parts
    for parts in range(2):
        if i >= text.n or not http_class[<unsigned char>text.p[i]] & HTTP_TOKEN:
            return False
        while i < text.n and http_class[<unsigned char>text.p[i]] & HTTP_TOKEN:
            i += 1
        if parts == 0:
            if i >= text.n or text.p[i] != b'/':
                return False
            i += 1
    return i == text.n or text.p[i] == b';' or text.p[i] == b' '

cdef bint eventform_time(Slice text) noexcept nogil:
    # Returns True for RFC 3339: date, time and zone.
    cdef const char* form = b"0000-00-00T00:00:00"
    cdef size_t i
    cdef int64_t us
    if text.n < 20:
        return False
    for i in range(19):
        if form[i] == b'0' and not b'0' <= text.p[i] <= b'9':
            return False
        if form[i] != b'0' and text.p[i] != form[i] and not (i == 10 and text.p[i] == b't'):
            return False
    i = 19
    if text.p[i] == b'.':
        i += 1
        if i >= text.n or not b'0' <= text.p[i] <= b'9':
            return False
        while i < text.n and b'0' <= text.p[i] <= b'9':
            i += 1
    if i + 1 == text.n and (text.p[i] | LETTER_SMALL) == b'z':
        return time_parse(slice_of(text.p, 19), &us)
    return (i + 6 == text.n and (text.p[i] == b'+' or text.p[i] == b'-') and b'0' <= text.p[i + 1] <= b'2'
            and b'0' <= text.p[i + 2] <= b'9' and text.p[i + 3] == b':'
            and b'0' <= text.p[i + 4] <= b'5' and b'0' <= text.p[i + 5] <= b'9'
            and time_parse(slice_of(text.p, 19), &us))

# ---- base64 ----------------------------------------------------------------------------------------------------------

cdef bint eventform_base64(Slice text) noexcept nogil:
    cdef size_t i
    cdef size_t n = text.n
    cdef unsigned char c
    if n % 4:
        return False
    if n and text.p[n - 1] == b'=':
        n -= 1
        if text.p[n - 1] == b'=':
            n -= 1
    for i in range(n):
        c = <unsigned char>text.p[i]
        if not (b'a' <= (c | LETTER_SMALL) <= b'z' or b'0' <= c <= b'9' or c == b'+' or c == b'/'):
            return False
    return True

cdef void eventform_put_base64(Buf* b, Slice bytes) noexcept nogil:
    # Appends bytes as a JSON text of base64. OpenSSL counts in int, and writes a NUL where the next byte goes.
    cdef char* at
    cdef size_t n
    buf_byte(b, b'"')
    while bytes.n:
        n = min(bytes.n, <size_t>3 << 28)
        at = buf_reserve(b, (n + 2) // 3 * 4 + 1)
        if at == NULL:
            return
        EVP_EncodeBlock(<unsigned char*>at, <const unsigned char*>bytes.p, <int>n)
        b.len -= 1
        bytes = slice_from(bytes, n)
    buf_byte(b, b'"')

# ---- messages as events ----------------------------------------------------------------------------------------------
# A message that came as an event goes out with its attributes as they were, any other message as an event of this
# queue. Data for an acknowledgment stand in extensions, which all begin with `queend`.

cdef struct EventHeaders:     # members of a record's headers as literals, in the order of HEADER_NAMES; p NULL: absent
    Slice attributes, encoding, parent, state
    Slice txid, queue, partition, offset      # what a redriven dead letter was at first
    Slice headers             # of the sender, an object

cdef void eventform_headers(Slice headers, EventHeaders* h) noexcept nogil:
    # Reads the headers of a record, an object; empty: it has none.
    cdef Json j
    cdef Slice key, value
    cdef bint first = True
    memset(h, 0, sizeof(EventHeaders))
    json_object(&j, headers)
    while json_member(&j, &first, &key) and json_skip(&j, &value):
        typo_take(key, HEADER_NAMES, value, &h.attributes)

cdef void eventform_put(Buf* b, PopMessage* m, bint first) noexcept nogil:
    cdef EventHeaders h
    eventform_headers(m.extras.headers, &h)
    if not first:
        buf_byte(b, b',')
    if m.time_us != m.created_us or m.time[0] == 0:
        clock_format(m.created_us, 6, m.time)
        m.time_us = m.created_us
    buf_byte(b, b'{')
    if h.attributes.n > 2:
        buf_put(b, h.attributes.p + 1, h.attributes.n - 2)
    else:
        eventform_put_own(b, m)
    eventform_put_raw(b, b',"traceparent":', h.parent)
    eventform_put_raw(b, b',"tracestate":', h.state)
    eventform_put_delivery(b, m)
    eventform_put_origin(b, &h)
    if h.headers.p != NULL:
        # a name may be no name of an attribute, so all are one text
        buf_text(b, b',"queendheaders":')
        text_escape(b, h.headers)
    if not member_is(h.encoding, b"none"):
        member_raw(b, b',"data_base64":' if member_is(h.encoding, b"base64") else b',"data":', m.payload)
    buf_byte(b, b'}')

cdef void eventform_put_own(Buf* b, PopMessage* m) noexcept nogil:
    # Writes the attributes of a message that did not come as an event.
    buf_text(b, b'"specversion":"1.0","id":')
    if m.extras.text.n and eventform_clean(m.extras.text):
        text_escape(b, m.extras.text)
    else:
        text_uuid(b, m.record_id)
    buf_text(b, b',"source":"/api/v1/resources/queues/')
    uri_encode(b, m.queue, True)
    buf_text(b, b'/partitions/')
    uri_encode(b, m.partition, True)
    buf_text(b, b'","type":"queend.message","time":"')
    buf_put(b, m.time, 27)
    buf_text(b, b'","datacontenttype":"application/json"')
    eventform_put_text(b, b',"partitionkey":', m.partition)

cdef void eventform_put_delivery(Buf* b, PopMessage* m) noexcept nogil:
    eventform_put_text(b, b',"queendqueue":', m.queue)
    eventform_put_text(b, b',"queendpartition":', m.partition)
    eventform_put_text(b, b',"queendpartitionid":', m.partition_uuid)
    if m.extras.text.n:
        eventform_put_text(b, b',"queendtransactionid":', m.extras.text)
    else:
        member_uuid(b, b',"queendtransactionid":', m.record_id)
    if m.partition_uuid.n:
        # a read by offset does not know the message id
        member_uuid(b, b',"queendmessageid":', m.id)
    if m.extras.trace.n:
        member_uuid(b, b',"queendtraceid":', <const unsigned char*>m.extras.trace.p)
    eventform_put_text(b, b',"queendproducer":', m.extras.sub)
    eventform_put_text(b, b',"queendleaseid":', m.lease)
    eventform_put_text(b, b',"queendgroup":', m.group)
    if m.attempt:
        member_int(b, b',"queendattempt":', m.attempt)
    buf_text(b, b',"queendtime":"')
    buf_put(b, m.time, 27)
    buf_text(b, b'","queendoffset":"')       # numbers of events have 32 bits
    buf_int(b, m.offset)
    buf_byte(b, b'"')

cdef void eventform_put_origin(Buf* b, const EventHeaders* h) noexcept nogil:
    # Writes what a redriven dead letter was at first: transaction id, queue, partition (JSON texts), offset (digits).
    # Leaves out a text with an escape: attributes hold no control characters.
    eventform_put_plain(b, b',"queendorigintransactionid":', h.txid)
    eventform_put_plain(b, b',"queendoriginqueue":', h.queue)
    eventform_put_plain(b, b',"queendoriginpartition":', h.partition)
    if h.offset.n:
        member_raw(b, b',"queendoriginoffset":"', h.offset)
        buf_byte(b, b'"')

cdef inline void eventform_put_plain(Buf* b, const char* name, Slice literal) noexcept nogil:
    # Writes a JSON text, unless it is empty or has an escape.
    if literal.n > 2 and memchr(literal.p, b'\\', literal.n) == NULL:
        eventform_put_raw(b, name, literal)

cdef void eventform_put_text(Buf* b, const char* name, Slice text) noexcept nogil:
    # Writes an attribute. Leaves out an empty text, or one with control characters, which names of queues may have.
    if text.n and eventform_clean(text):
        member_text(b, name, text)

cdef void eventform_put_raw(Buf* b, const char* name, Slice literal) noexcept nogil:
    if literal.n:
        member_raw(b, name, literal)
