# Test seams for the pg room: a pool on a loop in its own thread; Python passes it statements.

cdef struct ProbeCall:
    ProbeCall* next
    int ticket
    int statement             # -1: a one-off text
    char* text
    Params params
    Buf bytes                 # memory of the parameters
    int deadline_ms
    int chain                 # how often the callback sends the statement again
    int callbacks
    bint decode               # decodes rows by the getters; False: returns bytes

cdef struct ProbePool:
    uv_loop_t loop
    uv_async_t wake
    uv_mutex_t lock
    uv_cond_t turn            # signalled after each answer
    ProbeCall* first          # first call that waits for an idle slot
    int answered
    bint stopping
    SlotPool* pool
    Counters counters
    StatementDef* statements
    void* self

cdef void probe_put(ProbePool* p, ProbeCall* c, bint front) noexcept nogil:
    cdef ProbeCall** at = &p.first
    uv_mutex_lock(&p.lock)
    while at[0] != NULL and not front:
        at = &at[0].next
    c.next = at[0]
    at[0] = c
    uv_mutex_unlock(&p.lock)

cdef ProbeCall* probe_shift(ProbePool* p) noexcept nogil:
    cdef ProbeCall* c
    uv_mutex_lock(&p.lock)
    c = p.first
    if c != NULL:
        p.first = c.next
    uv_mutex_unlock(&p.lock)
    return c

cdef void probe_free(ProbeCall* c) noexcept nogil:
    free(c.text)
    buf_free(&c.bytes)
    free(c)

cdef void probe_on_wake(uv_async_t* handle) noexcept nogil:
    cdef ProbePool* p = <ProbePool*>handle.data
    cdef bint stop
    uv_mutex_lock(&p.lock)
    stop = p.stopping
    uv_mutex_unlock(&p.lock)
    if stop and p.pool != NULL:
        slotpool_close(p.pool, probe_on_closed, p)
        p.pool = NULL
    probe_on_idle(p)

cdef void probe_on_closed(void* ctx) noexcept nogil:
    uv_close(<uv_handle_t*>&(<ProbePool*>ctx).wake, NULL)

cdef void probe_on_idle(void* owner) noexcept nogil:
    cdef ProbePool* p = <ProbePool*>owner
    cdef Slot* s
    cdef ProbeCall* c
    while p.pool != NULL:     # NULL while the pool opens or closes
        s = slotpool_take(p.pool)
        c = probe_shift(p) if s != NULL else NULL
        if c == NULL:
            return
        if not probe_send(s, c):
            probe_put(p, c, True)         # the slot has broken: the call stays first

cdef bint probe_send_text(Slot* s, const char* sql, slot_done done, void* ctx, int deadline_ms) noexcept nogil:
    # Sends a one-off text without parameters (one command; binary result). Returns as slot_send does.
    if s.state != SLOT_IDLE or slot_outdated(s):
        return False
    if PQsendQueryParams(s.conn, sql, 0, NULL, NULL, NULL, NULL, 1) != 1:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
        return False
    return slot_begin(s, SLOT_TEXT, done, ctx, deadline_ms)

cdef bint probe_send(Slot* s, ProbeCall* c) noexcept nogil:
    if c.statement < 0:
        return probe_send_text(s, c.text, probe_on_done, c, c.deadline_ms)
    return slot_send(s, c.statement, &c.params, probe_on_done, c, c.deadline_ms)

