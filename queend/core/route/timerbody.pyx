# Reads operations on timers (POST /api/v1/timers, the member timers of a transaction), and writes their results. In: a
# body or an array; rows of a statement. Out: a list of operations, or a refusal with its code and reason; bytes.
# Payloads are unpacked and checked here, so a timer that was scheduled cannot fail by its payload when it fires.
# Stateless, takes no lock.

cdef const char* TIMER_BAD = b"timers_bad_request"
cdef const char* TIMER_NAMES = (b"\x02" b"op" b"\x05" b"queue" b"\x08" b"timerKey" b"\x07" b"payload" b"\x07" b"delayMs"
                                b"\x03" b"txn" b"\x09" b"partition" b"\x0b" b"payloadZstd")

cdef enum:                    # places of TIMER_NAMES
    TIMER_AT_OP
    TIMER_AT_QUEUE
    TIMER_AT_KEY
    TIMER_AT_PAYLOAD
    TIMER_AT_DELAY
    TIMER_AT_TXN
    TIMER_AT_PARTITION
    TIMER_AT_ZSTD
    TIMER_MEMBERS

# Members that the server sets. In these names `_` and case do not count.
cdef enum:
    TIMER_OWNED_MOST = 9
cdef const char* TIMER_OWNED[TIMER_OWNED_MOST]
TIMER_OWNED = [b"producerSub", b"messageId", b"tenant", b"tenantId", b"deliverAt", b"delaySeconds", b"attempts",
               b"claimToken", b"claimedUntil"]

# ---- refusals --------------------------------------------------------------------------------------------------------

cdef bint timerbody_refuse(TimerReq* q, Tools* t, const char* reason, const char* text) noexcept nogil:
    # Refuses the operation that is read. Returns False.
    q.code = TIMER_BAD
    q.reason = reason
    return refuse_as(&t.error, b"%s (operation %d)", text, t.index)

cdef bint timerbody_status(TimerReq* q, Tools* t, int status, const char* code, const char* text) noexcept nogil:
    # Refuses the operation that is read, with another status and code.
    timerbody_refuse(q, t, NULL, text)
    q.code = code
    t.error.status = status
    return False

# ---- a body ----------------------------------------------------------------------------------------------------------

