# Reads POST /api/v1/events/{queue}: CloudEvents 1.0 over HTTP, structured (application/cloudevents+json), batched
# (application/cloudevents-batch+json) and binary (ce- headers). In: a request. Out: items of a push. Stateless, takes
# no lock. The data are the payload. The attributes go into the headers of the record as they came, so that the same
# event can go out again. Source and id make the transactionId.

cdef enum:
    EVENT_ATTRIBUTES = 64     # of one event
    EVENT_BYTES = 32768       # bytes the attributes may take, as JSON

cdef struct EventWhere:       # what a request says of all its events
    Slice queue
    Slice partition           # of events without a partitionkey
    Slice parent              # of events without a traceparent
    Slice state

cdef struct Event:
    # attributes of the standard, in the order of EVENT_NAMES; p NULL: absent
    Slice version, id, source, type, subject, time, kind, schema, key, parent, state
    Slice headers             # of the record, an object as text; p NULL: absent
    Slice data                # JSON; p NULL: absent
    bint base64               # data is a text of base64
    int n
    Slice[EVENT_ATTRIBUTES] names
    Buf json                  # attributes as members
    Tools* t

# ---- a request -------------------------------------------------------------------------------------------------------

cdef bint eventitem_read(Slice headers, bint traced, Slice path, Slice query, Slice body, Tools* t,
                         PushReq* out) noexcept nogil:
    # Reads a request. A fault refuses the whole request before any event is used.
    cdef int type_ = header_media(headers)
    cdef EventWhere where
    memset(&where, 0, sizeof(where))
    memset(out, 0, sizeof(PushReq))
    # after /api/v1/events/
    if not uri_decode(slice_from(path, 15), t.arena, False, &where.queue) or not 1 <= where.queue.n <= NAME_MAX:
        return refuse(&t.error, b"The queue name in the path must be valid text of 1 to 255 bytes")
    t.what = b"query"
    t.index = -1
    if not pushitems_query_part(query, t, &where.partition) or not pushitems_query_format(query, t, &out.counts):
        return False
    if where.partition.p == NULL:
        where.partition = slice_lit(PARTITION_DEFAULT)
    if traced:
        trace_request(headers, t.arena, &where.parent, &where.state)
    if type_ == MEDIA_CLOUD:
        return refuse_set(&t.error, 415,
                          b"Events come as application/cloudevents+json, application/cloudevents-batch+json "
                          b"or with ce- headers")
    if type_ == MEDIA_EVENT or type_ == MEDIA_EVENTS:
        return eventitem_json(type_ == MEDIA_EVENTS, body, &where, t, out)
    if header_value(headers, b"ce-specversion").p == NULL:
        return refuse(&t.error, b"Neither a Content-Type of CloudEvents nor a header ce-specversion")
    return eventitem_binary(headers, header_value(headers, b"content-type"), body, &where, t, out)

cdef bint eventitem_json(bint batch, Slice body, EventWhere* where, Tools* t, PushReq* out) noexcept nogil:
    cdef Event* v = <Event*>arena_alloc(t.arena, sizeof(Event))
    cdef Json j
    cdef bint first = True
    cdef bint ok
    if v == NULL:
        return refuse_memory(&t.error)
    if not json_body(&j, body, &t.error):
        return False
    if batch and json_peek(&j) != b'[':
        if not json_skip(&j, NULL) or not json_end(&j):
            return json_refuse(&t.error, &j)
        return refuse(&t.error, b"A batch of events is an array")
    if batch:
        json_enter(&j, b'[')
    while json_element(&j, &first) if batch else out.n == 0:
        if out.n >= t.settings.max_items:
            return refuse_as(&t.error, b"The batch has more than %d events", t.settings.max_items)
        if not pushitems_grow(out, t, &j, body, t.settings.max_items):
            return False
        eventitem_open(v, t, out.n)
        ok = eventitem_members(v, &j) and eventitem_close(v, where, &out.items[out.n])
        buf_free(&v.json)
        if not ok:
            return False
        out.n += 1
    return j.error == NULL and json_end(&j) or json_refuse(&t.error, &j)

