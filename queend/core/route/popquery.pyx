# Reads what path and query of GET /api/v1/pop* and /api/v1/stream/* ask for. In: a request. Out: a pop, for a stream
# with a FeedReq, or a refusal. Owns pop_params, filled at import; no lock. The parameters are taken in one walk over
# the query; the table names them and their kinds.

cdef struct PopParams:        # the values, in the order of pop_params
    ParamValue batch, wait, timeout, group, auto_ack, on_delivery, partitions, mode, since, ns, task, autopilot, frames
    ParamValue format, lease, conflation, credit, heartbeat, release, ticket, window, queue, partition

cdef enum:
    OF_POP = 1
    OF_STREAM = 2
    OF_BOTH = 3
    OF_ANY = 4                # a pop whose path names no queue

cdef enum:
    FEED_CREDIT = 100         # messages without an acknowledgment
    FEED_BEAT_S = 15

cdef enum:
    POP_PARAMS = 23

cdef Param[POP_PARAMS] pop_params
pop_params = [
    Param(slice_lit(b"batch"), PARAM_NUMBER, OF_BOTH, 1, BATCH_MAX),
    Param(slice_lit(b"wait"), PARAM_TRUTH, OF_POP, 0, 0),
    Param(slice_lit(b"timeout"), PARAM_NUMBER, OF_POP, 0, MAX_TIMEOUT_MS),
    Param(slice_lit(b"consumerGroup"), PARAM_NAME, OF_BOTH, 0, 0),
    Param(slice_lit(b"autoAck"), PARAM_TRUTH, OF_BOTH, 0, 0),
    Param(slice_lit(b"commitOnDelivery"), PARAM_TRUTH, OF_BOTH, 0, 0),
    Param(slice_lit(b"partitions"), PARAM_NUMBER, OF_BOTH, 1, POP_MAX_PARTITIONS),
    Param(slice_lit(b"subscriptionMode"), PARAM_TEXT, OF_BOTH, 0, 0),
    Param(slice_lit(b"subscriptionFrom"), PARAM_TEXT, OF_BOTH, 0, 0),
    Param(slice_lit(b"namespace"), PARAM_TEXT, OF_POP, 0, 0),  # unused if the path has a queue
    Param(slice_lit(b"task"), PARAM_TEXT, OF_POP, 0, 0),
    Param(slice_lit(b"autopilot"), PARAM_TRUTH, OF_POP, 0, 0),
    Param(slice_lit(b"frames"), PARAM_TRUTH, OF_BOTH, 0, 0),
    Param(slice_lit(b"format"), PARAM_TEXT, OF_BOTH, 0, 0),
    Param(slice_lit(b"leaseSeconds"), PARAM_WHOLE, OF_BOTH, 1, LEASE_MAX),
    Param(slice_lit(b"conflation"), PARAM_TRUTH, OF_BOTH, 0, 0),
    Param(slice_lit(b"credit"), PARAM_WHOLE, OF_STREAM, 1, BATCH_MAX),
    Param(slice_lit(b"heartbeat"), PARAM_WHOLE, OF_STREAM, 1, FEED_BEAT_MOST_S),
    Param(slice_lit(b"release"), PARAM_TRUTH, OF_STREAM, 0, 0),
    Param(slice_lit(b"ticket"), PARAM_TEXT, OF_STREAM, 0, 0),  # read by auth/grants
    Param(slice_lit(b"window"), PARAM_WHOLE, OF_STREAM, 1, BATCH_MAX),
    Param(slice_lit(b"queue"), PARAM_TEXT, OF_ANY, 0, 0),
    Param(slice_lit(b"partition"), PARAM_TEXT, OF_ANY, 0, 0)]

# ---- a pop -----------------------------------------------------------------------------------------------------------

cdef bint popquery_parse(int route, Slice path, Slice query, Arena* a, const Settings* s, PopReq* q,
                         ApiError* e) noexcept nogil:
    cdef PopParams v
    cdef int of = OF_POP | OF_ANY if route == ROUTE_POP_ANY else OF_POP
    return popquery_params(query, of, &v.batch, a, e) and popquery_make(route, path, &v, a, s, q, e)

