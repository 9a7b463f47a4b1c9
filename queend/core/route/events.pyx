# POST /api/v1/events/{queue}: CloudEvents 1.0 over HTTP: structured (application/cloudevents+json), batched
# (application/cloudevents-batch+json) and binary (ce- headers). The event's data becomes the payload; its attributes go
# into the headers of the record as they came, so that the same event can go out again. Source and id make the
# transactionId.

cdef enum:
    EVENT_ATTRIBUTES = 64     # of one event
    EVENT_BYTES = 32768       # they may take, as JSON

cdef struct EventWhere:       # what a request says of all its events
    Slice queue
    Slice partition           # of those without a partitionkey
    Slice parent              # of those without a traceparent
    Slice state

cdef struct Event:
    Slice id
    Slice source
    Slice type
    Slice key                 # partitionkey
    Slice parent
    Slice state
    Slice data                # JSON; p NULL: none
    bint base64               # data is a text of base64
    bint version
    int n
    Slice[EVENT_ATTRIBUTES] names
    Buf json                  # attributes as members
    int index                 # of the event in its request
    ApiError* error
    Arena* arena

cdef bint event_refuse(Event* v, Slice name, const char* text) noexcept nogil:
    # `must be a URI reference (event 3, attribute source)`
    v.error.status = 400
    if not utf8_valid(name) or name.n > 64:
        name = slice_lit(b"?")
    snprintf(v.error.text, 239, b"%s (event %d, attribute %.*s)", text, v.index, <int>name.n, name.p)
    return False

cdef bint event_attribute(Event* v, Slice name, Slice text, Slice raw) noexcept nogil:
    # One context attribute. text: p NULL when it is a number or a truth; raw: its JSON, p NULL: text is to be spelled.
    cdef size_t i
    cdef int k
    if name.n == 0 or name.n > 64:
        return event_refuse(v, name, b"the name must have 1 to 64 letters and digits")
    for i in range(name.n):
        if not (97 <= name.p[i] <= 122 or 48 <= name.p[i] <= 57):
            return event_refuse(v, name, b"the name must be of lower-case letters and digits")
    for k in range(v.n):
        if slice_eq(v.names[k], name):
            return event_refuse(v, name, b"given twice")
    if v.n == EVENT_ATTRIBUTES:
        return event_refuse(v, name, b"too many attributes")
    v.names[v.n] = name
    v.n += 1
    if name.n > 6 and memcmp(name.p, b"queend", 6) == 0:
        return True           # said of a delivery, which this is not
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
    # What the standard says of the attributes it names, and of those that mean something here.
    cdef Slice meant
    cdef char[80] hint
    cdef bint wanted = (slice_is(name, b"id") or slice_is(name, b"source") or slice_is(name, b"type")
                        or slice_is(name, b"specversion")
                        or slice_is(name, b"datacontenttype") or slice_is(name, b"dataschema")
                        or slice_is(name, b"subject") or slice_is(name, b"time") or slice_is(name, b"partitionkey")
                        or slice_is(name, b"traceparent") or slice_is(name, b"tracestate"))
    if not wanted:
        # an extension may have any name; one that is near to the standard's own would be a slip that nobody hears of
        if strict and name_judge(name, EVENT_NAMES, &meant) == NAME_NEAR:
            snprintf(hint, sizeof(hint), b"is no attribute of the standard; %.*s is one", <int>meant.n, meant.p)
            return event_refuse(v, name, hint)
        return True
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
    # The event is whole: it becomes an item.
    cdef unsigned char[32] digest
    cdef Buf b
    cdef char* text
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
    text = <char*>arena_alloc(v.arena, v.source.n + 1 + v.id.n)
    if text == NULL:
        error_set(v.error, 503, b"Out of memory")
        return False
    memcpy(text, v.source.p, v.source.n)
    text[v.source.n] = 0      # neither of them has a NUL
    memcpy(text + v.source.n + 1, v.id.p, v.id.n)
    SHA256(<const unsigned char*>text, v.source.n + 1 + v.id.n, digest)
    memcpy(it.id, digest, 16)
    it.id[6] = (it.id[6] & 0x0f) | 0x80
    it.id[8] = (it.id[8] & 0x3f) | 0x80
    it.id_kind = 2
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
        error_set(v.error, 503, b"Out of memory")
        return False
    return True

# ---- structured ------------------------------------------------------------------------------------------------------