cdef bint eventitem_binary(Slice headers, Slice kind, Slice body, EventWhere* where, Tools* t,
                           PushReq* out) noexcept nogil:
    cdef Event* v = <Event*>arena_alloc(t.arena, sizeof(Event))
    cdef bint ok
    out.items = <PushItem*>arena_alloc(t.arena, sizeof(PushItem))
    if v == NULL or out.items == NULL:
        return refuse_memory(&t.error)
    eventitem_open(v, t, 0)
    ok = (eventitem_headers(v, headers)
          and (kind.n == 0 or eventitem_attribute(v, slice_lit(b"datacontenttype"), kind, slice_of(NULL, 0)))
          and eventitem_body(v, kind, body) and eventitem_close(v, where, out.items))
    buf_free(&v.json)
    out.n = 1
    return ok

# ---- structured ------------------------------------------------------------------------------------------------------

cdef bint eventitem_members(Event* v, Json* j) noexcept nogil:
    # Reads the event at the cursor.
    cdef Slice key, name, text
    cdef bint first = True
    cdef int c
    if json_peek(j) != b'{':
        if j.error != NULL or not json_skip(j, NULL):
            return json_refuse(&v.t.error, j)
        return refuse_as(&v.t.error, b"An event must be an object (event %d)", v.t.index)
    json_enter(j, b'{')
    while member_next(j, &first, v.t.arena, &key):
        c = json_peek(j)
        name = slice_of(key.p + 1, key.n - 2)
        if slice_is(name, b"data") or slice_is(name, b"data_base64"):
            if v.data.p != NULL:
                return eventitem_refuse(v, name, b"an event has its data once")
            if not json_skip(j, &v.data):
                break
            v.base64 = name.n > 4
            if v.base64 and (c != b'"' or not text_unescape(v.data, v.t.arena, &text, NULL)
                             or not eventform_base64(text)):
                return eventitem_refuse(v, name, b"must be base64")
        elif not eventitem_value(v, j, name, c):
            return False
    return True if j.error == NULL else json_refuse(&v.t.error, j)

cdef bint eventitem_value(Event* v, Json* j, Slice name, int c) noexcept nogil:
    # Reads an attribute's value at the cursor.
    cdef Slice raw, text
    cdef size_t i
    cdef int64_t number = 0
    cdef bint half = False
    if c == b'"':
        if not json_string(j, &raw):
            return json_refuse(&v.t.error, j)
        if not text_unescape(raw, v.t.arena, &text, &half) or half:
            return eventitem_refuse(v, name, b"must be valid text")
        return eventitem_attribute(v, name, text, raw)
    if not json_skip(j, &raw):
        return json_refuse(&v.t.error, j)
    if c == b'n':
        return True           # as good as absent
    if c == b't' or c == b'f':
        return eventitem_attribute(v, name, slice_of(NULL, 0), raw)
    for i in range(1 if c == b'-' else 0, raw.n):
        if raw.n > 11 or not b'0' <= raw.p[i] <= b'9':
            return eventitem_refuse(v, name, b"must be a string, a boolean or a whole number")
        number = number * 10 + raw.p[i] - c'0'
    if number > (<int64_t>1 << 31) - (0 if c == b'-' else 1):
        return eventitem_refuse(v, name, b"must be a number of 32 bits")
    return eventitem_attribute(v, name, slice_of(NULL, 0), raw)

# ---- binary ----------------------------------------------------------------------------------------------------------

cdef bint eventitem_headers(Event* v, Slice headers) noexcept nogil:
    # Reads headers `ce-name: value`; values are percent-encoded, perhaps in quotes.
    cdef Slice given, value, text
    cdef char* name
    cdef char* plain
    cdef size_t i, n
    while headers.n:
        value = slice_until(slice_cut(&headers, b'\n'), b'\r')
        given = slice_cut(&value, b':')
        if given.n > 3 and slice_nfolds(given.p, b"ce-", 3):
            n = given.n - 3
            name = <char*>arena_alloc(v.t.arena, n)
            value = slice_trim(value)
            if value.n >= 2 and value.p[0] == b'"' and value.p[value.n - 1] == b'"':
                plain = <char*>arena_alloc(v.t.arena, value.n)
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
                return refuse_memory(&v.t.error)
            for i in range(n):
                name[i] = given.p[3 + i] | LETTER_SMALL if b'A' <= given.p[3 + i] <= b'Z' else given.p[3 + i]
            if slice_is(slice_of(name, n), b"data") or slice_is(slice_of(name, n), b"datacontenttype"):
                return eventitem_refuse(v, slice_of(name, n), b"is no header: Content-Type and the body say it")
            if not uri_decode(value, v.t.arena, False, &text):
                return eventitem_refuse(v, slice_of(name, n), b"must be percent-encoded UTF-8")
            if not eventitem_attribute(v, slice_of(name, n), text, slice_of(NULL, 0)):
                return False
    return True

