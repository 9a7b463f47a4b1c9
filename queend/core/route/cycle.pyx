# Reads POST /streams/v1/cycle, a step of a stream (docs/streams.md), and writes its answer. In: the body, for one query
# and one partition. Out: state changes, messages to push, the acknowledgment of what was read. A malformed request is
# refused. A cycle that the clients' protocol answers as failed is kept in CycleReq.failed.

cdef enum:
    CYCLE_OPS = 100000
    CYCLE_ITEMS = 10000
    CYCLE_KEY = 2048
    CYCLE_VALUE = 1048576
    CYCLE_TXID = 1020         # bytes of a transactionId
    CYCLE_REASON = 65536      # bytes of why the cycle failed

cdef bint cycle_bad(ApiError* e, const char* part, int place, const char* name, const char* text) noexcept nogil:
    # Refuses a part: `push_items[3].queue is required`. part NULL: the whole; place -1: the part is not a list. Returns
    # False.
    e.status = 400
    if part == NULL:
        snprintf(e.text, 239, b"%s %s", name, text)
    elif place < 0:
        snprintf(e.text, 239, b"%s.%s %s", part, name, text)
    else:
        snprintf(e.text, 239, b"%s[%d].%s %s", part, place, name, text)
    return False

cdef bint cycle_no_json(CycleReq* q, Json* j, ApiError* e) noexcept nogil:
    q.code = b"invalid_json"
    return refuse_json(e, j)

cdef bint cycle_many(CycleReq* q, const char* name, int most, ApiError* e) noexcept nogil:
    q.code = b"too_many"
    return refuse_as(e, b"%s has more than %d elements", name, most)

cdef bint cycle_stray(CycleReq* q, Slice key, const char* names, const char* part, int place, Arena* a,
                      ApiError* e) noexcept nogil:
    # Judges an unknown key. Returns True if it was refused.
    if not key_stray(key, names, part, place, a, e):
        return False
    q.code = b"unknown_name"
    return True

cdef bint cycle_text(Slice raw, Arena* a, size_t least, size_t most, const char* part, int place, const char* name,
                     Slice* out, ApiError* e) noexcept nogil:
    # Reads a text, p NULL if it is absent or null. Returns False if it is no text, too short, too long, or has a NUL.
    cdef bint half = False
    cdef char[80] text
    out[0] = slice_of(NULL, 0)
    if raw.p == NULL or slice_is(raw, b"null"):
        return True
    if (raw.p[0] == b'"' and json_unescape(raw, a, out, &half) and not half and least <= out.n <= most
            and memchr(out.p, 0, out.n) == NULL):
        return True
    snprintf(text, sizeof(text), b"must be a text of %s%d bytes without NUL", b"1 to " if least else b"at most ",
             <int>most)
    return cycle_bad(e, part, place, name, text)

cdef void cycle_fails(CycleReq* q, Arena* a, const char* text, Slice what) noexcept nogil:
    # Marks a well-formed cycle as failed; the first reason counts.
    cdef size_t n = strlen(text)
    cdef char* out
    if q.failed.p != NULL:
        return
    if what.n > 200:
        what.n = 200
        while <unsigned char>what.p[what.n] & 0xc0 == 0x80:      # cut in front of a character
            what.n -= 1
    out = <char*>arena_alloc(a, n + what.n)
    if out == NULL:
        q.failed = slice_lit(b"Out of memory")
        return
    memcpy(out, text, n)
    if what.n:
        memcpy(out + n, what.p, what.n)
    q.failed = slice_of(out, n + what.n)

