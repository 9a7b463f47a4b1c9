# Request log lines for the commands of a WebSocket: the command, the status of its answer, its ids. Error text,
# payload and ref are left out. In: an answered request. Out: a line.

cdef enum:
    COMMAND_SHORT = 80        # bytes of any id except a transactionId, whose length the client chooses

cdef const char* COMMAND_MEMBERS[5]       # members of an acknowledgment
cdef const char* COMMAND_NAMES[5]         # their names in the line
COMMAND_MEMBERS = [b"transactionId", b"partitionId", b"leaseId", b"windowId", b"status"]
COMMAND_NAMES = [b"transaction", b"partition", b"lease", b"window", b"verdict"]

cdef size_t commandlog_id(char* out, const char* name, Slice literal, size_t most) noexcept nogil:
    # Writes a member if the literal is a string: as it was sent, without its quotes. Returns the bytes written.
    cdef size_t at
    if literal.p == NULL or literal.n < 2 or literal.p[0] != b'"':
        return 0
    at = <size_t>snprintf(out, 24, b',"%s":"', name)
    at += requestlog_text(out + at, slice_of(literal.p + 1, literal.n - 2), most)
    out[at] = b'"'
    return at + 1

cdef size_t commandlog_ids(Json* j, char* out) noexcept nogil:
    # Writes the ids of the object at the cursor. Returns the bytes written.
    cdef bint first = True
    cdef Slice key, value
    cdef size_t at = 0
    cdef Slice[5] found
    cdef int i
    memset(found, 0, sizeof(found))
    json_enter(j, b'{')
    while json_member(j, &first, &key) and json_skip(j, &value):
        for i in range(5):
            if member_is(key, COMMAND_MEMBERS[i]):
                found[i] = value
    for i in range(5):
        at += commandlog_id(out + at, COMMAND_NAMES[i], found[i], COMMAND_SHORT if i else REQUESTLOG_ID)
    return at

cdef size_t commandlog_batch(Slice body, char* out) noexcept nogil:
    # Writes the number of acknowledgments of a batch, and the ids of the first. Returns the bytes written.
    cdef Json j
    cdef bint first = True
    cdef bint inner
    cdef Slice key
    cdef size_t at = 0
    cdef int n = 0
    if not json_object(&j, body):
        return 0
    while json_member(&j, &first, &key):
        if not member_is(key, b"acknowledgments") or json_peek(&j) != b'[':
            if not json_skip(&j, NULL):
                break
            continue
        inner = True
        json_enter(&j, b'[')
        while json_element(&j, &inner):
            n += 1
            if n == 1 and json_peek(&j) == b'{':
                at = commandlog_ids(&j, out)
            elif not json_skip(&j, NULL):
                break
    return at + <size_t>snprintf(out + at, 32, b',"acks":%d', n) if n else 0

cdef void commandlog_note(Feed* f, Request* q) noexcept nogil:
    cdef char[REQUESTLOG_MORE] more
    cdef Json j
    cdef size_t at, ids
    cdef Slice name = q.target if q.target.n else slice_lit(b"refused")
    if not requestlog_wants(q):
        return
    at = <size_t>snprintf(more, 32, b',"command":"%.*s"', <int>name.n, name.p)
    if q.target.n and q.target.p[0] == b'c' and q.status == 200:
        at += <size_t>snprintf(more + at, 32, b',"credit":%.*s', <int>min(q.out.len, <size_t>12), q.out.data)
    elif q.target.n and q.target.p[0] != b'c' and q.body.n and q.body.p[0] == b'{':
        ids = commandlog_batch(q.body, more + at)
        if ids == 0:
            json_open(&j, q.body, JSON_DEPTH)
            ids = commandlog_ids(&j, more + at)
        at += ids
    requestlog_put(q, f.r, b"command", slice_of(more, at))