cdef bint event_value(Event* v, Json* j, Slice name, int c) noexcept nogil:
    # The cursor stands at an attribute's value.
    cdef Slice raw, text
    cdef size_t i
    cdef int64_t number = 0
    cdef bint half = False
    if c == b'"':
        if not json_string(j, &raw):
            return refuse_json(v.error, j)
        if not json_unescape(raw, v.arena, &text, &half) or half:
            return event_refuse(v, name, b"must be valid text")
        return event_attribute(v, name, text, raw)
    if not json_skip(j, &raw):
        return refuse_json(v.error, j)
    if c == b'n':
        return True           # as if it were not there
    if c == b't' or c == b'f':
        return event_attribute(v, name, slice_of(NULL, 0), raw)
    for i in range(1 if c == b'-' else 0, raw.n):
        if raw.n > 11 or not 48 <= raw.p[i] <= 57:
            return event_refuse(v, name, b"must be a string, a boolean or a whole number")
        number = number * 10 + raw.p[i] - 48
    if number > (<int64_t>1 << 31) - (0 if c == b'-' else 1):
        return event_refuse(v, name, b"must be a number of 32 bits")
    return event_attribute(v, name, slice_of(NULL, 0), raw)

cdef bint event_members(Event* v, Json* j) noexcept nogil:
    # The cursor stands at the event.
    cdef Slice key, name, text
    cdef bint first = True
    cdef int c
    if json_peek(j) != b'{':
        if j.error != NULL or not json_skip(j, NULL):
            return refuse_json(v.error, j)
        v.error.status = 400
        snprintf(v.error.text, 239, b"An event must be an object (event %d)", v.index)
        return False
    json_enter(j, b'{')
    while member_next(j, &first, v.arena, &key):
        c = json_peek(j)
        name = slice_of(key.p + 1, key.n - 2)
        if slice_is(name, b"data") or slice_is(name, b"data_base64"):
            if v.data.p != NULL:
                return event_refuse(v, name, b"an event has its data once")
            if not json_skip(j, &v.data):
                break
            v.base64 = name.n > 4
            if v.base64 and (c != b'"' or not json_unescape(v.data, v.arena, &text, NULL) or not event_base64(text)):
                return event_refuse(v, name, b"must be base64")
        elif not event_value(v, j, name, c):
            return False
    return True if j.error == NULL else refuse_json(v.error, j)

# ---- binary ----------------------------------------------------------------------------------------------------------

cdef bint event_headers(Event* v, Slice headers) noexcept nogil:
    # ce-name: value, percent-encoded, perhaps in quotes.
    cdef const char* p = headers.p
    cdef const char* end = headers.p + headers.n
    cdef const char* stop
    cdef const char* colon
    cdef Slice value, text
    cdef char* name
    cdef char* plain
    cdef size_t i, n
    while p < end:
        stop = <const char*>memchr(p, b'\n', end - p)
        colon = <const char*>memchr(p, b':', stop - p)
        if colon - p > 3 and text_folds(p, b"ce-", 3):
            n = colon - p - 3
            name = <char*>arena_alloc(v.arena, n)
            value = slice_of(colon + 1, stop - 1 - colon - 1)
            while value.n and (value.p[0] == b' ' or value.p[0] == b'\t'):
                value = slice_of(value.p + 1, value.n - 1)
            while value.n and (value.p[value.n - 1] == b' ' or value.p[value.n - 1] == b'\t'):
                value.n -= 1
            if value.n >= 2 and value.p[0] == b'"' and value.p[value.n - 1] == b'"':
                plain = <char*>arena_alloc(v.arena, value.n)
                text = slice_of(value.p + 1, value.n - 2)
                value = slice_of(plain, 0)
                i = 0
                while plain != NULL and i < text.n:
                    if text.p[i] == b'\\' and i + 1 < text.n:
                        i += 1
                    plain[value.n] = text.p[i]
                    value.n += 1
                    i += 1
            if name == NULL or value.p == NULL:
                error_set(v.error, 503, b"Out of memory")
                return False
            for i in range(n):
                name[i] = p[3 + i] | 32 if b'A' <= p[3 + i] <= b'Z' else p[3 + i]
            if slice_is(slice_of(name, n), b"data") or slice_is(slice_of(name, n), b"datacontenttype"):
                return event_refuse(v, slice_of(name, n), b"is no header: Content-Type and the body say it")
            if not percent_decode(value, v.arena, False, &text):
                return event_refuse(v, slice_of(name, n), b"must be percent-encoded UTF-8")
            if not event_attribute(v, slice_of(name, n), text, slice_of(NULL, 0)):
                return False
        p = stop + 1
    return True

cdef inline bint type_has(Slice kind, const char* ending) noexcept nogil:
    # Does the subtype end so?
    cdef size_t i = 0
    cdef size_t n = strlen(ending)
    while i < kind.n and kind.p[i] != b';' and kind.p[i] != b' ':
        i += 1
    return i > n and text_folds(kind.p + i - n, ending, n)

