# Turns a CloudEvent, read attribute by attribute, into an item of a push. In: attributes and data. Out: an item. The
# data are the payload. The attributes go into the headers of the record as they came, so that the same event can go out
# again. Source and id make the transactionId.

cdef enum:
    EVENT_ATTRIBUTES = 64     # of one event
    EVENT_BYTES = 32768       # bytes the attributes may take, as JSON

cdef struct EventWhere:       # what a request says of all its events
    Slice queue
    Slice partition           # of events without a partitionkey
    Slice parent              # of events without a traceparent
    Slice state

cdef struct Event:
    Slice id
    Slice source
    Slice type
    Slice key                 # partitionkey
    Slice parent
    Slice state
    Slice data                # JSON; p NULL: absent
    bint base64               # data is a text of base64
    bint version
    int n
    Slice[EVENT_ATTRIBUTES] names
    Buf json                  # attributes as members
    int index                 # of the event in its request
    ApiError* error
    Arena* arena

cdef bint event_refuse(Event* v, Slice name, const char* text) noexcept nogil:
    # Refuses an event: `must be a URI reference (event 3, attribute source)`. Returns False.
    if not utf8_valid(name) or name.n > 64:
        name = slice_lit(b"?")
    return refuse_as(v.error, b"%s (event %d, attribute %.*s)", text, v.index, <int>name.n, name.p)

cdef bint event_attribute(Event* v, Slice name, Slice text, Slice raw) noexcept nogil:
    # Takes a context attribute. text: p NULL for a number or a boolean. raw: its JSON; p NULL: text is to be escaped.
    cdef size_t i
    cdef int k
    if name.n == 0 or name.n > 64:
        return event_refuse(v, name, b"the name must have 1 to 64 letters and digits")
    for i in range(name.n):
        if not (b'a' <= name.p[i] <= b'z' or b'0' <= name.p[i] <= b'9'):
            return event_refuse(v, name, b"the name must be of lower-case letters and digits")
    for k in range(v.n):
        if slice_eq(v.names[k], name):
            return event_refuse(v, name, b"given twice")
    if v.n == EVENT_ATTRIBUTES:
        return event_refuse(v, name, b"too many attributes")
    v.names[v.n] = name
    v.n += 1
    if name.n > 6 and memcmp(name.p, b"queend", 6) == 0:
        return True           # set by a delivery, and this is a push
    if text.p != NULL and (not event_clean(text) or not utf8_valid(text)):
        return event_refuse(v, name, b"must be text without control characters")
    if not event_known(v, name, text):
        return False
    if slice_is(name, b"traceparent") or slice_is(name, b"tracestate"):
        return True
    buf_text(&v.json, b'"' if v.json.len == 0 else b',"')
    buf_slice(&v.json, name)
    buf_text(&v.json, b'":')
    if raw.p != NULL:
        buf_slice(&v.json, raw)
    else:
        json_escape(&v.json, text)
    if v.json.len > EVENT_BYTES:
        return event_refuse(v, name, b"the attributes are too long")
    return True

cdef bint event_known(Event* v, Slice name, Slice text) noexcept nogil:
    # Checks an attribute that the standard names or that means something here, and keeps it.
    cdef Slice meant
    cdef char[80] hint
    cdef int judged = name_judge(name, EVENT_NAMES, &meant)
    if judged != NAME_KNOWN:
        # an extension may have any name; a name near to the standard's own would be an unnoticed slip
        if not strict or judged != NAME_NEAR:
            return True
        snprintf(hint, sizeof(hint), b"is no attribute of the standard; %.*s is one", <int>meant.n, meant.p)
        return event_refuse(v, name, hint)
    if text.p == NULL or text.n == 0:
        return event_refuse(v, name, b"must be a non-empty string")
    if slice_is(name, b"id"):
        v.id = text
    elif slice_is(name, b"source"):
        v.source = text
        return event_uri(text, False) or event_refuse(v, name, b"must be a URI reference")
    elif slice_is(name, b"type"):
        v.type = text
    elif slice_is(name, b"specversion"):
        v.version = True
        return slice_is(text, b"1.0") or event_refuse(v, name, b"must be 1.0")
    elif slice_is(name, b"datacontenttype"):
        return event_media_type(text) or event_refuse(v, name, b"must be a media type")
    elif slice_is(name, b"dataschema"):
        return event_uri(text, True) or event_refuse(v, name, b"must be a URI")
    elif slice_is(name, b"time"):
        return event_time(text) or event_refuse(v, name, b"must be a time as in RFC 3339")
    elif slice_is(name, b"partitionkey"):
        v.key = text
        return text.n <= NAME_MAX or event_refuse(v, name, b"must have at most 255 bytes")
    elif slice_is(name, b"traceparent"):
        v.parent = text
        return traceparent_valid(text) or event_refuse(v, name, b"must be one of W3C trace context")
    elif slice_is(name, b"tracestate"):
        v.state = text
        return tracestate_valid(text) or event_refuse(v, name, b"must be one of W3C trace context")
    return True

cdef void event_open(Event* v, Arena* a, int index, ApiError* e) noexcept nogil:
    memset(v, 0, sizeof(Event))
    v.arena = a
    v.index = index
    v.error = e
    e.status = 0

cdef bint event_close(Event* v, EventWhere* where, PushItem* it) noexcept nogil:
    # Turns the complete event into an item.
    cdef Buf b
    cdef Slice pair
    if not v.version:
        return event_refuse(v, slice_lit(b"specversion"), b"is missing")
    if v.id.p == NULL:
        return event_refuse(v, slice_lit(b"id"), b"is missing")
    if v.source.p == NULL:
        return event_refuse(v, slice_lit(b"source"), b"is missing")
    if v.type.p == NULL:
        return event_refuse(v, slice_lit(b"type"), b"is missing")
    if v.state.n and v.parent.n == 0:
        return event_refuse(v, slice_lit(b"tracestate"), b"needs a traceparent")
    memset(it, 0, sizeof(PushItem))
    it.queue = where.queue
    it.part = v.key if v.key.n else where.partition
    if v.parent.n == 0:
        v.parent = where.parent
        v.state = where.state
    it.payload = v.data if v.data.p != NULL else slice_lit(b"null")
    pair = text_pair(v.source, v.id, v.arena)     # both are without NUL
    if pair.p == NULL:
        return refuse_memory(v.error)
    digest_id(pair.p, pair.n, it.id)
    it.id_kind = ID_OTHER
    buf_init(&b)
    buf_byte(&b, b'{')
    trace_put(&b, v.parent, v.state)
    if v.base64 or v.data.p == NULL:
        buf_text(&b, b'"dataEncoding":' if b.len == 1 else b',"dataEncoding":')
        buf_text(&b, b'"base64"' if v.base64 else b'"none"')
    buf_text(&b, b'"cloudEvent":{' if b.len == 1 else b',"cloudEvent":{')
    buf_put(&b, v.json.data, v.json.len)
    buf_byte(&b, b'}')
    if v.json.failed or not headers_keep(v.arena, &b, it):
        return refuse_memory(v.error)
    return True