cdef bint timerbody_read(Slice body, Tools* t, TimerReq* q) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key
    memset(q, 0, sizeof(TimerReq))
    q.code = TIMER_BAD
    if not json_body_object(&j, body, b"operations array required", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if member_is(key, b"operations") and json_peek(&j) == b'[':
            if seen:
                return refuse(&t.error, b"operations is given twice")
            seen = True
            if not timerbody_operations(&j, t, q):
                return False
        elif not json_skip(&j, NULL):
            break
        elif typo_key(key, KV_BODY_NAMES, b"body", -1, t.arena, &t.error):
            return False
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    if not seen:
        return refuse(&t.error, b"operations array required")
    return q.n > 0 or refuse(&t.error, b"operations array cannot be empty")

cdef bint timerbody_operations(Json* j, Tools* t, TimerReq* q) noexcept nogil:
    cdef bint first = True
    json_enter(j, b'[')
    while json_element(j, &first):
        t.index = q.n
        if json_peek(j) != b'{':
            if not json_skip(j, NULL):
                break
            return timerbody_refuse(q, t, NULL, b"Each operation must be an object")
        if q.n >= TIMER_OPS_MOST:
            return timerbody_refuse(q, t, b"timers_too_many_ops", b"A call has at most 256 operations")
        q.ops = <TimerOp*>arena_grow(t.arena, q.ops, q.n, sizeof(TimerOp), 1, &q.room)
        if q.ops == NULL:
            return refuse_memory(&t.error)
        memset(&q.ops[q.n], 0, sizeof(TimerOp))
        if not timerbody_operation(j, t, q, &q.ops[q.n]):
            return False
        q.n += 1
    if j.error != NULL:
        return json_refuse(&t.error, j)
    return timerbody_once(t, q)

cdef bint timerbody_operation(Json* j, Tools* t, TimerReq* q, TimerOp* op) noexcept nogil:
    cdef Slice[TIMER_MEMBERS] m
    cdef bint first = True
    cdef Slice key, value
    memset(m, 0, sizeof(m))
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        if not json_skip(j, &value):
            break
        if timerbody_owned(key):
            return timerbody_refuse(q, t, b"timers_server_owned_field", b"The server sets this member itself: leave "
                                    b"out producerSub, messageId, tenant, tenantId, deliverAt, delaySeconds, "
                                    b"attempts, claimToken, claimedUntil and names with _ in front")
        if slice_is(value, b"null"):
            continue
        if not typo_take(key, TIMER_NAMES, value, m) and typo_key(key, TIMER_NAMES, b"operation", t.index, t.arena,
                                                                  &t.error):
            return False
    if j.error != NULL:
        return json_refuse(&t.error, j)
    op.row = -1
    if m[TIMER_AT_OP].p == NULL:
        return timerbody_refuse(q, t, b"timers_unknown_op", b"op must be schedule, reschedule or cancel")
    op.again = member_is(m[TIMER_AT_OP], b"reschedule")
    op.kind = TIMER_CANCEL if member_is(m[TIMER_AT_OP], b"cancel") else TIMER_SCHEDULE
    if op.kind == TIMER_SCHEDULE and not op.again and not member_is(m[TIMER_AT_OP], b"schedule"):
        return timerbody_refuse(q, t, b"timers_unknown_op", b"op must be schedule, reschedule or cancel")
    if not timerbody_name(m[TIMER_AT_QUEUE], t, &op.queue) or op.queue.n == 0:
        return timerbody_refuse(q, t, b"timers_bad_queue", b"queue must be a non-empty text of at most 255 bytes")
    if not timerbody_key(m[TIMER_AT_KEY], t, &op.key):
        return timerbody_refuse(q, t, b"timers_bad_key", b"timerKey must be valid text of 1 to 512 bytes")
    if m[TIMER_AT_TXN].p != NULL and not timerbody_txn(m[TIMER_AT_TXN], t, &op.txn):
        return timerbody_refuse(q, t, b"timers_bad_txn", b"txn must be valid text of 1 to 255 characters")
    return op.kind == TIMER_CANCEL or timerbody_schedule(m, t, q, op)

cdef bint timerbody_owned(Slice key) noexcept nogil:
    # Returns True if the server sets this member itself. The key has its quotes.
    cdef Slice name = slice_of(key.p + 1, key.n - 2)
    cdef int i
    if name.n and name.p[0] == b'_':
        return True
    for i in range(TIMER_OWNED_MOST):
        if typo_same(name, slice_lit(TIMER_OWNED[i])):
            return True
    return False

cdef bint timerbody_name(Slice raw, Tools* t, Slice* out) noexcept nogil:
    return raw.p != NULL and raw.p[0] == b'"' and ident_name(raw, t.arena, out)

cdef bint timerbody_key(Slice raw, Tools* t, Slice* out) noexcept nogil:
    cdef bint half = False
    if raw.p == NULL or raw.p[0] != b'"' or not text_unescape(raw, t.arena, out, &half) or half:
        return False
    return 0 < out.n <= TIMER_KEY_MOST and memchr(out.p, 0, out.n) == NULL

cdef bint timerbody_txn(Slice raw, Tools* t, Slice* out) noexcept nogil:
    cdef bint half = False
    if raw.p[0] != b'"' or not text_unescape(raw, t.arena, out, &half) or half:
        return False
    return out.n > 0 and ident_txid_fits(out[0])

cdef bint timerbody_schedule(Slice* m, Tools* t, TimerReq* q, TimerOp* op) noexcept nogil:
    # Reads what a schedule has besides its names.
    cdef unsigned char[16] id
    cdef int64_t ms = 0
    op.part = slice_lit(b"Default")
    if m[TIMER_AT_PARTITION].p != NULL and not timerbody_name(m[TIMER_AT_PARTITION], t, &op.part):
        return timerbody_refuse(q, t, b"timers_bad_partition", b"partition must be valid text of at most 255 bytes")
    if not timerbody_delay(m[TIMER_AT_DELAY], &ms):
        return timerbody_refuse(q, t, b"timers_bad_delay", b"delayMs must be a whole number of at most 18 digits")
    if ms > DELAY_DAYS * <int64_t>86400000:
        return timerbody_status(q, t, 403, b"timer_horizon_exceeded", b"delayMs is at most 31622400000, which are 366 "
                                b"days")
    op.delay_us = ms * 1000
    if op.txn.p == NULL:
        op.txn = slice_of(<const char*>arena_alloc(t.arena, 36), 36)
        if op.txn.p == NULL:
            return refuse_memory(&t.error)
        uuid_make(t.uuids, id)
        uuid_format(id, <char*>op.txn.p)
    return timerbody_payload(m, t, q, op)

cdef bint timerbody_delay(Slice raw, int64_t* ms) noexcept nogil:
    # Reads the delay. A negative one counts as 0.
    if raw.p == NULL:
        return False
    if raw.p[0] == b'-':
        if not ident_whole(slice_from(raw, 1), ms):
            return False
        ms[0] = 0
        return True
    return ident_whole(raw, ms)

cdef bint timerbody_payload(Slice* m, Tools* t, TimerReq* q, TimerOp* op) noexcept nogil:
    # Decodes and unpacks the payload, and checks that it is one JSON document.
    cdef Json j
    cdef Slice text
    cdef bint packed, half
    cdef int result
    if m[TIMER_AT_PAYLOAD].p == NULL or m[TIMER_AT_PAYLOAD].p[0] != b'"':
        return timerbody_refuse(q, t, b"timers_bad_payload", b"payload must be the JSON document in base64")
    if not text_unescape(m[TIMER_AT_PAYLOAD], t.arena, &text, &half):
        return refuse_memory(&t.error)
    if not kvbody_truth(m[TIMER_AT_ZSTD], &packed):
        return timerbody_refuse(q, t, NULL, b"payloadZstd must be true or false")
    if text.n == 0 or not eventform_base64(text):
        return timerbody_refuse(q, t, b"timers_bad_payload", b"payload must be the JSON document in base64")
    if text.n // 4 * 3 > TIMER_PAYLOAD_MOST + 2:
        return timerbody_large(q, t)
    if not timerbody_decode(text, t, &op.payload):
        return refuse_memory(&t.error)
    if packed:
        result = unzip_frame(t.unzip, op.payload, unzip_room(t.unzip, TIMER_PAYLOAD_MOST), t.arena, &op.payload)
        if result == UNZIP_MEMORY:
            return refuse_memory(&t.error)
        if result == UNZIP_LARGE and t.unzip.on_loop:
            t.error.status = REFUSED_HERE
            return False
        if result == UNZIP_BAD:
            return timerbody_refuse(q, t, b"timers_bad_payload",
                                    b"payload must be exactly one zstd frame that tells its size, in base64")
        if result == UNZIP_LARGE:
            return timerbody_large(q, t)
    q.unpacked += op.payload.n
    if op.payload.n > TIMER_PAYLOAD_MOST or q.unpacked > TIMER_UNPACKED_MOST:
        return timerbody_large(q, t)
    if t.unzip.on_loop and q.unpacked > UNZIP_ON_LOOP:
        t.error.status = REFUSED_HERE
        return False
    json_open(&j, op.payload, JSON_DEPTH)
    json_padded(&j)
    if not json_skip(&j, &op.payload) or not json_end(&j):
        return timerbody_refuse(q, t, b"timers_bad_payload", b"payload must be the JSON document in base64")
    return True

cdef bint timerbody_large(TimerReq* q, Tools* t) noexcept nogil:
    return timerbody_status(q, t, 413, b"payload_too_large",
                            b"A payload has at most 1048576 bytes, and those of a call 67108864")

cdef bint timerbody_decode(Slice text, Tools* t, Slice* out) noexcept nogil:
    # Decodes base64 that was checked. JSONWALK_ROOM bytes behind the result are readable.
    cdef size_t n = text.n // 4 * 3
    cdef char* room = <char*>arena_alloc(t.arena, n + JSONWALK_ROOM)
    if room == NULL or EVP_DecodeBlock(<unsigned char*>room, <const unsigned char*>text.p, <int>text.n) < 0:
        return False
    memset(room + n, 0, JSONWALK_ROOM)
    n -= text.p[text.n - 1] == b'='
    n -= text.p[text.n - 2] == b'='
    out[0] = slice_of(room, n)
    return True

# ---- each timer once -------------------------------------------------------------------------------------------------

cdef inline uint64_t timerbody_hash(const TimerOp* op) noexcept nogil:
    cdef uint64_t h = slice_hash(op.key, slice_hash(op.queue, hash_seed))
    return h if h else 1

cdef bint timerbody_once(Tools* t, TimerReq* q) noexcept nogil:
    # Refuses a request that names a timer twice.
    cdef Table seen
    cdef TimerOp* other
    cdef bint good = True
    cdef int i
    if q.n < 2:
        return True
    table_init(&seen)
    for i in range(q.n):
        other = <TimerOp*>table_get(&seen, timerbody_hash(&q.ops[i]))
        if other != NULL and slice_eq(other.key, q.ops[i].key) and slice_eq(other.queue, q.ops[i].queue):
            t.index = i
            good = timerbody_refuse(q, t, b"timers_duplicate_key_in_call", b"A call names each timer once")
            break
        if not table_put(&seen, timerbody_hash(&q.ops[i]), &q.ops[i]):
            good = refuse_memory(&t.error)
            break
    table_free(&seen)
    return good

# ---- the answer ------------------------------------------------------------------------------------------------------

# Places of the columns in the answer of timers_write, and in that of transaction_bundle.
cdef int[TIMER_COLUMNS] TIMER_OWN
TIMER_OWN = [0, 1, 2, 3, 4]
cdef int[TIMER_COLUMNS] TIMER_RIDING
TIMER_RIDING = [TX_ORD, TX_STATUS, TX_BASE, TX_CODES, TX_SEEN]

cdef const char* TIMER_STATUS[5]
TIMER_STATUS = [b"scheduled", b"rescheduled", b"cancelled", b"absent", b"too_late"]

cdef void timerbody_reply(Buf* b, TimerReq* q) noexcept nogil:
    cdef int i
    buf_text(b, b"{\"results\":[")
    for i in range(q.n):
        member_int(b, b"{\"index\":" if i == 0 else b",{\"index\":", i)
        timerbody_result(b, &q.ops[i], q)
        buf_byte(b, b'}')
    buf_text(b, b"]}")

cdef void timerbody_result(Buf* b, TimerOp* op, TimerReq* q) noexcept nogil:
    # Writes the members of a result, after its opening brace and index. If the answer of the statement was lost and it
    # has taken effect, a schedule counts as new, and a cancellation has no status.
    cdef bint known = q.res != NULL and op.row >= 0
    cdef int outcome = TIMER_SCHEDULED if op.kind == TIMER_SCHEDULE else TIMER_UNKNOWN
    cdef Slice txn = op.txn
    cdef Slice id = slice_of(NULL, 0)
    if known:
        outcome = pg_int2(q.res, op.row, q.columns[TIMER_ROW_OUTCOME])
        id = pg_bytes(q.res, op.row, q.columns[TIMER_ROW_ID])
        if txn.p == NULL:
            txn = pg_bytes(q.res, op.row, q.columns[TIMER_ROW_TXN])
    buf_text(b, b",\"op\":\"")
    buf_text(b, b"cancel" if op.kind == TIMER_CANCEL else b"reschedule" if op.again else b"schedule")
    buf_text(b, b"\",\"ok\":")
    if outcome == TIMER_UNKNOWN:
        buf_text(b, b"null,\"status\":null")
    else:
        buf_text(b, b"true,\"status\":\"" if outcome <= TIMER_CANCELLED else b"false,\"status\":\"")
        buf_text(b, TIMER_STATUS[outcome])
        buf_byte(b, b'"')
    member_text(b, b",\"queue\":", op.queue)
    member_text(b, b",\"timerKey\":", op.key)
    buf_text(b, b",\"txn\":")
    if txn.p != NULL:
        text_escape(b, txn)
    else:
        buf_text(b, b"null")
    if id.n == 16:
        member_uuid(b, b",\"messageId\":", <const unsigned char*>id.p)
        buf_text(b, b",\"deliverAt\":")
        text_time(b, pg_int8(q.res, op.row, q.columns[TIMER_ROW_DUE]), 3)
    else:
        buf_text(b, b",\"messageId\":null,\"deliverAt\":null")

cdef void timerbody_riding(Buf* b, TimerReq* q, int before, bint first) noexcept nogil:
    # Writes the results of a transaction's operations on timers, behind those of `before` operations.
    cdef int i
    for i in range(q.n):
        if i or not first:
            buf_byte(b, b',')
        member_int(b, b"{\"index\":", before + i)
        member_int(b, b",\"type\":\"timer\",\"opIndex\":", i)
        timerbody_result(b, &q.ops[i], q)
        buf_byte(b, b'}')