cdef bint event_body(Event* v, Slice kind, Slice body) noexcept nogil:
    # JSON as it is, text as a text, anything else in base64. Without a type: JSON if it is.
    cdef Json j
    cdef Buf b
    if body.n == 0:
        return True
    if kind.n == 0 or type_has(kind, b"/json") or type_has(kind, b"+json"):
        json_open(&j, body, JSON_DEPTH)
        json_padded(&j)
        if json_skip(&j, &v.data) and json_end(&j):
            return True
        if kind.n:
            return refuse_json(v.error, &j)
    buf_init(&b)
    if (type_has(kind, b"/xml") or type_has(kind, b"+xml")
        or (kind.n > 5 and text_folds(kind.p, b"text/", 5))) and utf8_valid(body):
        json_escape(&b, body)
    else:
        v.base64 = True
        base64_put(&b, body)
    v.data = arena_copy(v.arena, slice_of(b.data, 0 if b.failed else b.len))
    buf_free(&b)
    if v.data.n == 0:
        error_set(v.error, 503, b"Out of memory")
        return False
    return True

# ---- a request -------------------------------------------------------------------------------------------------------

cdef bint events_read(Slice headers, bint traced, Slice path, Slice query, Slice body, Arena* a, int max_items,
                      PushReq* out, ApiError* e) noexcept nogil:
    # A fault refuses the whole request; nothing was used yet.
    cdef Slice kind = header_value(headers, b"content-type")
    cdef Slice queue, partition, text
    cdef EventWhere where
    cdef int found
    memset(&where, 0, sizeof(where))
    memset(out, 0, sizeof(PushReq))
    # after /api/v1/events/
    if not percent_decode(slice_of(path.p + 15, path.n - 15), a, False, &queue) or queue.n == 0 or queue.n > NAME_MAX:
        return refuse(e, b"The queue name in the path must be valid text of 1 to 255 bytes")
    where.queue = queue
    found = query_find(query, b"partition", a, &partition)
    if found and (found < 0 or not name_fits(partition)):
        return refuse(e, b"Partition must be valid text of at most 255 bytes (query, field partition)")
    where.partition = partition if found else slice_lit(b"Default")
    if traced:
        request_trace(headers, a, &where.parent, &where.state)
    found = query_find(query, b"format", a, &text)
    out.counts = found == 1 and slice_is(text, b"counts")
    if found and not out.counts and not slice_is(text, b"array"):
        return refuse(e, b"format must be array or counts")
    if kind.n >= 23 and text_folds(kind.p, b"application/cloudevents", 23):
        if (not type_is(kind, b"application/cloudevents+json")
                and not type_is(kind, b"application/cloudevents-batch+json")):
            error_set(e, 415,
                      b"Events come as application/cloudevents+json, application/cloudevents-batch+json "
                      b"or with ce- headers")
            return False
        return events_json(type_is(kind, b"application/cloudevents-batch+json"), body, &where, a, max_items, out, e)
    if header_value(headers, b"ce-specversion").p == NULL:
        return refuse(e, b"Neither a Content-Type of CloudEvents nor a header ce-specversion")
    return events_binary(headers, kind, body, &where, a, out, e)

cdef bint events_binary(Slice headers, Slice kind, Slice body, EventWhere* where, Arena* a, PushReq* out,
                        ApiError* e) noexcept nogil:
    cdef Event* v = <Event*>arena_alloc(a, sizeof(Event))
    cdef bint ok
    out.items = <PushItem*>arena_alloc(a, sizeof(PushItem))
    if v == NULL or out.items == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    event_open(v, a, 0, e)
    ok = event_headers(v, headers) and (kind.n == 0
                                        or event_attribute(v, slice_lit(b"datacontenttype"), kind, slice_of(NULL, 0))) \
        and event_body(v, kind, body) and event_close(v, where, out.items)
    buf_free(&v.json)
    out.n = 1
    return ok

cdef bint events_json(bint batch, Slice body, EventWhere* where, Arena* a, int max_items, PushReq* out,
                      ApiError* e) noexcept nogil:
    cdef Event* v = <Event*>arena_alloc(a, sizeof(Event))
    cdef Json j
    cdef bint first = True
    cdef bint ok
    cdef int room = 0
    if v == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    if not body_open(&j, body, e):
        return False
    if batch and json_peek(&j) != b'[':
        if not json_skip(&j, NULL) or not json_end(&j):
            return refuse_json(e, &j)
        return refuse(e, b"A batch of events is an array")
    if batch:
        json_enter(&j, b'[')
    while json_element(&j, &first) if batch else out.n == 0:
        if out.n >= max_items:
            e.status = 400
            snprintf(e.text, 239, b"The batch has more than %d events", max_items)
            return False
        out.items = pushitems_grow(a, out.items, out.n, &room, &j, body, max_items)
        if out.items == NULL:
            error_set(e, 503, b"Out of memory")
            return False
        event_open(v, a, out.n, e)
        ok = event_members(v, &j) and event_close(v, where, &out.items[out.n])
        buf_free(&v.json)
        if not ok:
            return False
        out.n += 1
    if j.error != NULL or not json_end(&j):
        return refuse_json(e, &j)
    return True
