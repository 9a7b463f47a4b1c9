# Reads POST /api/v1/locks, and writes the answer. In: a body; the rows of queend.locks. Out: a list of operations, or a
# refusal; bytes. Stateless, takes no lock.

cdef const char* LOCK_BAD = b"locks_bad_request"
cdef const char* LOCK_NAMES = (b"\x02" b"op" b"\x04" b"name" b"\x05" b"owner" b"\x0a" b"ttlSeconds" b"\x05" b"limit"
                               b"\x05" b"token" b"\x04" b"slot")

cdef enum:                    # places of LOCK_NAMES
    LOCK_AT_OP
    LOCK_AT_NAME
    LOCK_AT_OWNER
    LOCK_AT_TTL
    LOCK_AT_LIMIT
    LOCK_AT_TOKEN
    LOCK_AT_SLOT
    LOCK_MEMBERS

cdef const char* LOCK_OPS[LOCK_KINDS]
LOCK_OPS = [b"acquire", b"renew", b"release", b"get"]

# Columns of locks.
cdef enum:
    LOCK_ROW_ORD = 0
    LOCK_ROW_OUTCOME
    LOCK_ROW_SLOT
    LOCK_ROW_TOKEN
    LOCK_ROW_OWNER
    LOCK_ROW_SINCE
    LOCK_ROW_EXPIRES_AT
    LOCK_ROW_RENEWED_AT

# ---- a body ----------------------------------------------------------------------------------------------------------

cdef bint lockbody_refuse(Tools* t, const char* text) noexcept nogil:
    return refuse_as(&t.error, b"%s (operation %d)", text, t.index)