cdef bint popquery_make(int route, Slice path, const PopParams* v, Arena* a, const Settings* s, PopReq* q,
                        ApiError* e) noexcept nogil:
    # Makes a pop from the values of its parameters.
    memset(q, 0, sizeof(PopReq))
    q.route = route
    if not popquery_path(route, path, a, q, e):
        return False
    q.group = v.group.text if v.group.text.n else slice_lit(b"__QUEUE_MODE__")
    if route == ROUTE_POP_ANY and not popquery_any(v, q, e):
        return False
    q.wait = v.wait.yes
    q.auto_ack = v.auto_ack.yes or v.on_delivery.yes
    q.conflation = v.conflation.yes
    if q.conflation and not popquery_conflation(q, e):
        return False
    q.autopilot = v.autopilot.yes
    q.frames = v.frames.yes
    if v.format.found == QUERY_UNREADABLE or v.format.text.n:
        q.events = not q.frames and slice_is(v.format.text, b"cloudevents")
        if not slice_is(v.format.text, b"cloudevents") and not slice_is(v.format.text, b"json"):
            return refuse(e, b"format must be json or cloudevents")
    q.batch = req_number(&v.batch, AUTOPILOT_BATCH if q.autopilot else s.default_batch)
    q.batch = min(max(q.batch, 1), <int>BATCH_MAX)
    q.batch_given = v.batch.given
    q.partitions = min(max(req_number(&v.partitions, 1), 1), <int>POP_MAX_PARTITIONS)
    q.partitions_given = v.partitions.given
    if q.conflation and q.partitions_given and not q.batch_given:
        q.batch = max(q.batch, q.partitions)        # a partition has one message
    if req_has_partition(q.route):
        q.partitions = 1
        q.partitions_given = True       # nothing is left to choose
    q.timeout_ms = min(req_number(&v.timeout, s.default_timeout_ms), <int>MAX_TIMEOUT_MS)
    if v.lease.found != QUERY_ABSENT and not v.lease.given:
        return refuse_as(e, b"leaseSeconds must be a whole number from 1 to %d", <int>LEASE_MAX)        # empty
    q.lease_s = req_number(&v.lease, 0)
    return popquery_subscription(v, s, q, e)

cdef bint popquery_conflation(const PopReq* q, ApiError* e) noexcept nogil:
    # Checks a pop that asks for conflation: told before anything is claimed or a group is made.
    if slice_is(q.group, b"__QUEUE_MODE__"):
        return refuse(e, b"conflation needs a consumerGroup: a group of a queue conflates, not one pop")
    if q.auto_ack:
        return refuse(e, b"conflation cannot be combined with autoAck: the newest message is acknowledged")
    return True

cdef bint popquery_path(int route, Slice path, Arena* a, PopReq* q, ApiError* e) noexcept nogil:
    # what stands after /api/v1/pop/queue/ or /api/v1/stream/
    cdef bint streams = route == ROUTE_STREAM_QUEUE or route == ROUTE_STREAM_PARTITION
    cdef Slice queue
    if route == ROUTE_POP_ANY:
        return True
    path = slice_from(path, 15 if streams else 18)
    queue = slice_until(path, b'/')
    if not uri_decode(queue, a, False, &q.queue) or q.queue.n > NAME_MAX or q.queue.n == 0:
        return refuse(e, b"The queue name in the path must be valid text of 1 to 255 bytes")
    if req_has_partition(route) and (not uri_decode(slice_from(path, queue.n + 11), a, False, &q.partition)
                                     or q.partition.n > NAME_MAX):
        return refuse(e, b"The partition name in the path must be valid text of at most 255 bytes")
    return True

cdef bint popquery_any(const PopParams* v, PopReq* q, ApiError* e) noexcept nogil:
    # Reads the source of a pop whose path names no queue: the queues of a namespace or task, or one queue.
    if not (popquery_name(b"namespace", &v.ns, e)
            and popquery_name(b"task", &v.task, e)
            and popquery_name(b"queue", &v.queue, e)
            and popquery_name(b"partition", &v.partition, e)):
        return False
    q.ns = v.ns.text
    q.task = v.task.text
    q.queue = v.queue.text
    q.partition = v.partition.text
    if q.queue.n == 0 and q.partition.n:
        return refuse(e, b"queue is required with partition")
    if q.queue.n == 0 and q.ns.n == 0 and q.task.n == 0:
        return refuse(e, b"namespace or task is required")
    if q.queue.n and (q.ns.n or q.task.n):
        return refuse(e, b"queue cannot be combined with namespace or task")
    if q.queue.n:
        q.route = ROUTE_POP_PARTITION if q.partition.n else ROUTE_POP_QUEUE
    return True

cdef bint popquery_subscription(const PopParams* v, const Settings* s, PopReq* q, ApiError* e) noexcept nogil:
    # Reads where a group begins that is new here (section 6.5). Queue mode always begins at the oldest message.
    # from_beginning: `all`, in the words of the published clients.
    cdef Slice mode = v.mode.text
    cdef Slice since = v.since.text
    if strict and (v.mode.found == QUERY_UNREADABLE or mode.n and not slice_is(mode, b"all")
                   and not slice_is(mode, b"from_beginning") and not slice_is(mode, b"new")
                   and not slice_is(mode, b"new-only")):
        return refuse(e, b"subscriptionMode must be all, new or new-only")
    if strict and (v.since.found == QUERY_UNREADABLE or since.n and not slice_is(since, b"now")
                   and not time_parse(since, &q.sub_from_us)):
        return refuse(e, b"subscriptionFrom must be now or a time in ISO 8601")
    if slice_is(q.group, b"__QUEUE_MODE__"):
        return True
    if since.n and not slice_is(since, b"now"):
        # not strict: an unreadable time means "from the beginning", as in Queen MQ
        q.sub_from_valid = time_parse(since, &q.sub_from_us)
        return True
    q.sub_new = (since.n != 0 or slice_is(mode, b"new") or slice_is(mode, b"new-only")
                 or mode.n == 0 and s.default_new)
    return True

