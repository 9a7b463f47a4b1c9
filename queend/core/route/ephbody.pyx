# Reads requests for ephemeral queues, and writes their answers. In: a body or a query. Out: names, payloads, ids; or a
# refusal. Stateless, takes no lock.
# The id of a message is `<start of the daemon>-<life of the queue>-<message>-<attempts>`, in hexadecimal. Clients treat
# it as opaque.

cdef const char* EPH_PUSH_NAMES = b"\x05" b"queue" b"\x09" b"partition" b"\x08" b"messages"
cdef const char* EPH_ITEM_NAMES = b"\x07" b"payload"
cdef const char* EPH_ACK_BODY_NAMES = b"\x05" b"queue" b"\x05" b"group" b"\x04" b"acks"
cdef const char* EPH_ACK_NAMES = b"\x02" b"id" b"\x06" b"status" b"\x05" b"error"
cdef const char* EPH_POP_NAMES = (b"\x05" b"queue" b"\x09" b"partition" b"\x05" b"batch" b"\x04" b"wait"
                                  b"\x07" b"timeout" b"\x05" b"group" b"\x07" b"autoAck" b"\x10" b"commitOnDelivery")
cdef const char* EPH_PARTITION = b"Default"
cdef const char* EPH_QUEUE_MODE = b"__QUEUE_MODE__"

cdef const char* EPH_OUTCOMES[4]
EPH_OUTCOMES = [b"acked", b"redelivered", b"stale", b"unknown"]

cdef bint ephbody_name(Slice raw, const char* field, bint required, Slice* out, Tools* t) noexcept nogil:
    # Reads a name; null counts as absent, which leaves `out` as it is. An empty name counts as absent if it is not
    # required.
    cdef Slice name
    if raw.p == NULL or slice_is(raw, b"null"):
        return not required or refuse_as(&t.error, b"%s is required", field)
    if raw.p[0] != b'"' or not ident_name(raw, t.arena, &name) or name.n == 0 and required:
        return refuse_as(&t.error, b"%s must be valid text of %d to 255 bytes (field %s)", field, <int>required, field)
    if name.n:
        out[0] = name
    return True

# ---- pushes ----------------------------------------------------------------------------------------------------------