cdef bint lockbody_read(Slice body, Tools* t, LockReq* q) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key
    if not json_body_object(&j, body, b"operations array required", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if member_is(key, b"operations") and json_peek(&j) == b'[':
            if seen:
                return refuse(&t.error, b"operations is given twice")
            seen = True
            if not lockbody_operations(&j, t, q):
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

cdef bint lockbody_operations(Json* j, Tools* t, LockReq* q) noexcept nogil:
    cdef bint first = True
    json_enter(j, b'[')
    while json_element(j, &first):
        t.index = q.n
        if json_peek(j) != b'{':
            if not json_skip(j, NULL):
                break
            return lockbody_refuse(t, b"Each operation must be an object")
        if q.n >= LOCK_OPS_MOST:
            return lockbody_refuse(t, b"A call has at most 64 operations")
        q.ops = <LockOp*>arena_grow(t.arena, q.ops, q.n, sizeof(LockOp), 1, &q.room)
        if q.ops == NULL:
            return refuse_memory(&t.error)
        memset(&q.ops[q.n], 0, sizeof(LockOp))
        if not lockbody_operation(j, t, q, &q.ops[q.n]):
            return False
        q.n += 1
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint lockbody_operation(Json* j, Tools* t, LockReq* q, LockOp* op) noexcept nogil:
    cdef Slice[LOCK_MEMBERS] m
    cdef bint first = True
    cdef uint8_t which = 0
    cdef Slice key, value
    cdef int64_t number
    memset(m, 0, sizeof(m))
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        if not json_skip(j, &value):
            break
        if slice_is(value, b"null"):
            continue
        if not typo_take(key, LOCK_NAMES, value, m) and typo_key(key, LOCK_NAMES, b"operation", t.index, t.arena,
                                                                 &t.error):
            return False
    if j.error != NULL:
        return json_refuse(&t.error, j)
    while which < LOCK_KINDS and (m[LOCK_AT_OP].p == NULL or not member_is(m[LOCK_AT_OP], LOCK_OPS[which])):
        which += 1
    op.kind = which
    if which == LOCK_KINDS:
        return lockbody_refuse(t, b"op must be acquire, renew, release or get")
    if not lockbody_text(m[LOCK_AT_NAME], t, &op.name) or op.name.n == 0 or memchr(op.name.p, b'#', op.name.n) != NULL:
        return lockbody_refuse(t, b"name must be a text of 1 to 256 bytes without control characters and #")
    if m[LOCK_AT_OWNER].p == NULL and op.kind == LOCK_ACQUIRE:
        op.owner = slice_of(<const char*>arena_alloc(t.arena, 36), 36)
        if op.owner.p == NULL:
            return refuse_memory(&t.error)
        lockbody_owner(t, <char*>op.owner.p)
    elif m[LOCK_AT_OWNER].p != NULL and not lockbody_text(m[LOCK_AT_OWNER], t, &op.owner):
        return lockbody_refuse(t, b"owner must be a text of at most 256 bytes without control characters")
    if op.kind <= LOCK_RENEW:
        if not ident_whole(m[LOCK_AT_TTL], &number) or not 1 <= number <= KV_TTL_MOST:
            return lockbody_refuse(t, b"ttlSeconds must be a whole number from 1 to 3153600000")
        op.ttl_us = number * 1000000
    op.limit = 1
    if m[LOCK_AT_LIMIT].p != NULL:
        if not ident_whole(m[LOCK_AT_LIMIT], &number) or not 1 <= number <= LOCK_SLOTS:
            return lockbody_refuse(t, b"limit must be a whole number from 1 to 1024")
        op.limit = <int>number
    if m[LOCK_AT_SLOT].p != NULL:
        if not ident_whole(m[LOCK_AT_SLOT], &number) or number >= LOCK_SLOTS:
            return lockbody_refuse(t, b"slot must be a whole number from 0 to 1023")
        op.slot = <int>number
    if LOCK_RENEW <= op.kind <= LOCK_RELEASE and not ident_whole(m[LOCK_AT_TOKEN], &op.token):
        return lockbody_refuse(t, b"token must be that of the permit")
    return True

cdef bint lockbody_text(Slice raw, Tools* t, Slice* out) noexcept nogil:
    # Reads a text of at most 256 bytes without control characters (U+0000 to U+001F, U+007F to U+009F).
    cdef bint half = False
    cdef size_t i
    cdef unsigned char c
    if raw.p == NULL or raw.p[0] != b'"' or not text_unescape(raw, t.arena, out, &half) or half:
        return False
    if out.n > LOCK_TEXT_MOST:
        return False
    for i in range(out.n):
        c = <unsigned char>out.p[i]
        if c < b' ' or c == 0x7f or c == 0xc2 and <unsigned char>out.p[i + 1] < 0xa0:
            return False
    return True

cdef void lockbody_owner(Tools* t, char* text) noexcept nogil:
    cdef unsigned char[16] id
    uuid_make(t.uuids, id)
    uuid_format(id, text)

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void lockbody_reply(Buf* b, LockReq* q, PGresult* res) noexcept nogil:
    cdef int i
    buf_text(b, b"{\"results\":[")
    for i in range(q.n):
        member_int(b, b"{\"index\":" if i == 0 else b",{\"index\":", i)
        buf_text(b, b",\"op\":\"")
        buf_text(b, LOCK_OPS[q.ops[i].kind])
        buf_byte(b, b'"')
        lockbody_result(b, &q.ops[i], res)
        buf_byte(b, b'}')
    buf_text(b, b"]}")

cdef void lockbody_result(Buf* b, LockOp* op, PGresult* res) noexcept nogil:
    cdef int outcome = pg_int2(res, op.row, LOCK_ROW_OUTCOME) if op.row >= 0 and op.kind != LOCK_GET else LOCK_HOLDER
    if op.kind == LOCK_GET:
        member_bool(b, b",\"held\":", op.rows > 0)
        lockbody_holders(b, res, op.row, op.rows)
        return
    buf_text(b, b",\"acquired\":" if op.kind == LOCK_ACQUIRE else b",\"renewed\":" if op.kind == LOCK_RENEW
             else b",\"released\":")
    if outcome <= LOCK_ALREADY:
        buf_text(b, b"true")
        if op.kind != LOCK_RELEASE:
            lockbody_permit(b, op, res)
        if outcome == LOCK_ALREADY:
            buf_text(b, b",\"already\":true")
        return
    buf_text(b, b"false,\"reason\":\"held\"" if outcome == LOCK_HELD
             else b"false,\"reason\":\"contended\"" if outcome == LOCK_CONTENDED else b"false,\"reason\":\"lost\"")
    if op.kind != LOCK_RELEASE:
        lockbody_holders(b, res, op.row + 1, op.rows - 1)

cdef void lockbody_permit(Buf* b, LockOp* op, PGresult* res) noexcept nogil:
    cdef int64_t token = pg_int8(res, op.row, LOCK_ROW_TOKEN)
    cdef int slot = pg_int4(res, op.row, LOCK_ROW_SLOT)
    cdef char[LOCK_TEXT_MOST + 16] key
    cdef int n = snprintf(key, sizeof(key), b"%.*s#%d", <int>op.name.n, op.name.p, slot)
    member_int(b, b",\"slot\":", slot)
    member_int(b, b",\"token\":", token)
    member_text(b, b",\"owner\":", pg_bytes(res, op.row, LOCK_ROW_OWNER))
    buf_text(b, b",\"expiresAt\":")
    text_time(b, pg_int8(res, op.row, LOCK_ROW_EXPIRES_AT), 3)
    member_text(b, b",\"guard\":{\"op\":\"check\",\"ns\":\"queen-locks\",\"key\":", slice_of(key, n))
    member_int(b, b",\"expect\":", token)
    buf_text(b, b",\"required\":true}")

cdef void lockbody_holders(Buf* b, PGresult* res, int row, int n) noexcept nogil:
    cdef Slice owner
    cdef int i
    buf_text(b, b",\"holders\":[")
    for i in range(n):
        owner = pg_bytes(res, row + i, LOCK_ROW_OWNER)
        member_int(b, b"{\"slot\":" if i == 0 else b",{\"slot\":", pg_int4(res, row + i, LOCK_ROW_SLOT))
        buf_text(b, b",\"owner\":")
        if owner.p != NULL:
            text_escape(b, owner)
        else:
            buf_text(b, b"null")
        member_int(b, b",\"token\":", pg_int8(res, row + i, LOCK_ROW_TOKEN))
        buf_text(b, b",\"since\":")
        text_time(b, pg_int8(res, row + i, LOCK_ROW_SINCE), 3)
        buf_text(b, b",\"expiresAt\":")
        text_time(b, pg_int8(res, row + i, LOCK_ROW_EXPIRES_AT), 3)
        buf_text(b, b",\"renewedAt\":")
        text_time(b, pg_int8(res, row + i, LOCK_ROW_RENEWED_AT), 3)
        buf_byte(b, b'}')
    buf_byte(b, b']')
