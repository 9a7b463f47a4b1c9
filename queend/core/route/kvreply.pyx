# Writes results of operations on keys and values. In: a request, and the rows of its statement. Out: bytes. Stateless,
# takes no lock.

# Places of the columns in the answers of kv_get, kv_write and kv_bundle, and in that of transaction_bundle.
cdef int[KV_COLUMNS] KV_OWN
KV_OWN = [0, 1, 2, 3, 4, 5, 6]
cdef int[KV_COLUMNS] KV_RIDING
KV_RIDING = [TX_ORD, TX_STATUS, TX_BASE, TX_COMMITTED, TX_CREATED_AT, TX_CODES, -1]

cdef const char* KV_REASONS[6]
KV_REASONS = [b"", b"exists", b"absent", b"version", b"limit", b"type"]

cdef const char* kvreply_kind(const KvOp* op) noexcept nogil:
    if op.kind == KV_GET:
        return b"getMany" if op.many else b"get"
    if op.kind == KV_PUT:
        return b"putIfAbsent" if op.absent else b"put"
    if op.kind == KV_DELETE:
        return b"delete"
    if op.kind == KV_INCR:
        return b"incr"
    return b"check" if op.kind == KV_CHECK else b"getPrefix"

cdef void kvreply_moment(Buf* b, const char* name, KvReq* q, int row, int column) noexcept nogil:
    cdef int64_t us = pg_int8_or(q.res, row, q.columns[column], INT64_MAX)
    buf_text(b, name)
    if us == INT64_MAX:
        buf_text(b, b"null")
    else:
        text_time(b, us, 3)

cdef void kvreply_value(Buf* b, KvReq* q, int row) noexcept nogil:
    cdef Slice value = pg_bytes(q.res, row, q.columns[KV_ROW_VALUE])
    buf_text(b, b",\"value\":")
    if value.p != NULL:
        buf_slice(b, value)
    else:
        buf_text(b, b"null")

cdef void kvreply_row(Buf* b, Slice key, KvReq* q, int row, bint valued) noexcept nogil:
    # Writes the members of a live row: "key":…,"value":…,"version":…,"expiresAt":…,"updatedAt":…
    member_text(b, b"\"key\":", key)
    if valued:
        kvreply_value(b, q, row)
    member_int(b, b",\"version\":", pg_int8(q.res, row, q.columns[KV_ROW_VERSION]))
    kvreply_moment(b, b",\"expiresAt\":", q, row, KV_ROW_EXPIRES_AT)
    kvreply_moment(b, b",\"updatedAt\":", q, row, KV_ROW_UPDATED_AT)

cdef void kvreply_get(Buf* b, KvOp* op, KvReq* q) noexcept nogil:
    if op.row < 0 or pg_int2(q.res, op.row, q.columns[KV_ROW_OUTCOME]) != KV_DONE:
        member_text(b, b",\"found\":false,\"key\":", op.key)
        return
    buf_text(b, b",\"found\":true,")
    kvreply_row(b, op.key, q, op.row, True)

cdef void kvreply_many(Buf* b, KvOp* ops, int n, KvReq* q) noexcept nogil:
    # Writes the rows that were found, and the keys that were not. Keys beyond KV_READ_MOST bytes are in neither list.
    cdef int64_t bytes = 0
    cdef bint more = False
    cdef bint first = True
    cdef int i
    buf_text(b, b",\"rows\":[")
    for i in range(n):
        if ops[i].row < 0 or pg_int2(q.res, ops[i].row, q.columns[KV_ROW_OUTCOME]) != KV_DONE:
            ops[i].rows = 0
            continue
        bytes += PQgetlength(q.res, ops[i].row, q.columns[KV_ROW_VALUE])
        if more or (bytes > KV_READ_MOST and not first):
            more = True
            continue
        buf_text(b, b"{" if first else b",{")
        first = False
        kvreply_row(b, ops[i].key, q, ops[i].row, True)
        buf_byte(b, b'}')
    buf_text(b, b"],\"missing\":[")
    first = True
    for i in range(n):
        if ops[i].rows == 0:
            if not first:
                buf_byte(b, b',')
            first = False
            text_escape(b, ops[i].key)
    member_bool(b, b"],\"truncated\":", more)

cdef void kvreply_list(Buf* b, KvOp* op, KvReq* q) noexcept nogil:
    cdef bint more = False
    cdef int last = -1
    cdef int row
    buf_text(b, b",\"rows\":[")
    for row in range(op.row, op.row + op.rows):
        more = pg_int2(q.res, row, q.columns[KV_ROW_OUTCOME]) == KV_MORE
        if more:
            break
        buf_text(b, b"{" if last < 0 else b",{")
        kvreply_row(b, pg_bytes(q.res, row, q.columns[KV_ROW_KEY]), q, row, op.kind == KV_LIST)
        buf_byte(b, b'}')
        last = row
    member_bool(b, b"],\"truncated\":", more)
    buf_text(b, b",\"nextAfter\":")
    if more:
        text_escape(b, pg_bytes(q.res, last, q.columns[KV_ROW_KEY]))
    else:
        buf_text(b, b"null")

