# Test seams for the hot routes: a request's bytes in, the parsed request or its refusal out; results in, the answer
# out.

class ProbeRefused(Exception):
    """A request was refused. `status`: HTTP status; `text`: what the client is told."""

    def __init__(self, int status, str text):
        super().__init__(f"{status} {text}")
        self.status = status
        self.text = text

cdef object probe_refusal(ApiError* e):
    return ProbeRefused(e.status, (<bytes>e.text).decode())

cdef object probe_text(Slice s):
    return None if s.p == NULL else s.p[:s.n].decode()

cdef object probe_bytes(Slice s):
    return None if s.p == NULL else <bytes>s.p[:s.n]

cdef class ProbeRoom:
    # An arena, a generator and a copy of the input. A read past the input's padding leaves the allocation.
    cdef Arena arena
    cdef UuidGen ids
    cdef Unzip unzip
    cdef Settings limits
    cdef Tools tools
    cdef Buf out
    cdef char* copy
    cdef Slice body
    cdef Slice path
    cdef Slice query
    cdef bytes headers

    def __cinit__(self, bytes body=b"", bytes path=b"", bytes query=b""):
        cdef size_t n = len(body) + len(path) + len(query)
        arena_open(&self.arena, NULL)
        uuid_open(&self.ids)
        buf_init(&self.out)
        memset(&self.unzip, 0, sizeof(Unzip))
        memset(&self.limits, 0, sizeof(Settings))
        self.limits.max_items = 10000
        self.limits.max_body = 1 << 20
        self.tools.arena = &self.arena
        self.tools.unzip = &self.unzip
        self.tools.uuids = &self.ids
        self.tools.settings = &self.limits
        self.copy = <char*>malloc(n + BODY_PADDING)
        self.path = slice_of(self.copy, len(path))
        self.query = slice_of(self.path.p + len(path), len(query))
        self.body = slice_of(self.query.p + len(query), len(body))
        memcpy(<char*>self.path.p, <const char*>path, len(path))
        memcpy(<char*>self.query.p, <const char*>query, len(query))
        memcpy(<char*>self.body.p, <const char*>body, len(body))
        memset(<char*>self.body.p + len(body), 0, BODY_PADDING)

    def __dealloc__(self):
        arena_close(&self.arena)
        buf_free(&self.out)
        unzip_close(&self.unzip)
        free(self.copy)

    cdef bytes answer(self):
        return b"" if self.out.len == 0 else <bytes>self.out.data[:self.out.len]

def probe_route(str method, bytes path):
    """The hot route of a request: its name in lower case, or None."""
    methods = {"GET": METHOD_GET, "POST": METHOD_POST, "PUT": METHOD_PUT, "DELETE": METHOD_DELETE, "HEAD": METHOD_HEAD,
               "OPTIONS": METHOD_OPTIONS, "PATCH": METHOD_PATCH}
    cdef ProbeRoom room = ProbeRoom(path=path)
    cdef const HotRoute* route = request_route(methods[method], room.path)
    return None if route == NULL else route.name.decode()

def probe_query(bytes query, bytes key):
    """The decoded value of a query parameter, None when absent; ValueError when it cannot be decoded."""
    cdef ProbeRoom room = ProbeRoom(query=query)
    cdef Slice value
    cdef int found = uri_find(room.query, key, &room.arena, &value)
    if found == QUERY_UNREADABLE:
        raise ValueError("not decodable")
    return probe_text(value) if found != QUERY_ABSENT else None

def probe_time(bytes text):
    """Microseconds since the epoch, None when it is no time."""
    cdef ProbeRoom room = ProbeRoom(body=text)
    cdef int64_t us
    return us if time_parse(room.body, &us) else None

# ---- push ----------------------------------------------------------------------------------------------------------

