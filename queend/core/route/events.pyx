# Reads POST /api/v1/events/{queue}: CloudEvents 1.0 over HTTP: structured (application/cloudevents+json), batched
# (application/cloudevents-batch+json) and binary (ce- headers). In: a request. Out: items of a push.

# ---- structured ------------------------------------------------------------------------------------------------------

cdef bint event_value(Event* v, Json* j, Slice name, int c) noexcept nogil:
    # Reads an attribute's value at the cursor.
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
        return True           # as good as absent
    if c == b't' or c == b'f':
        return event_attribute(v, name, slice_of(NULL, 0), raw)
    for i in range(1 if c == b'-' else 0, raw.n):
        if raw.n > 11 or not b'0' <= raw.p[i] <= b'9':
            return event_refuse(v, name, b"must be a string, a boolean or a whole number")
        number = number * 10 + raw.p[i] - c'0'
    if number > (<int64_t>1 << 31) - (0 if c == b'-' else 1):
        return event_refuse(v, name, b"must be a number of 32 bits")
    return event_attribute(v, name, slice_of(NULL, 0), raw)

cdef bint event_members(Event* v, Json* j) noexcept nogil:
    # Reads the event at the cursor.
    cdef Slice key, name, text
    cdef bint first = True
    cdef int c
    if json_peek(j) != b'{':
        if j.error != NULL or not json_skip(j, NULL):
            return refuse_json(v.error, j)
        return refuse_as(v.error, b"An event must be an object (event %d)", v.index)
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
    # Reads headers `ce-name: value`; values are percent-encoded, perhaps in quotes.
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
            value = slice_trim(slice_of(colon + 1, stop - 1 - colon - 1))
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
                return refuse_memory(v.error)
            for i in range(n):
                name[i] = p[3 + i] | LETTER_SMALL if b'A' <= p[3 + i] <= b'Z' else p[3 + i]
            if slice_is(slice_of(name, n), b"data") or slice_is(slice_of(name, n), b"datacontenttype"):
                return event_refuse(v, slice_of(name, n), b"is no header: Content-Type and the body say it")
            if not percent_decode(value, v.arena, False, &text):
                return event_refuse(v, slice_of(name, n), b"must be percent-encoded UTF-8")
            if not event_attribute(v, slice_of(name, n), text, slice_of(NULL, 0)):
                return False
        p = stop + 1
    return True

cdef inline bint type_has(Slice kind, const char* ending) noexcept nogil:
    # Returns True if the subtype has this ending.
    cdef size_t n = strlen(ending)
    kind = slice_until(slice_until(kind, b';'), b' ')
    return kind.n > n and text_folds(kind.p + kind.n - n, ending, n)

cdef bint event_body(Event* v, Slice kind, Slice body) noexcept nogil:
    # Takes a body: JSON as it is, text as a text, other types in base64. A body without a type is taken as JSON if it
    # is valid JSON.
    cdef Json j
    cdef Buf b
    if body.n == 0:
        return True
    if kind.n == 0 or type_has(kind, b"/json") or type_has(kind, b"+json"):
        if json_whole(&j, body, &v.data):
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
        return refuse_memory(v.error)
    return True

# ---- a request -------------------------------------------------------------------------------------------------------

cdef bint events_read(Slice headers, bint traced, Slice path, Slice query, Slice body, Arena* a, int max_items,
                      PushReq* out, ApiError* e) noexcept nogil:
    # Reads a request. A fault refuses the whole request before any event is used.
    cdef int type_ = media_type(headers)
    cdef EventWhere where
    memset(&where, 0, sizeof(where))
    memset(out, 0, sizeof(PushReq))
    # after /api/v1/events/
    if not percent_decode(slice_from(path, 15), a, False, &where.queue) \
            or not 1 <= where.queue.n <= NAME_MAX:
        return refuse(e, b"The queue name in the path must be valid text of 1 to 255 bytes")
    if not query_partition(query, a, &where.partition, e) or not query_format(query, a, &out.counts, e):
        return False
    if where.partition.p == NULL:
        where.partition = slice_lit(b"Default")
    if traced:
        request_trace(headers, a, &where.parent, &where.state)
    if type_ == MEDIA_CLOUD:
        error_set(e, 415,
                  b"Events come as application/cloudevents+json, application/cloudevents-batch+json "
                  b"or with ce- headers")
        return False
    if type_ == MEDIA_EVENT or type_ == MEDIA_EVENTS:
        return events_json(type_ == MEDIA_EVENTS, body, &where, a, max_items, out, e)
    if header_value(headers, b"ce-specversion").p == NULL:
        return refuse(e, b"Neither a Content-Type of CloudEvents nor a header ce-specversion")
    return events_binary(headers, header_value(headers, b"content-type"), body, &where, a, out, e)

cdef bint events_binary(Slice headers, Slice kind, Slice body, EventWhere* where, Arena* a, PushReq* out,
                        ApiError* e) noexcept nogil:
    cdef Event* v = <Event*>arena_alloc(a, sizeof(Event))
    cdef bint ok
    out.items = <PushItem*>arena_alloc(a, sizeof(PushItem))
    if v == NULL or out.items == NULL:
        return refuse_memory(e)
    event_open(v, a, 0, e)
    ok = (event_headers(v, headers)
          and (kind.n == 0 or event_attribute(v, slice_lit(b"datacontenttype"), kind, slice_of(NULL, 0)))
          and event_body(v, kind, body) and event_close(v, where, out.items))
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
        return refuse_memory(e)
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
            return refuse_as(e, b"The batch has more than %d events", max_items)
        out.items = pushitems_grow(a, out.items, out.n, &room, &j, body, max_items)
        if out.items == NULL:
            return refuse_memory(e)
        event_open(v, a, out.n, e)
        ok = event_members(v, &j) and event_close(v, where, &out.items[out.n])
        buf_free(&v.json)
        if not ok:
            return False
        out.n += 1
    return j.error == NULL and json_end(&j) or refuse_json(e, &j)