cdef bint eventitem_body(Event* v, Slice kind, Slice body) noexcept nogil:
    # Takes a body: JSON as it is, text as a text, other types in base64. A body without a type is taken as JSON if it
    # is valid JSON.
    cdef Json j
    cdef Buf b
    if body.n == 0:
        return True
    if kind.n == 0 or eventitem_type_has(kind, b"/json") or eventitem_type_has(kind, b"+json"):
        if pushitem_json(&j, body, &v.data):
            return True
        if kind.n:
            return json_refuse(&v.t.error, &j)
    buf_init(&b)
    if (eventitem_type_has(kind, b"/xml") or eventitem_type_has(kind, b"+xml")
            or (kind.n > 5 and slice_nfolds(kind.p, b"text/", 5))) and text_is_utf8(body):
        text_escape(&b, body)
    else:
        v.base64 = True
        eventform_put_base64(&b, body)
    v.data = arena_copy(v.t.arena, slice_of(b.data, 0 if b.failed else b.len))
    buf_free(&b)
    if v.data.n == 0:
        return refuse_memory(&v.t.error)
    return True

cdef inline bint eventitem_type_has(Slice kind, const char* ending) noexcept nogil:
    # Returns True if the subtype has this ending.
    cdef size_t n = strlen(ending)
    kind = slice_until(slice_until(kind, b';'), b' ')
    return kind.n > n and slice_nfolds(kind.p + kind.n - n, ending, n)

# ---- an event --------------------------------------------------------------------------------------------------------

cdef void eventitem_open(Event* v, Tools* t, int index) noexcept nogil:
    memset(v, 0, sizeof(Event))
    v.t = t
    t.index = index

cdef bint eventitem_attribute(Event* v, Slice name, Slice text, Slice raw) noexcept nogil:
    # Takes a context attribute. text: p NULL for a number or a boolean. raw: its JSON; p NULL: text is to be escaped.
    cdef size_t i
    cdef int k
    if name.n == 0 or name.n > 64:
        return eventitem_refuse(v, name, b"the name must have 1 to 64 letters and digits")
    for i in range(name.n):
        if not (b'a' <= name.p[i] <= b'z' or b'0' <= name.p[i] <= b'9'):
            return eventitem_refuse(v, name, b"the name must be of lower-case letters and digits")
    for k in range(v.n):
        if slice_eq(v.names[k], name):
            return eventitem_refuse(v, name, b"given twice")
    if v.n == EVENT_ATTRIBUTES:
        return eventitem_refuse(v, name, b"too many attributes")
    v.names[v.n] = name
    v.n += 1
    if name.n > 6 and memcmp(name.p, b"queend", 6) == 0:
        if slice_is(name, b"queendheaders"):
            v.headers = text
            return text.p != NULL or eventitem_refuse(v, name, HEADERS_TEXT)
        return True           # set by a delivery, and this is a push
    if text.p != NULL and (not eventform_clean(text) or not text_is_utf8(text)):
        return eventitem_refuse(v, name, b"must be text without control characters")
    if not eventitem_known(v, name, text):
        return False
    if slice_is(name, b"traceparent") or slice_is(name, b"tracestate"):
        return True
    buf_text(&v.json, b'"' if v.json.len == 0 else b',"')
    buf_slice(&v.json, name)
    buf_text(&v.json, b'":')
    if raw.p != NULL:
        buf_slice(&v.json, raw)
    else:
        text_escape(&v.json, text)
    if v.json.len > EVENT_BYTES:
        return eventitem_refuse(v, name, b"the attributes are too long")
    return True