cdef dict probe_pushitem(PushItem* it):
    cdef Buf literal
    buf_init(&literal)
    pushreply_txid(&literal, it)
    spelled = literal.data[:literal.len]
    buf_free(&literal)
    return {"queue": probe_text(it.queue), "partition": probe_text(it.part),
            "txid": probe_text(it.txid), "txid_json": spelled, "queue_json": probe_bytes(it.queue_json),
            "payload": probe_bytes(it.payload), "id": <bytes>it.id[:16], "kind": it.id_kind,
            "keep_text": bool(it.keep_text), "trace": <bytes>it.trace[:16] if it.has_trace else None,
            **({} if it.more == NULL else {"due": batchrow_extras_due(it.more) if it.more.due.n else 0,
                                           "headers": probe_bytes(it.more.headers)})}

cdef bytes probe_type(bytes kind):
    return b"" if kind is None else b"Host: x\r\nContent-type:  " + kind + b" \r\nX: y\r\n"

cdef int probe_pushreq(ProbeRoom room, PushReq* q, bytes kind, int max_items) except -1:
    # Reads a push; raises ProbeRefused. kind: the Content-Type.
    room.limits.max_items = max_items
    room.headers = probe_type(kind)      # the parsed request may point into the headers
    if not pushitems_read(slice_of(room.headers, len(room.headers)), room.query, room.body, &room.tools, q):
        raise probe_refusal(&room.tools.error)
    return 0

def probe_push(bytes body, int max_items=10000, bytes kind=None, bytes query=b""):
    """The items of a push, as dictionaries; ProbeRefused. kind: the Content-Type."""
    cdef ProbeRoom room = ProbeRoom(body, query=query)
    cdef PushReq q
    probe_pushreq(room, &q, kind, max_items)
    out = []
    for i in range(q.n):
        if q.items[i].run == NULL:
            out.append(probe_pushitem(&q.items[i]))
        else:
            pushrun_expand(q.items[i].run, &q.items[i], q.items[i].run.items)
            out += [probe_pushitem(&q.items[i].run.items[k]) for k in range(q.items[i].run.n)]
    return out

def probe_push_runs(bytes body, int max_items=10000, bytes kind=None, bytes query=b""):
    """How a push goes through the engine: per item its number of records and, of runs, the codec they are stored in."""
    cdef ProbeRoom room = ProbeRoom(body, query=query)
    cdef PushReq q
    probe_pushreq(room, &q, kind, max_items)
    return [(req_item_count(&q.items[i]), q.items[i].run.codec if q.items[i].run != NULL else None) for i in range(q.n)]

def probe_push_reply(bytes body, list results, bytes kind=None, bytes query=b""):
    """The answer to a push. results: per item (status, message id, partition uuid); of a run, the id is not used: its
    records are stored from offset 7 of partition 3 at 0 us."""
    cdef ProbeRoom room = ProbeRoom(body, query=query)
    cdef PushReq q
    cdef bytes uuid, message
    probe_pushreq(room, &q, kind, 10000)
    for i, (status, message, uuid) in enumerate(results):
        q.items[i].status = status
        memcpy(q.items[i].message_id, <const char*>message, 16)
        q.items[i].partition_uuid = <const char*>uuid
        if q.items[i].run != NULL:
            q.items[i].run.partition_id = 3
            q.items[i].offset = 7
            q.items[i].created_us = 0
    pushreply_put(&room.out, &q, q.n)
    return room.answer()

# ---- pop -----------------------------------------------------------------------------------------------------------

cdef int probe_popreq(ProbeRoom room, PopReq* q, dict defaults) except -1:
    cdef Settings s
    cdef ApiError e
    memset(&s, 0, sizeof(s))
    s.default_timeout_ms = defaults.get("timeout", 30000)
    s.default_batch = defaults.get("batch", 1)
    s.default_new = defaults.get("new", False)
    cdef const HotRoute* route = request_route(METHOD_GET, room.path)
    if route == NULL:
        raise ValueError("no pop")
    if not popquery_parse(route.route, room.path, room.query, &room.arena, &s, q, &e):
        raise probe_refusal(&e)
    return 0