cdef void probe_on_done(Slot* s, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef ProbeCall* c = <ProbeCall*>ctx
    cdef ProbePool* p = <ProbePool*>s.pool.owner
    c.callbacks += 1
    if outcome == SLOT_OK and c.chain > 0:
        c.chain -= 1
        if probe_send(s, c):
            return
    with gil:
        (<SlotProbe>p.self).record(c.ticket, c.callbacks, probe_rows(res, c.decode), probe_state(res), outcome,
                                   s.statement)
    probe_free(c)
    uv_mutex_lock(&p.lock)
    p.answered += 1
    uv_cond_broadcast(&p.turn)
    uv_mutex_unlock(&p.lock)

cdef object probe_rows(PGresult* res, bint decode):
    cdef int row, col
    if slot_failed(res):
        return None
    return [[probe_value(res, row, col) if decode else probe_bytes(pg_bytes(res, row, col))
             for col in range(PQnfields(res))] for row in range(PQntuples(res))]

cdef object probe_value(PGresult* res, int row, int col):
    # Returns the column's value by the getter of its type; bytes for types without a getter.
    cdef Oid kind = PQftype(res, col)
    cdef PgIter i
    cdef Slice s
    cdef int64_t v
    if kind == OID_INT2: return pg_int2(res, row, col)
    if kind == OID_INT4: return pg_int4_or(res, row, col, -1)
    if kind == OID_INT8: return pg_int8_or(res, row, col, -1)
    if kind == OID_BOOL: return bool(pg_bool(res, row, col))
    values = []
    if kind == OID_INT8_ARRAY:
        if not pg_array(res, row, col, OID_INT8, &i):
            return "not a list"
        while pg_next8(&i, &v):
            values.append(v)
        return values
    if kind == OID_BYTEA_ARRAY:
        if not pg_array(res, row, col, OID_BYTEA, &i):
            return "not a list"
        while pg_next(&i, &s):
            values.append(probe_bytes(s))
        return values
    return probe_bytes(pg_bytes(res, row, col))

cdef object probe_state(PGresult* res):
    if not slot_failed(res) or res == NULL:
        return None
    cdef const char* state = PQresultErrorField(res, PG_DIAG_SQLSTATE)
    return ((<bytes>state).decode() if state != NULL else "", (<bytes>pg_error(res)).decode())

cdef class SlotProbe:
    """A pool of n slots. `statements`: list of (name, signature) of functions in schema queend, or None for the real
    ones."""
    cdef ProbePool p
    cdef bytes conninfo
    cdef int n
    cdef list names
    cdef dict answers
    cdef int submitted

    def __cinit__(self, bytes conninfo, int n, statements=None):
        cdef int i
        self.conninfo = conninfo
        self.n = n
        self.answers = {}
        self.names = [(name.encode(), signature.encode()) for name, signature in statements or ()]
        memset(&self.p, 0, sizeof(ProbePool))
        self.p.self = <void*>self
        if statements is None:
            statements_open()
            self.p.statements = NULL
        else:
            self.p.statements = <StatementDef*>calloc(len(self.names) + 1, sizeof(StatementDef))
            for i, (name, signature) in enumerate(self.names):
                statement_define(&self.p.statements[i], name, signature, NULL)
        uv_mutex_init(&self.p.lock)
        uv_cond_init(&self.p.turn)
        uv_loop_init(&self.p.loop)
        uv_async_init(&self.p.loop, &self.p.wake, probe_on_wake)
        self.p.wake.data = &self.p

    def run(self):
        """The loop; returns when `stop` was called and everything is closed. Call it in a thread."""
        cdef const StatementDef* defs = self.p.statements
        cdef int n_defs = <int>len(self.names)
        cdef const char* conninfo = self.conninfo
        if defs == NULL:
            defs = STATEMENTS
            n_defs = STMT_COUNT
        with nogil:
            self.p.pool = slotpool_open(&self.p.loop, conninfo, b"", self.n, defs, n_defs, &self.p, probe_on_idle,
                                        &self.p.counters)
            slotpool_connect(self.p.pool)
            uv_run(&self.p.loop, UV_RUN_DEFAULT)
        if uv_loop_close(&self.p.loop):
            raise RuntimeError("the loop still has handles")

    def submit(self, int ticket, statement, list values, int deadline_ms, int chain=0, bint decode=False):
        """Queue a call: statement number with binary parameters (None: NULL), or a text. Sent when a slot is idle."""
        cdef ProbeCall* c = <ProbeCall*>calloc(1, sizeof(ProbeCall))
        cdef size_t at = 0
        c.ticket = ticket
        self.submitted += 1
        c.deadline_ms = deadline_ms
        c.chain = chain
        c.decode = decode
        buf_init(&c.bytes)
        args_param_begin(&c.params)
        if isinstance(statement, str):
            c.statement = SLOT_TEXT
            text = statement.encode()
            c.text = <char*>malloc(<size_t>len(text) + 1)
            memcpy(c.text, <const char*>text, <size_t>len(text) + 1)
        else:
            c.statement = statement
        for value in values:
            if value is not None:
                buf_put(&c.bytes, <const char*>(<bytes>value), <size_t>len(value))
        for value in values:
            if value is None:
                args_param_null(&c.params)
            else:
                args_param_bytes(&c.params, c.bytes.data + at, <size_t>len(value))
                at += <size_t>len(value)
        probe_put(&self.p, c, False)
        uv_async_send(&self.p.wake)

    cdef record(self, int ticket, int callbacks, rows, error, int outcome, int statement):
        self.answers[ticket] = (outcome, rows, error, callbacks, statement)

    def answer(self, int ticket, double timeout_s):
        """(outcome, rows, (sqlstate, message), callbacks, statement) of a call; TimeoutError after timeout_s."""
        cdef int64_t until = clock_mono_us() + <int64_t>(timeout_s * 1e6)
        cdef int64_t left
        while ticket not in self.answers:
            left = until - clock_mono_us()
            if left <= 0:
                raise TimeoutError(f"no answer to call {ticket}")
            with nogil:
                uv_mutex_lock(&self.p.lock)
                uv_cond_timedwait(&self.p.turn, &self.p.lock, 20000000)
                uv_mutex_unlock(&self.p.lock)
        return self.answers.pop(ticket)

    def states(self):
        """State of each slot (closed, connecting, preparing, idle, busy, broken), read from another thread: a snapshot.
        """
        names = ["closed", "connecting", "preparing", "idle", "busy", "broken"]
        cdef int i
        if self.p.pool == NULL:
            return []
        return [names[self.p.pool.slots[i].state] for i in range(self.n)]

    def connect_within(self, ms=None):
        """Sets how long a later attempt to connect may take, in milliseconds; returns what it was."""
        before = self.p.pool.connect_ms
        if ms is not None:
            self.p.pool.connect_ms = ms
        return before

    def waiting(self):
        """Calls not yet answered."""
        return self.submitted - self.p.answered

    def ready(self):
        """Slots idle or busy."""
        return self.p.pool.ready if self.p.pool != NULL else 0

    def counters(self):
        """(live connections, live handles, failed statements)"""
        return self.p.counters.live_slots, self.p.counters.live_handles, self.p.counters.db_errors

    def stop(self):
        """Close the pool; `run` returns soon after."""
        uv_mutex_lock(&self.p.lock)
        self.p.stopping = True
        uv_mutex_unlock(&self.p.lock)
        uv_async_send(&self.p.wake)

    def __dealloc__(self):
        cdef ProbeCall* c
        c = probe_shift(&self.p)
        while c != NULL:
            probe_free(c)
            c = probe_shift(&self.p)
        free(self.p.statements)
        uv_cond_destroy(&self.p.turn)
        uv_mutex_destroy(&self.p.lock)
