# Writes the request log: a JSON line per answer, without payloads; off, one of every N, or all. In: answered requests.
# Out: lines on standard error. Owns a buffer per worker (its lock) and a thread that writes the lines ten times a
# second. A worker waits neither for that thread nor for the interpreter: a line without room is dropped and counted.

cdef enum:
    REQUESTLOG_ROOM = 1 << 20         # bytes of a worker's lines that are not written yet
    REQUESTLOG_LINE = 4096            # bytes of a line at most
    REQUESTLOG_PATH = 512             # bytes of the path in it
    REQUESTLOG_ID = 128               # bytes of X-Request-Id, and of any other id
    REQUESTLOG_MORE = 1536            # bytes that a command adds
    REQUESTLOG_MS = 100
    REQUESTLOG_LAST = 10              # waits of REQUESTLOG_MS for a reader, once the process ends

cdef const char* REQUESTLOG_METHODS[METHOD_COUNT]      # by METHOD_*
REQUESTLOG_METHODS = [b"", b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"PATCH"]

cdef size_t requestlog_text(char* out, Slice s, size_t most) noexcept nogil:
    # Writes bytes of a client as part of a JSON string; all but printable ASCII in percent. At most 3 * most bytes.
    cdef size_t i
    cdef size_t at = 0
    cdef unsigned char c
    for i in range(s.n if s.n < most else most):
        c = <unsigned char>s.p[i]
        if c > b' ' and c <= b'~' and c != b'"' and c != b'\\':
            out[at] = <char>c
            at += 1
        else:
            at += <size_t>snprintf(out + at, 4, b"%%%02X", <unsigned int>c)
    return at

cdef inline bint requestlog_wants(Request* r) noexcept nogil:
    # Returns True if this answer is logged. Counts it, too.
    cdef RequestLog* l = &r.worker.requestlog
    l.number += 1
    return l.every == 1 or l.number % <uint64_t>l.every == 0 or r.status >= 500

cdef inline void requestlog_note(Request* r) noexcept nogil:
    # Logs a request whose answer is complete, if it is wanted.
    if requestlog_wants(r):
        requestlog_put(r, r, b"request", slice_of(NULL, 0))

cdef void requestlog_put(Request* r, Request* of, const char* event, Slice more) noexcept nogil:
    # Appends a line to the worker's buffer. of: the request whose path and headers the line has. That is r itself, or
    # the stream that carried r.
    # more: further members, as they are, at most REQUESTLOG_MORE bytes.
    cdef RequestLog* l = &r.worker.requestlog
    cdef char[REQUESTLOG_LINE] line
    cdef char[64] head
    cdef Slice trace = header_single(of.headers_raw, b"traceparent") if of.headers_raw.n else slice_of(NULL, 0)
    cdef Slice id = header_single(of.headers_raw, b"x-request-id") if of.headers_raw.n else slice_of(NULL, 0)
    cdef size_t at
    clock_format(clock_wall_us(), 3, head)
    at = <size_t>snprintf(line, sizeof(line), b'{"time":"%.24s","level":"info","event":"%s",'
                          b'"id":"%d-%llu","method":"%s","path":"', head, event, r.worker.index,
                          <unsigned long long>l.number, REQUESTLOG_METHODS[of.method])
    at += requestlog_text(line + at, of.path, REQUESTLOG_PATH)
    at += <size_t>snprintf(line + at, 160, b'","status":%d,"us":%lld,"in":%llu,"out":%llu', r.status,
                           <long long>(clock_mono_us() - r.started_us), <unsigned long long>r.body.n,
                           <unsigned long long>(r.out.len - r.head_size if r.out.len > r.head_size else 0))
    if trace.p != NULL and trace_parent_valid(trace):
        at += <size_t>snprintf(line + at, 64, b',"trace":"%.32s"', trace.p + 3)
    if id.p != NULL and id.n:
        at += <size_t>snprintf(line + at, 16, b',"request":"')
        at += requestlog_text(line + at, id, REQUESTLOG_ID)
        line[at] = b'"'
        at += 1
    if more.n:
        memcpy(line + at, more.p, more.n)
        at += more.n
    memcpy(line + at, b"}\n", 2)
    at += 2
    uv_mutex_lock(&l.lock)
    if l.used + at <= REQUESTLOG_ROOM:
        memcpy(l.lines + l.used, line, at)
        l.used += at
        r.worker.counters.logged += 1
    else:
        r.worker.counters.not_logged += 1
    uv_mutex_unlock(&l.lock)

# ---- commands of a WebSocket -----------------------------------------------------------------------------------------
# A line has the command, the status of its answer and its ids. Error text, payload and ref are left out.