def probe_pop(bytes path, bytes query=b"", dict defaults={}):
    """What a pop asks for; ProbeRefused."""
    cdef ProbeRoom room = ProbeRoom(path=path, query=query)
    cdef PopReq q
    probe_popreq(room, &q, defaults)
    return {"queue": probe_text(q.queue), "partition": probe_text(q.partition), "group": probe_text(q.group),
            "namespace": probe_text(q.ns), "task": probe_text(q.task), "batch": q.batch, "partitions": q.partitions,
            "timeout": q.timeout_ms, "wait": bool(q.wait), "auto_ack": bool(q.auto_ack), "autopilot": bool(q.autopilot),
            "batch_given": bool(q.batch_given), "partitions_given": bool(q.partitions_given), "new": bool(q.sub_new),
            "from": q.sub_from_us if q.sub_from_valid else None}

def probe_pop_reply(bytes path, bytes query, bytes queue, list messages):
    """The answer that delivers messages: dictionaries with the fields of PopMessage."""
    cdef ProbeRoom room = ProbeRoom(path=path, query=query)
    cdef PopReq q
    cdef PopMessage m
    cdef bytes uuid, partition, group
    probe_popreq(room, &q, {})
    memset(&m, 0, sizeof(m))
    m.as_event = q.events
    m.claimed = 1
    keep = []
    before = None
    for n, given in enumerate(messages):
        if before is None or given["partition_uuid"] != before["partition_uuid"]:
            # one address per partition, as in the engine
            uuid = b"" + given["partition_uuid"]
            partition = given["partition"]
            group = q.group.p[:q.group.n]
            keep += [uuid, partition, group]
            m.partition_uuid = read_slice(uuid)
            m.partition = read_slice(partition)
            m.group = read_slice(group)
            m.queue = read_slice(queue)
        before = given
        m.extras.text = read_slice(given.get("txid") or b"")
        m.extras.trace = read_slice(given.get("trace") or b"")
        m.extras.sub = read_slice(given.get("sub") or b"")
        m.payload = read_slice(given.get("payload") or b"")
        m.lease = read_slice(given.get("lease") or b"")
        memcpy(m.id, <const char*><bytes>given["id"], 16)
        memcpy(m.record_id, <const char*><bytes>given["record_id"], 16)
        m.attempt = given["attempt"]
        m.offset = given["offset"]
        m.created_us = given["created_us"]
        popreply_add(&room.out, &m, n == 0)
    popreply_close(&room.out, &q, CONFLATION_NONE)
    return room.answer()

def probe_pop_empty(bytes path, bytes query, str why, bytes uuid=None):
    """The answer that delivers nothing."""
    cdef ProbeRoom room = ProbeRoom(path=path, query=query)
    cdef PopReq q
    reasons = {"no_partition": WHY_NO_PARTITION, "not_found": WHY_NOT_FOUND, "lease_held": WHY_LEASE_HELD,
               "window": WHY_WINDOW, "nothing": WHY_NOTHING, "expired": WHY_EXPIRED}
    probe_popreq(room, &q, {})
    popreply_empty(&room.out, &q, reasons[why], read_slice(uuid).p, b"empty",
                   CONFLATION_NONE)
    return room.answer()

# ---- ack -----------------------------------------------------------------------------------------------------------

cdef dict probe_ackitem(AckItem* it):
    return {"txid_json": probe_bytes(it.txid_json), "id": <bytes>it.id[:16], "status": it.status,
            "partition": <bytes>it.partition_uuid[:16], "number": it.partition_number, "error": probe_text(it.error),
            "lease": <bytes>it.lease[:16] if it.has_lease else None, "lease_bad": bool(it.lease_bad),
            "group": probe_text(it.group_name)}

def probe_ack(bytes body, bint single=False, int max_items=10000):
    """The group and the items of an acknowledgment; ProbeRefused."""
    cdef ProbeRoom room = ProbeRoom(body)
    cdef AckReq q
    room.limits.max_items = max_items
    if not ackbody_parse(room.body, single, &room.tools, &q):
        raise probe_refusal(&room.tools.error)
    return probe_text(q.group), [probe_ackitem(&q.items[i]) for i in range(q.n)]