# ---- a stream --------------------------------------------------------------------------------------------------------
# Parameters that a pop does not have: credit, heartbeat, release, window.

cdef bint popquery_feed(int route, Slice path, Slice query, Arena* a, const Settings* s, PopReq* q, FeedReq* more,
                        ApiError* e) noexcept nogil:
    cdef PopParams v
    if not (popquery_params(query, OF_STREAM, &v.batch, a, e) and popquery_make(route, path, &v, a, s, q, e)):
        return False
    if q.frames:
        return refuse(e, b"frames are for pops; a stream is written in JSON")
    more.credit = req_number(&v.credit, 0)
    more.beat_s = req_number(&v.heartbeat, FEED_BEAT_S)
    more.window = req_number(&v.window, 0)
    if v.window.given and not popquery_window(q, more, e):
        return False
    more.release = v.release.yes
    more.release_given = v.release.text.n != 0
    if not q.batch_given and not q.window:
        q.batch = more.credit if more.credit else FEED_CREDIT
    q.wait = True
    q.autopilot = False
    return True

cdef bint popquery_window(PopReq* q, FeedReq* more, ApiError* e) noexcept nogil:
    # Checks `window`: each pop of the stream then brings one window, whole.
    if q.batch_given or q.partitions_given and q.partitions != 1:
        return refuse(e, b"window stands instead of batch and partitions")
    if more.credit and more.credit < more.window:
        return refuse(e, b"credit must be at least window")
    q.window = True
    q.batch = more.window
    q.partitions = 1
    return True

# ---- the query -------------------------------------------------------------------------------------------------------

cdef bint popquery_params(Slice query, int of, ParamValue* values, Arena* a, ApiError* e) noexcept nogil:
    # Reads the parameters of a query. of: which rows are known here. If a name is given twice, the first value counts.
    cdef Slice name, value
    cdef int i
    memset(values, 0, POP_PARAMS * sizeof(ParamValue))
    while uri_next(&query, &name, &value):
        i = 0
        while i < POP_PARAMS and not (pop_params[i].of & of and slice_eq(pop_params[i].name, name)):
            i += 1
        if i == POP_PARAMS:
            if name.n and (strict or a.strict) and popquery_typo(name, of, a.strict, e):
                return False
        elif values[i].found == QUERY_ABSENT:
            values[i].found = QUERY_FOUND if uri_decode(value, a, True, &values[i].text) else QUERY_UNREADABLE
            if values[i].found == QUERY_UNREADABLE:
                values[i].text = slice_of(NULL, 0)
            if not popquery_value(&pop_params[i], &values[i], e):
                return False
    return True

cdef bint popquery_typo(Slice name, int of, bint refuses_unknown, ApiError* e) noexcept nogil:
    # Judges a name that no row has. Returns True if it was refused.
    cdef Slice meant = slice_of(NULL, 0)
    cdef int i
    for i in range(POP_PARAMS):
        if pop_params[i].of & of and typo_near(name, pop_params[i].name):
            meant = pop_params[i].name
            break
    if meant.p == NULL and not refuses_unknown:
        return False
    typo_refuse(e, name, meant, NULL, 0)
    return True

cdef bint popquery_name(const char* name, const ParamValue* v, ApiError* e) noexcept nogil:
    # Returns True if the value may be a name. Needed for rows of text that are names only sometimes.
    if v.found != QUERY_UNREADABLE and v.text.n <= NAME_MAX:
        return True
    return refuse_as(e, b"%s must be valid text of at most 255 bytes", name)

cdef bint popquery_value(const Param* p, ParamValue* v, ApiError* e) noexcept nogil:
    # Reads a value by its kind. Empty is as good as absent.
    cdef size_t i
    if p.kind == PARAM_NAME:
        return popquery_name(p.name.p, v, e)
    if p.kind == PARAM_TEXT or v.found == QUERY_FOUND and v.text.n == 0:
        return True
    if p.kind == PARAM_TRUTH:
        v.yes = slice_is(v.text, b"true") or slice_is(v.text, b"1")
        if v.yes or not strict or slice_is(v.text, b"false") or slice_is(v.text, b"0"):
            return True
        return refuse_as(e, b"%s must be true or false", p.name.p)
    v.given = uri_int(v.text, &v.number)
    if not strict and p.kind == PARAM_NUMBER:
        return True
    for i in range(v.text.n):
        v.given = v.given and b'0' <= <unsigned char>v.text.p[i] <= b'9'
    if v.given and p.low <= v.number <= p.high:
        return True
    return refuse_as(e, b"%s must be a whole number from %d to %d", p.name.p, p.low, p.high)