cdef enum:
    COMMAND_SHORT = 80        # bytes of any id except a transactionId, whose length the client chooses

# Members of an acknowledgment, and their names in the line.
cdef const char* COMMAND_MEMBERS = (b"\x0d" b"transactionId" b"\x0b" b"partitionId" b"\x07" b"leaseId"
                                    b"\x08" b"windowId" b"\x06" b"status")
cdef const char* COMMAND_NAMES[5]
COMMAND_NAMES = [b"transaction", b"partition", b"lease", b"window", b"verdict"]

cdef size_t requestlog_id(char* out, const char* name, Slice literal, size_t most) noexcept nogil:
    # Writes a member if the literal is a string: as it was sent, without its quotes. Returns the bytes written.
    cdef size_t at
    if literal.p == NULL or literal.n < 2 or literal.p[0] != b'"':
        return 0
    at = <size_t>snprintf(out, 24, b',"%s":"', name)
    at += requestlog_text(out + at, slice_of(literal.p + 1, literal.n - 2), most)
    out[at] = b'"'
    return at + 1

cdef size_t requestlog_ids(Json* j, char* out) noexcept nogil:
    # Writes the ids of the object at the cursor. Returns the bytes written.
    cdef bint first = True
    cdef Slice key, value
    cdef size_t at = 0
    cdef Slice[5] found
    cdef int i
    memset(found, 0, sizeof(found))
    json_enter(j, b'{')
    while json_member(j, &first, &key) and json_skip(j, &value):
        typo_take(key, COMMAND_MEMBERS, value, found)
    for i in range(5):
        at += requestlog_id(out + at, COMMAND_NAMES[i], found[i], COMMAND_SHORT if i else REQUESTLOG_ID)
    return at

cdef size_t requestlog_batch(Slice body, char* out) noexcept nogil:
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
                at = requestlog_ids(&j, out)
            elif not json_skip(&j, NULL):
                break
    return at + <size_t>snprintf(out + at, 32, b',"acks":%d', n) if n else 0

cdef void requestlog_command(Feed* f, Request* q) noexcept nogil:
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
        ids = requestlog_batch(q.body, more + at)
        if ids == 0:
            json_open(&j, q.body, JSON_DEPTH)
            ids = requestlog_ids(&j, more + at)
        at += ids
    requestlog_put(q, f.r, b"command", slice_of(more, at))

# ---- memory of a worker ----------------------------------------------------------------------------------------------

cdef bint requestlog_open(RequestLog* l, int every) noexcept nogil:
    # Opens the log. every: one line for so many requests, 0: none. Returns False if memory ran out.
    uv_mutex_init(&l.lock)
    l.every = every
    if every == 0:
        return True
    l.lines = <char*>malloc(REQUESTLOG_ROOM)
    l.spare = <char*>malloc(REQUESTLOG_ROOM)
    return l.lines != NULL and l.spare != NULL

cdef void requestlog_close(RequestLog* l) noexcept nogil:
    free(l.lines)
    free(l.spare)
    uv_mutex_destroy(&l.lock)

# ---- the thread ------------------------------------------------------------------------------------------------------

cdef void requestlog_run(void* arg) noexcept nogil:
    # Runs the thread, which writes the last lines when it is stopped: after the workers have ended.
    cdef Process* p = <Process*>arg
    cdef bint more = True
    cdef int i
    prctl(PR_SET_NAME, b"request log")
    while more:
        uv_mutex_lock(&p.logwriter.lock)
        more = thread_sleeps(&p.logwriter, REQUESTLOG_MS)
        uv_mutex_unlock(&p.logwriter.lock)
        for i in range(p.n):          # once more at the end, when no worker adds a line
            requestlog_write(&p.workers[i].requestlog, &p.logwriter)

cdef void requestlog_write(RequestLog* l, Routine* x) noexcept nogil:
    cdef char* lines
    cdef size_t n
    cdef size_t done = 0
    cdef size_t stop
    cdef int waits = 0
    uv_mutex_lock(&l.lock)
    lines = l.lines
    n = l.used
    l.lines = l.spare
    l.spare = lines
    l.used = 0
    uv_mutex_unlock(&l.lock)
    while done < n:
        stop = n - done
        if stop > LOG_WRITE:
            stop = LOG_WRITE
            while lines[done + stop - 1] != b'\n':
                stop -= 1
        if log_takes(REQUESTLOG_MS) and log_put(lines + done, stop, 0):
            done += stop
        else:
            uv_mutex_lock(&x.lock)
            waits += x.ends
            uv_mutex_unlock(&x.lock)
            if waits == REQUESTLOG_LAST:
                return        # there is no reader