def probe_ack_reply(bytes body, bint single, list results):
    """The answer. results: per item (code, queue name or None, partition name or None)."""
    cdef ProbeRoom room = ProbeRoom(body)
    cdef AckReq q
    cdef bytes queue, partition
    if not ackbody_parse(room.body, single, &room.tools, &q):
        raise probe_refusal(&room.tools.error)
    for i, (code, queue, partition) in enumerate(results):
        q.items[i].code = code
        q.items[i].queue_name = read_slice(queue)
        q.items[i].partition_name = read_slice(partition)
    ackbody_reply(&room.out, &q)
    return room.answer()

# ---- transaction ---------------------------------------------------------------------------------------------------

def probe_tx(bytes body, int max_items=10000):
    """Operations and required leases of a transaction; ProbeRefused."""
    cdef ProbeRoom room = ProbeRoom(body)
    cdef TxReq q
    room.limits.max_items = max_items
    if not txbody_read(slice_of(NULL, 0), room.body, &room.tools, &q):
        raise probe_refusal(&room.tools.error)
    ops = []
    for i in range(q.n):
        if q.ops[i].kind == TX_PUSH: ops.append(("push", probe_pushitem(q.ops[i].push)))
        elif q.ops[i].kind == TX_ACK: ops.append(("ack", probe_ackitem(q.ops[i].ack)))
        else: ops.append(("unknown", probe_bytes(q.ops[i].type_json)))
    return ops, [<bytes>q.required[16 * i:16 * i + 16] for i in range(q.n_required)]

def probe_tx_reply(bytes body, str fault=None, int at=-1, bytes uuid=b"0" * 36):
    """The answer: done, or refused because operation `at` failed with `fault` (at -2: a required lease)."""
    cdef ProbeRoom room = ProbeRoom(body)
    cdef TxReq q
    faults = {"type": TX_FAULT_TYPE, "status": TX_FAULT_STATUS, "lease": TX_FAULT_LEASE,
              "not_found": TX_FAULT_NOT_FOUND, "duplicate": TX_FAULT_DUPLICATE, "full": TX_FAULT_FULL,
              "late": TX_FAULT_LATE, "of_deleted": TX_FAULT_OF_DELETED}
    if not txbody_read(slice_of(NULL, 0), room.body, &room.tools, &q):
        raise probe_refusal(&room.tools.error)
    for i in range(q.n):
        if q.ops[i].kind == TX_PUSH:
            q.ops[i].push.partition_uuid = <const char*>uuid
        elif q.ops[i].kind == TX_ACK and q.ops[i].ack.status in (1, 2):
            q.ops[i].ack.code = 3
    if at >= 0:
        q.ops[at].fault = faults[fault]
    txbody_reply(&room.out, &q, at)
    return room.answer()

# ---- lease ---------------------------------------------------------------------------------------------------------

def probe_lease(bytes path, bytes body):
    """(lease, seconds) of an extension; ProbeRefused."""
    cdef ProbeRoom room = ProbeRoom(body, path)
    cdef LeaseReq q
    cdef ApiError e
    if not leasebody_parse(room.path, room.body, &room.arena, &q, &e):
        raise probe_refusal(&e)
    return <bytes>q.lease[:16], q.seconds

def probe_lease_reply(bytes path, int status, int64_t expires_us=0, int renewed=0):
    """The answer. status: 0 extended, 1 not found, 2 expired."""
    cdef ProbeRoom room = ProbeRoom(b"", path)
    cdef LeaseReq q
    cdef ApiError e
    if not leasebody_parse(room.path, room.body, &room.arena, &q, &e):
        raise probe_refusal(&e)
    q.status = status
    q.expires_us = expires_us
    q.renewed = renewed
    leasebody_reply(&room.out, &q)
    return room.answer()