cdef bint cycle_parse(Slice body, Arena* a, UuidGen* g, CycleReq* q, ApiError* e) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef Slice group = slice_of(NULL, 0)
    cdef Slice ack = slice_of(NULL, 0)
    cdef Slice release = slice_of(NULL, 0)
    cdef int c
    memset(q, 0, sizeof(CycleReq))
    q.code = b"invalid_request"
    if not body_open(&j, body, e):
        q.code = b"empty_body"
        return False
    if json_peek(&j) != b'{':
        if not json_skip(&j, NULL) or not json_end(&j):
            return cycle_no_json(q, &j, e)
        return refuse(e, b"request body must be a JSON object")
    json_enter(&j, b'{')
    while member_next(&j, &first, a, &key):
        c = json_peek(&j)
        if key_is(key, b"state_ops") and c != b'n':
            if not cycle_ops(&j, a, q, e):
                return False
            continue
        if key_is(key, b"push_items") and c != b'n':
            if not cycle_items(&j, a, g, q, e):
                return False
            continue
        if not json_skip(&j, &value):
            break
        if key_is(key, b"query_id"):
            q.query_json = value
        elif key_is(key, b"partition_id"):
            q.partition_json = value
        elif key_is(key, b"consumer_group"):
            group = value
        elif key_is(key, b"release_lease"):
            release = value
        elif key_is(key, b"ack"):
            ack = value
        elif cycle_stray(q, key, CYCLE_NAMES, b"body", -1, a, e):
            return False
    if j.error != NULL or not json_end(&j):
        return cycle_no_json(q, &j, e)
    return cycle_ids(q, a, e) and cycle_rest(q, a, group, release, ack, e)

cdef bint cycle_ids(CycleReq* q, Arena* a, ApiError* e) noexcept nogil:
    cdef Slice text
    if q.query_json.p == NULL or q.query_json.p[0] != b'"' or q.query_json.n == 2:
        return cycle_bad(e, NULL, 0, b"query_id", b"is required")
    if q.partition_json.p == NULL or q.partition_json.p[0] != b'"' or q.partition_json.n == 2:
        return cycle_bad(e, NULL, 0, b"partition_id", b"is required")
    if not cycle_text(q.query_json, a, 0, NAME_MAX, NULL, 0, b"query_id", &text, e):
        return False
    q.has_query = uuid_parse(text, q.query, NULL)
    if not q.has_query:
        cycle_quote(q, a, text)
    return cycle_text(q.partition_json, a, 0, NAME_MAX, NULL, 0, b"partition_id", &q.partition, e)

cdef void cycle_quote(CycleReq* q, Arena* a, Slice text) noexcept nogil:
    # Marks the cycle as failed: query_id is no UUID. Uses the words of the control plane's state route
    # (control/streams).
    cdef char* out = <char*>arena_alloc(a, text.n + 1)
    if out == NULL:
        q.failed = slice_lit(b"Out of memory")
        return
    memcpy(out, text.p, text.n)
    out[text.n] = b'"'
    q.failed = slice_of(NULL, 0)
    cycle_fails(q, a, b"query_id is no UUID: \"", slice_of(out, text.n + 1))

cdef bint cycle_rest(CycleReq* q, Arena* a, Slice group, Slice release, Slice ack, ApiError* e) noexcept nogil:
    if not cycle_text(group, a, 0, NAME_MAX, NULL, 0, b"consumer_group", &q.group, e):
        return False
    if q.group.n == 0:
        q.group = slice_lit(b"__QUEUE_MODE__")
    if release.p != NULL and not (release.p[0] == b't' or release.p[0] == b'f' or release.p[0] == b'n'):
        return cycle_bad(e, NULL, 0, b"release_lease", b"must be true or false")
    q.keeps = release.p != NULL and release.p[0] == b'f'
    return ack.p == NULL or slice_is(ack, b"null") or cycle_ack(ack, a, q, e)

# ---- the acknowledgment --------------------------------------------------------------------------------------------