cdef bint ephbody_push(Slice body, Tools* t, EphPushReq* q) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key, value
    cdef Slice queue = slice_of(NULL, 0)
    cdef Slice partition = slice_of(NULL, 0)
    memset(q, 0, sizeof(EphPushReq))
    q.partition = slice_lit(EPH_PARTITION)
    if not json_body_object(&j, body, b"The body must be an object", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if member_is(key, b"messages") and json_peek(&j) == b'[':
            if seen:
                return refuse(&t.error, b"messages is given twice")
            seen = True
            if not ephbody_messages(&j, t, q):
                return False
            continue
        if not json_skip(&j, &value):
            break
        if member_is(key, b"queue"):
            queue = value
        elif member_is(key, b"partition"):
            partition = value
        elif typo_key(key, EPH_PUSH_NAMES, b"body", -1, t.arena, &t.error):
            return False
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    if not (ephbody_name(queue, b"queue", True, &q.queue, t)
            and ephbody_name(partition, b"partition", False, &q.partition, t)):
        return False
    if not seen:
        return refuse(&t.error, b"messages array required")
    return q.n > 0 or refuse(&t.error, b"messages array cannot be empty")

cdef bint ephbody_messages(Json* j, Tools* t, EphPushReq* q) noexcept nogil:
    cdef bint first = True
    cdef bint inner
    cdef Slice key, value
    cdef Slice payload
    json_enter(j, b'[')
    while json_element(j, &first):
        if json_peek(j) != b'{':
            return ephbody_bad(j, t, b"Each message must be an object with a payload (message %d)", q.n)
        payload = slice_of(NULL, 0)
        inner = True
        json_enter(j, b'{')
        while member_next(j, &inner, t.arena, &key):
            if not json_skip(j, &value):
                break
            if member_is(key, b"payload"):
                payload = value
            elif typo_key(key, EPH_ITEM_NAMES, b"message", q.n, t.arena, &t.error):
                return False
        if j.error != NULL:
            return json_refuse(&t.error, j)
        if payload.p == NULL:
            return refuse_as(&t.error, b"payload is required (message %d)", q.n)
        if q.n >= EPH_ITEMS_MOST:
            return refuse(&t.error, b"A push has at most 10000 messages")
        q.payloads = <Slice*>arena_grow(t.arena, q.payloads, q.n, sizeof(Slice), 4, &q.room)
        if q.payloads == NULL:
            return refuse_memory(&t.error)
        q.payloads[q.n] = payload
        q.bytes += <int64_t>payload.n
        q.n += 1
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint ephbody_bad(Json* j, Tools* t, const char* text, int index) noexcept nogil:
    # Refuses an element that has the wrong form, unless it is no JSON.
    if not json_skip(j, NULL):
        return json_refuse(&t.error, j)
    return refuse_as(&t.error, text, index)

# ---- acknowledgments -------------------------------------------------------------------------------------------------

cdef bint ephbody_ack(Slice body, Tools* t, EphAckReq* q) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key, value
    cdef Slice queue = slice_of(NULL, 0)
    cdef Slice group = slice_of(NULL, 0)
    memset(q, 0, sizeof(EphAckReq))
    q.group = slice_lit(EPH_QUEUE_MODE)
    if not json_body_object(&j, body, b"The body must be an object", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if member_is(key, b"acks") and json_peek(&j) == b'[':
            if seen:
                return refuse(&t.error, b"acks is given twice")
            seen = True
            if not ephbody_acks(&j, t, q):
                return False
            continue
        if not json_skip(&j, &value):
            break
        if member_is(key, b"queue"):
            queue = value
        elif member_is(key, b"group"):
            group = value
        elif typo_key(key, EPH_ACK_BODY_NAMES, b"body", -1, t.arena, &t.error):
            return False
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    if not (ephbody_name(queue, b"queue", True, &q.queue, t) and ephbody_name(group, b"group", False, &q.group, t)):
        return False
    return seen or refuse(&t.error, b"acks array required")

cdef bint ephbody_acks(Json* j, Tools* t, EphAckReq* q) noexcept nogil:
    cdef bint first = True
    cdef bint inner
    cdef Slice key, value
    cdef Slice id_json, status
    cdef EphAck* x
    json_enter(j, b'[')
    while json_element(j, &first):
        if json_peek(j) != b'{':
            return ephbody_bad(j, t, b"Each acknowledgment must be an object with an id (ack %d)", q.n)
        id_json = slice_of(NULL, 0)
        status = slice_of(NULL, 0)
        inner = True
        json_enter(j, b'{')
        while member_next(j, &inner, t.arena, &key):
            if not json_skip(j, &value):
                break
            if member_is(key, b"id"):
                id_json = value
            elif member_is(key, b"status"):
                status = value
            elif (not member_is(key, b"error")
                    and typo_key(key, EPH_ACK_NAMES, b"ack", q.n, t.arena, &t.error)):
                return False
        if j.error != NULL:
            return json_refuse(&t.error, j)
        if id_json.p == NULL or id_json.p[0] != b'"':
            return refuse_as(&t.error, b"id must be a string (ack %d)", q.n)
        if q.n >= EPH_ITEMS_MOST:
            return refuse(&t.error, b"A call has at most 10000 acknowledgments")
        q.acks = <EphAck*>arena_grow(t.arena, q.acks, q.n, sizeof(EphAck), 4, &q.room)
        if q.acks == NULL:
            return refuse_memory(&t.error)
        x = &q.acks[q.n]
        memset(x, 0, sizeof(EphAck))
        x.id_json = id_json
        x.outcome = EPH_UNKNOWN
        if not ephbody_status(status, &x.fails):
            return refuse_as(&t.error, b"status must be completed, failed or retry (ack %d)", q.n)
        ephbody_id(slice_of(id_json.p + 1, id_json.n - 2), x)
        q.n += 1
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint ephbody_status(Slice raw, bint* fails) noexcept nogil:
    # Reads the outcome of a message. Absent and null mean completed.
    fails[0] = raw.p != NULL and (slice_is(raw, b'"failed"') or slice_is(raw, b'"retry"'))
    return raw.p == NULL or fails[0] or slice_is(raw, b'"completed"') or slice_is(raw, b"null")

# ---- ids -------------------------------------------------------------------------------------------------------------

cdef bint ephbody_hex(Slice* text, uint64_t* out) noexcept nogil:
    # Takes a number of 1 to 16 hexadecimal digits up to the next hyphen.
    cdef Slice part = slice_cut(text, b'-')
    cdef uint64_t v = 0
    cdef size_t i
    cdef int digit
    if part.n == 0 or part.n > 16:
        return False
    for i in range(part.n):
        digit = slice_hex(<unsigned char>part.p[i])
        if digit < 0:
            return False
        v = (v << 4) | <uint64_t>digit
    out[0] = v
    return True

cdef void ephbody_id(Slice text, EphAck* x) noexcept nogil:
    # Reads an id. `known` stays False if it has another form.
    cdef uint64_t start, life, message, attempts
    x.known = (ephbody_hex(&text, &start) and ephbody_hex(&text, &life) and ephbody_hex(&text, &message)
               and ephbody_hex(&text, &attempts) and text.n == 0 and message != 0 and message < <uint64_t>INT64_MAX
               and attempts <= EPH_RETRIES_MOST)
    if x.known:
        x.ours = start == eph_start
        x.life = <int64_t>life
        x.message = <int64_t>message
        x.attempts = <int>attempts

cdef void ephbody_id_write(Buf* b, int64_t life, int64_t message, int attempts) noexcept nogil:
    cdef char[80] text
    cdef int n = snprintf(text, sizeof(text), b"%016llx-%llx-%llx-%x", <unsigned long long>eph_start,
                          <unsigned long long>life, <unsigned long long>message, <unsigned int>attempts)
    buf_put(b, text, <size_t>n)

# ---- answers ---------------------------------------------------------------------------------------------------------

cdef const char* EPH_LINES = b"Queend-Durable: false\r\n"

cdef void ephbody_message(Buf* b, EphMessage* m, int64_t life, int attempts, bint first) noexcept nogil:
    buf_text(b, b'{"id":"' if first else b',{"id":"')
    ephbody_id_write(b, life, m.id, attempts)
    member_text(b, b'","partition":', m.partition.name)
    member_raw(b, b',"payload":', slice_of(m.payload, m.n))
    member_int(b, b',"attempts":', attempts)
    buf_byte(b, b'}')

cdef void ephbody_results(Buf* b, const EphAckReq* q) noexcept nogil:
    cdef int i
    buf_text(b, b'{"results":[')
    for i in range(q.n):
        member_raw(b, b'{"id":' if i == 0 else b',{"id":', q.acks[i].id_json)
        buf_text(b, b',"outcome":"')
        buf_text(b, EPH_OUTCOMES[q.acks[i].outcome])
        buf_text(b, b'","dropped":true}' if q.acks[i].dropped else b'"}')
    buf_text(b, b'],"durable":false}')

# ---- the query of a pop ----------------------------------------------------------------------------------------------

cdef bint ephbody_pop(Slice query, Arena* a, const Settings* s, EphPopReq* q, ApiError* e) noexcept nogil:
    cdef Slice name, raw, value
    memset(q, 0, sizeof(EphPopReq))
    q.any_partition = True
    q.group = slice_lit(EPH_QUEUE_MODE)
    q.batch = 1
    q.timeout_ms = s.default_timeout_ms
    while uri_next(&query, &name, &raw):
        if not uri_decode(raw, a, True, &value):
            return refuse_as(e, b"%.*s must be valid text", <int>min(name.n, <size_t>32), name.p)
        if slice_is(name, b"queue") or slice_is(name, b"partition") or slice_is(name, b"group"):
            if not ident_name_fits(value):
                return refuse_as(e, b"%.*s must be valid text of at most 255 bytes", <int>name.n, name.p)
            if value.n == 0:
                continue
            if slice_is(name, b"queue"):
                q.queue = value
            elif slice_is(name, b"group"):
                q.group = value
            else:
                q.partition = value
                q.any_partition = False
        elif slice_is(name, b"batch"):
            if not ephbody_number(value, 1, EPH_ITEMS_MOST, &q.batch):
                return refuse(e, b"batch must be a whole number from 1 to 10000")
        elif slice_is(name, b"timeout"):
            if not ephbody_number(value, 0, EPH_TIMEOUT_MS, &q.timeout_ms):
                return refuse(e, b"timeout must be a whole number from 0 to 300000")
        elif slice_is(name, b"wait"):
            q.wait = slice_is(value, b"true") or slice_is(value, b"1")
        elif slice_is(name, b"autoAck") or slice_is(name, b"commitOnDelivery"):
            q.auto_ack = q.auto_ack or slice_is(value, b"true") or slice_is(value, b"1")
        elif slice_is(name, b"consumerGroup"):
            return refuse(e, b"consumerGroup is no parameter of ephemeral queues; group is one")
    if q.queue.n == 0:
        return refuse(e, b"queue is required")
    return True

cdef bint ephbody_number(Slice text, int low, int high, int* out) noexcept nogil:
    cdef int64_t v
    if not ident_whole(text, &v) or not low <= v <= high:
        return False
    out[0] = <int>v
    return True