cdef bint eventitem_known(Event* v, Slice name, Slice text) noexcept nogil:
    # Checks an attribute that the standard names or that means something here, and keeps it.
    cdef Slice meant
    cdef char[80] hint
    cdef int place = typo_place(name, EVENT_NAMES)
    if place < 0:
        # an extension may have any name; a name near to the standard's own would be an unnoticed slip
        if not strict or typo_judge(name, EVENT_NAMES, &meant) != NAME_NEAR:
            return True
        snprintf(hint, sizeof(hint), b"is no attribute of the standard; %.*s is one", <int>meant.n, meant.p)
        return eventitem_refuse(v, name, hint)
    if text.p == NULL or text.n == 0:
        return eventitem_refuse(v, name, b"must be a non-empty string")
    (&v.version)[place] = text
    if slice_is(name, b"source"):
        return eventform_uri(text, False) or eventitem_refuse(v, name, b"must be a URI reference")
    elif slice_is(name, b"specversion"):
        return slice_is(text, b"1.0") or eventitem_refuse(v, name, b"must be 1.0")
    elif slice_is(name, b"datacontenttype"):
        return eventform_media_type(text) or eventitem_refuse(v, name, b"must be a media type")
    elif slice_is(name, b"dataschema"):
        return eventform_uri(text, True) or eventitem_refuse(v, name, b"must be a URI")
    elif slice_is(name, b"time"):
        return eventform_time(text) or eventitem_refuse(v, name, b"must be a time as in RFC 3339")
    elif slice_is(name, b"partitionkey"):
        return text.n <= NAME_MAX or eventitem_refuse(v, name, b"must have at most 255 bytes")
    elif slice_is(name, b"traceparent"):
        return trace_parent_valid(text) or eventitem_refuse(v, name, b"must be one of W3C trace context")
    elif slice_is(name, b"tracestate"):
        return trace_state_valid(text) or eventitem_refuse(v, name, b"must be one of W3C trace context")
    return True

cdef bint eventitem_close(Event* v, EventWhere* where, PushItem* it) noexcept nogil:
    # Turns the complete event into an item.
    cdef Buf b
    cdef Slice pair
    cdef ItemHeaders headers
    cdef const char* missing
    missing = (b"specversion" if v.version.p == NULL else b"id" if v.id.p == NULL else b"source" if v.source.p == NULL
               else b"type" if v.type.p == NULL else b"")
    if missing[0]:
        return eventitem_refuse(v, slice_lit(missing), b"is missing")
    if v.state.n and v.parent.n == 0:
        return eventitem_refuse(v, slice_lit(b"tracestate"), b"needs a traceparent")
    memset(it, 0, sizeof(PushItem))
    it.queue = where.queue
    it.part = v.key if v.key.n else where.partition
    headers.rest.n = 0
    if v.headers.p != NULL and not itemheaders_parse(v.headers, v.t.arena, &v.parent, &v.state, &headers):
        return eventitem_refuse(v, slice_lit(b"queendheaders"), headers.why) if headers.why[0] else refuse_memory(
            &v.t.error)
    if v.parent.n == 0:
        v.parent = where.parent
        v.state = where.state
    it.payload = v.data if v.data.p != NULL else slice_lit(b"null")
    pair = ident_pair(v.source, v.id, v.t.arena)    # both are without NUL
    if pair.p == NULL:
        return refuse_memory(&v.t.error)
    ident_digest(pair.p, pair.n, it.id)
    it.id_kind = ID_OTHER
    buf_init(&b)
    buf_byte(&b, b'{')
    trace_put(&b, v.parent, v.state)
    if headers.rest.n:
        member_raw(&b, b'"headers":' if b.len == 1 else b',"headers":', headers.rest)
    if v.base64 or v.data.p == NULL:
        buf_text(&b, b'"dataEncoding":' if b.len == 1 else b',"dataEncoding":')
        buf_text(&b, b'"base64"' if v.base64 else b'"none"')
    buf_text(&b, b'"cloudEvent":{' if b.len == 1 else b',"cloudEvent":{')
    buf_put(&b, v.json.data, v.json.len)
    buf_byte(&b, b'}')
    if v.json.failed or not pushitem_keep_headers(v.t.arena, &b, it):
        return refuse_memory(&v.t.error)
    return True

cdef bint eventitem_refuse(Event* v, Slice name, const char* text) noexcept nogil:
    # Refuses an event: `must be a URI reference (event 3, attribute source)`. Returns False.
    if not text_is_utf8(name) or name.n > 64:
        name = slice_lit(b"?")
    return refuse_as(&v.t.error, b"%s (event %d, attribute %.*s)", text, v.t.index, <int>name.n, name.p)