cdef bint cycle_ack(Slice raw, Arena* a, CycleReq* q, ApiError* e) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef Slice none = slice_of(NULL, 0)
    cdef Slice txid = none
    cdef Slice lease = none
    cdef Slice status = none
    cdef Slice count = none
    cdef Slice error = none
    cdef uint8_t kind, keep
    if raw.p[0] != b'{':
        return cycle_bad(e, NULL, 0, b"ack", b"must be an object or null")
    json_open(&j, raw, JSON_DEPTH)
    json_enter(&j, b'{')
    while member_next(&j, &first, a, &key):
        if not json_skip(&j, &value):
            break
        if key_is(key, b"transactionId"):
            txid = value
        elif key_is(key, b"leaseId"):
            lease = value
        elif key_is(key, b"status"):
            status = value
        elif key_is(key, b"count"):
            count = value
        elif key_is(key, b"error"):
            error = value
        elif cycle_stray(q, key, CYCLE_ACK_NAMES, b"ack", -1, a, e):
            return False
    if (not cycle_text(txid, a, 0, CYCLE_TXID, b"ack", -1, b"transactionId", &txid, e)
            or not cycle_text(lease, a, 0, NAME_MAX, b"ack", -1, b"leaseId", &lease, e)
            or not cycle_text(status, a, 0, NAME_MAX, b"ack", -1, b"status", &status, e)
            or not cycle_reason(error, a, q, e)):
        return False
    q.has_ack = True
    q.dead = slice_is(status, b"failed") or slice_is(status, b"dlq")
    q.has_lease = lease.n != 0
    q.count = cycle_count(count)
    if q.error.n == 0:
        q.error = slice_lit(b"Streaming cycle reported failure")
    if txid.n == 0:
        cycle_fails(q, a, b"ack.transactionId is required", none)
        return True
    record_id(txid, q.ack, &kind, &keep)
    if status.n and not (q.dead or slice_is(status, b"completed") or slice_is(status, b"success")):
        cycle_fails(q, a, b"Unknown ack.status: ", status)
    elif q.has_lease and not uuid_parse(lease, q.lease, NULL):
        cycle_fails(q, a, b"Invalid or expired lease", none)
    return True

cdef bint cycle_reason(Slice raw, Arena* a, CycleReq* q, ApiError* e) noexcept nogil:
    # Takes why the cycle failed: a text, or any other JSON as it is spelled.
    if raw.p == NULL or raw.p[0] == b'"' or raw.p[0] == b'n':
        return cycle_text(raw, a, 0, CYCLE_REASON, b"ack", -1, b"error", &q.error, e)
    if raw.n > CYCLE_REASON or not utf8_valid(raw):
        return cycle_bad(e, b"ack", -1, b"error", b"must be at most 65536 bytes")
    q.error = raw
    return True

cdef int cycle_count(Slice raw) noexcept nogil:
    # Returns a whole number from 0; anything else counts as 1.
    cdef int64_t n
    return <int>n if whole_take(raw, &n) and n <= 0x7fffffff else 1

# ---- the answer ----------------------------------------------------------------------------------------------------

cdef void cycle_reply(Buf* b, CycleReq* q, Slice queue, Slice error) noexcept nogil:
    # Writes the answer. queue: of the source partition, p NULL: unknown. error: why nothing was done, p NULL: success.
    cdef bint done = error.p == NULL
    member_bool(b, b"{\"success\":", done)
    member_raw(b, b",\"query_id\":", q.query_json)
    member_raw(b, b",\"partition_id\":", q.partition_json)
    buf_text(b, b",\"queueName\":")
    if queue.p != NULL:
        json_escape(b, queue)
    else:
        buf_text(b, b"null")
    member_int(b, b",\"state_ops_applied\":", q.n if done and not q.gone else 0)
    buf_text(b, b",\"push_results\":")
    if done and not q.gone:
        push_reply_items(b, &q.push, q.push.n)
    else:
        buf_text(b, b"[]")
    buf_text(b, b",\"ack_result\":")
    if q.has_ack and done:
        member_int(b, b"{\"success\":true,\"count\":", 0 if q.dead else q.count)
        member_bool(b, b",\"lease_released\":", not q.keeps and not q.dead)
        member_bool(b, b",\"dlq\":", q.dead)
        buf_byte(b, b'}')
    else:
        buf_text(b, b"null")
    if not done:
        member_text(b, b",\"error\":", error)
    buf_byte(b, b'}')