cdef void kvreply_write(Buf* b, KvOp* op, KvReq* q) noexcept nogil:
    cdef int outcome = pg_int2(q.res, op.row, q.columns[KV_ROW_OUTCOME])
    member_bool(b, b",\"applied\":", outcome == KV_DONE)
    if outcome != KV_DONE:
        buf_text(b, b",\"reason\":\"")
        buf_text(b, KV_REASONS[outcome])
        buf_byte(b, b'"')
    member_text(b, b",\"key\":", op.key)
    if op.kind == KV_PUT and outcome == KV_DONE:
        member_raw(b, b",\"value\":", op.value)
    elif op.kind != KV_DELETE or outcome != KV_DONE:
        kvreply_value(b, q, op.row)
    member_int(b, b",\"version\":", pg_int8(q.res, op.row, q.columns[KV_ROW_VERSION]))
    if op.kind != KV_DELETE:
        kvreply_moment(b, b",\"expiresAt\":", q, op.row, KV_ROW_EXPIRES_AT)

cdef void kvreply_unknown(Buf* b, KvOp* op) noexcept nogil:
    # Writes the result of an operation of a transaction whose answer was lost, and which has taken effect.
    member_text(b, b",\"key\":", op.key)
    buf_text(b, b",\"applied\":true" if op.required else b",\"applied\":null")

cdef int kvreply_element(Buf* b, KvOp* ops, int n, KvReq* q) noexcept nogil:
    # Writes the members of the first operation's result, after its opening brace and index. Returns how many of the n
    # operations it was: the keys of a getMany are one.
    cdef int k = 1
    buf_text(b, b",\"op\":\"")
    buf_text(b, kvreply_kind(ops))
    buf_byte(b, b'"')
    while ops.many and k < n and ops[k].at == ops.at:
        k += 1
    if q.res == NULL:
        kvreply_unknown(b, ops)
    elif ops.many:
        kvreply_many(b, ops, k, q)
    elif ops.kind == KV_GET:
        kvreply_get(b, ops, q)
    elif ops.kind >= KV_LIST:
        kvreply_list(b, ops, q)
    else:
        kvreply_write(b, ops, q)
    return k

cdef void kvreply_results(Buf* b, KvReq* q) noexcept nogil:
    cdef int i = 0
    buf_text(b, b"{\"results\":[")
    while i < q.n:
        member_int(b, b"{\"index\":" if i == 0 else b",{\"index\":", q.ops[i].at)
        i += kvreply_element(b, &q.ops[i], q.n - i, q)
        buf_byte(b, b'}')
    buf_text(b, b"]}")

# ---- the key of a path -----------------------------------------------------------------------------------------------

cdef int kvreply_tag(const KvReq* q, char* lines, size_t room) noexcept nogil:
    # Writes the header line with the version that a key has now, if it has one. Returns the status: 404 if a key that
    # was to be read is absent.
    cdef const KvOp* op = q.ops
    cdef bint found = op.row >= 0
    cdef int outcome = pg_int2(q.res, op.row, q.columns[KV_ROW_OUTCOME]) if found else <int>KV_ABSENT
    cdef int64_t version = pg_int8(q.res, op.row, q.columns[KV_ROW_VERSION]) if found else 0
    lines[0] = 0
    if version and not (op.kind == KV_DELETE and outcome == KV_DONE):
        snprintf(lines, room, b"ETag: \"%lld\"\r\n", <long long>version)
    return 404 if op.kind == KV_GET and outcome != KV_DONE else 200

cdef void kvreply_one(Buf* b, KvReq* q, int status) noexcept nogil:
    buf_text(b, b"{\"index\":0")
    kvreply_element(b, q.ops, 1, q)
    buf_text(b, b"}" if status == 200 else b",\"error\":\"Key not found\"}")

cdef void kvreply_precondition(Buf* b, KvLost* lost) noexcept nogil:
    # Writes the members that say which condition was lost.
    buf_text(b, b"\"kvReason\":\"")
    buf_text(b, KV_REASONS[lost.outcome])
    member_int(b, b"\",\"version\":", lost.version)
    buf_text(b, b",\"value\":")
    if lost.value.p != NULL:
        buf_slice(b, lost.value)
    else:
        buf_text(b, b"null")

cdef void kvreply_lost(Buf* b, KvReq* q) noexcept nogil:
    member_int(b, b"{\"ok\":false,\"reason\":\"kv_precondition\",\"failedIndex\":", q.lost.at)
    buf_byte(b, b',')
    kvreply_precondition(b, &q.lost)
    buf_byte(b, b'}')
