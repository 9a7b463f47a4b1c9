# GET /api/v1/pop…: its path and query read; the pieces of its answer as JSON.

cdef enum:                    # rows of pop_params
    ASKED_BATCH
    ASKED_WAIT
    ASKED_TIMEOUT
    ASKED_GROUP
    ASKED_AUTO_ACK
    ASKED_ON_DELIVERY
    ASKED_PARTITIONS
    ASKED_MODE
    ASKED_FROM
    ASKED_NAMESPACE
    ASKED_TASK
    ASKED_AUTOPILOT
    ASKED_FRAMES
    ASKED_FORMAT
    ASKED_LEASE
    ASKED_CONFLATION
    ASKED_CREDIT
    ASKED_HEARTBEAT
    ASKED_RELEASE
    ASKED_TICKET
    ASKED_WINDOW
    POP_PARAMS

cdef enum:
    OF_POP = 1
    OF_STREAM = 2
    OF_BOTH = 3

cdef Param[POP_PARAMS] pop_params
param_is(&pop_params[ASKED_BATCH], b"batch", PARAM_NUMBER, OF_BOTH, 1, BATCH_MAX)
param_is(&pop_params[ASKED_WAIT], b"wait", PARAM_TRUTH, OF_POP, 0, 0)
param_is(&pop_params[ASKED_TIMEOUT], b"timeout", PARAM_NUMBER, OF_POP, 0, MAX_TIMEOUT_MS)
param_is(&pop_params[ASKED_GROUP], b"consumerGroup", PARAM_NAME, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_AUTO_ACK], b"autoAck", PARAM_TRUTH, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_ON_DELIVERY], b"commitOnDelivery", PARAM_TRUTH, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_PARTITIONS], b"partitions", PARAM_NUMBER, OF_BOTH, 1, 1000000)
param_is(&pop_params[ASKED_MODE], b"subscriptionMode", PARAM_TEXT, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_FROM], b"subscriptionFrom", PARAM_TEXT, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_NAMESPACE], b"namespace", PARAM_TEXT, OF_POP, 0, 0)       # names, where no queue is named
param_is(&pop_params[ASKED_TASK], b"task", PARAM_TEXT, OF_POP, 0, 0)
param_is(&pop_params[ASKED_AUTOPILOT], b"autopilot", PARAM_TRUTH, OF_POP, 0, 0)
param_is(&pop_params[ASKED_FRAMES], b"frames", PARAM_TRUTH, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_FORMAT], b"format", PARAM_TEXT, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_LEASE], b"leaseSeconds", PARAM_TEXT, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_CONFLATION], b"conflation", PARAM_TRUTH, OF_BOTH, 0, 0)
param_is(&pop_params[ASKED_CREDIT], b"credit", PARAM_NUMBER, OF_STREAM, 1, BATCH_MAX)
param_is(&pop_params[ASKED_HEARTBEAT], b"heartbeat", PARAM_NUMBER, OF_STREAM, 1, FEED_BEAT_MOST_S)
param_is(&pop_params[ASKED_RELEASE], b"release", PARAM_TRUTH, OF_STREAM, 0, 0)
param_is(&pop_params[ASKED_TICKET], b"ticket", PARAM_TEXT, OF_STREAM, 0, 0)      # read by auth/ticket
param_is(&pop_params[ASKED_WINDOW], b"window", PARAM_NUMBER, OF_STREAM, 1, BATCH_MAX)

cdef bint pop_path(int route, Slice path, Arena* a, PopReq* q, ApiError* e) noexcept nogil:
    # what stands after /api/v1/pop/queue/ or /api/v1/stream/
    cdef bint streams = route == ROUTE_STREAM_QUEUE or route == ROUTE_STREAM_PARTITION
    cdef const char* p = path.p + (15 if streams else 18)
    cdef const char* end = path.p + path.n
    cdef const char* slash
    if route == ROUTE_POP_ANY:
        return True
    slash = <const char*>memchr(p, b'/', end - p)
    if slash == NULL:
        slash = end
    if not percent_decode(slice_of(p, slash - p), a, False, &q.queue) or q.queue.n > NAME_MAX or q.queue.n == 0:
        return refuse(e, b"The queue name in the path must be valid text of 1 to 255 bytes")
    if route == ROUTE_POP_PARTITION or route == ROUTE_STREAM_PARTITION:
        p = slash + 11
        if not percent_decode(slice_of(p, end - p), a, False, &q.partition) or q.partition.n > NAME_MAX:
            return refuse(e, b"The partition name in the path must be valid text of at most 255 bytes")
    return True

cdef bint pop_parse(int route, Slice path, Slice query, Arena* a, const Settings* s, PopReq* q,
                    ApiError* e) noexcept nogil:
    cdef ParamValue[POP_PARAMS] v
    return params_read(query, pop_params, POP_PARAMS, OF_POP, v, a, e) and pop_asked(route, path, v, a, s, q, e)

cdef bint pop_asked(int route, Slice path, const ParamValue* v, Arena* a, const Settings* s, PopReq* q,
                    ApiError* e) noexcept nogil:
    # From the values of its parameters to what it asks for.
    memset(q, 0, sizeof(PopReq))
    q.route = route
    if not pop_path(route, path, a, q, e):
        return False
    q.group = v[ASKED_GROUP].text if v[ASKED_GROUP].text.n else slice_lit(b"__QUEUE_MODE__")
    if route == ROUTE_POP_ANY:
        if (not param_name(&pop_params[ASKED_NAMESPACE], &v[ASKED_NAMESPACE], e)
                or not param_name(&pop_params[ASKED_TASK], &v[ASKED_TASK], e)):
            return False
        q.ns = v[ASKED_NAMESPACE].text
        q.task = v[ASKED_TASK].text
        if q.ns.n == 0 and q.task.n == 0:
            return refuse(e, b"namespace or task is required")
    if v[ASKED_CONFLATION].yes:
        # permanent, and told before anything is claimed: a client that needs it must not be served without it
        return refuse(e, b"conflation is not supported")
    q.wait = v[ASKED_WAIT].yes
    q.auto_ack = v[ASKED_AUTO_ACK].yes or v[ASKED_ON_DELIVERY].yes
    q.autopilot = v[ASKED_AUTOPILOT].yes
    q.frames = v[ASKED_FRAMES].yes
    if v[ASKED_FORMAT].found < 0 or v[ASKED_FORMAT].text.n:
        q.events = not q.frames and slice_is(v[ASKED_FORMAT].text, b"cloudevents")
        if not slice_is(v[ASKED_FORMAT].text, b"cloudevents") and not slice_is(v[ASKED_FORMAT].text, b"json"):
            return refuse(e, b"format must be json or cloudevents")
    q.batch = param_number(&v[ASKED_BATCH], AUTOPILOT_BATCH if q.autopilot else s.default_batch)
    q.batch = min(max(q.batch, 1), <int>BATCH_MAX)
    q.batch_given = v[ASKED_BATCH].given
    q.partitions = max(param_number(&v[ASKED_PARTITIONS], 1), 1)
    q.partitions_given = v[ASKED_PARTITIONS].given
    if route == ROUTE_POP_PARTITION or route == ROUTE_STREAM_PARTITION:
        q.partitions = 1
        q.partitions_given = True       # by the path: nothing is left to choose
    q.timeout_ms = min(param_number(&v[ASKED_TIMEOUT], s.default_timeout_ms), <int>MAX_TIMEOUT_MS)
    if v[ASKED_LEASE].found and not (query_int(v[ASKED_LEASE].text, &q.lease_s) and 1 <= q.lease_s <= LEASE_MAX):
        return refuse(e, b"leaseSeconds must be a number from 1 to 86400")
    return pop_subscription(&v[ASKED_MODE], &v[ASKED_FROM], s, q, e)

cdef bint pop_subscription(const ParamValue* asked_mode, const ParamValue* asked_from, const Settings* s, PopReq* q,
                           ApiError* e) noexcept nogil:
    # Where a group that is new here begins (section 6.5). Queue mode always begins at the oldest message.
    # from_beginning: `all`, in the words of the published clients.
    cdef Slice mode = asked_mode.text
    cdef Slice since = asked_from.text
    if strict and (asked_mode.found < 0 or mode.n and not slice_is(mode, b"all")
                   and not slice_is(mode, b"from_beginning") and not slice_is(mode, b"new")
                   and not slice_is(mode, b"new-only")):
        return refuse(e, b"subscriptionMode must be all, new or new-only")
    if strict and (asked_from.found < 0 or since.n and not slice_is(since, b"now")
                   and not time_parse(since, &q.sub_from_us)):
        return refuse(e, b"subscriptionFrom must be now or a time in ISO 8601")
    if slice_is(q.group, b"__QUEUE_MODE__"):
        return True
    if since.n and not slice_is(since, b"now"):
        # not strict: an unreadable time is "from the beginning", as Queen MQ has it
        q.sub_from_valid = time_parse(since, &q.sub_from_us)
        return True
    if mode.n:
        q.sub_new = slice_is(mode, b"new") or slice_is(mode, b"new-only")
    else:
        q.sub_new = s.default_new
    if since.n:
        q.sub_new = True
    return True

# ---- the answer ----------------------------------------------------------------------------------------------------

cdef void pop_reply_open(Buf* b, const PopMessage* m) noexcept nogil:
    if m.as_event:
        buf_byte(b, b'[')
        return
    buf_text(b, b"{\"success\":true,\"queue\":")
    json_escape(b, m.queue)
    buf_text(b, b",\"partition\":")
    json_escape(b, m.partition)
    buf_text(b, b",\"partitionId\":\"")
    buf_slice(b, m.partition_uuid)
    buf_text(b, b"\",\"leaseId\":\"")
    buf_slice(b, m.lease)
    buf_text(b, b"\",\"consumerGroup\":")
    json_escape(b, m.group)
    buf_text(b, b",\"partitionsClaimed\":")
    buf_int(b, m.claimed)
    buf_text(b, b",\"messages\":[")

cdef inline void pop_reply_add(Buf* b, PopMessage* m, bint first) noexcept nogil:
    # The next message of an answer, which opens with its first one.
    if first:
        pop_reply_open(b, m)
    else:
        buf_byte(b, b',')
    pop_reply_message(b, m)

cdef inline void pop_reply_message(Buf* b, PopMessage* m) noexcept nogil:
    if m.as_event:
        event_put(b, m, True)
    else:
        message_put(b, m)

cdef void message_put(Buf* b, PopMessage* m) noexcept nogil:
    buf_text(b, b"{\"id\":")
    put_uuid(b, m.id)
    buf_text(b, b",\"transactionId\":")
    if m.extras.text.n:
        json_escape(b, m.extras.text)
    else:
        put_uuid(b, m.record_id)
    buf_text(b, b",\"traceId\":")
    if m.extras.trace.n:
        put_uuid(b, <const unsigned char*>m.extras.trace.p)
    else:
        buf_text(b, b"null")
    buf_text(b, b",\"data\":")
    buf_slice(b, m.payload)
    buf_text(b, b",\"producerSub\":")
    if m.extras.sub.n:
        json_escape(b, m.extras.sub)
    else:
        buf_text(b, b"null")
    if m.time_us != m.created_us or m.time[0] == 0:
        clock_format(m.created_us, 6, m.time)
        m.time_us = m.created_us
    buf_text(b, b",\"createdAt\":\"")
    buf_put(b, m.time, 27)
    if m.tail_uuid != m.partition_uuid.p or m.tail_attempt != m.attempt or m.tail_n == 0:
        pop_reply_tail(b, m)
    elif buf_room(b, m.tail_n):
        memcpy(b.data + b.len, b.data + m.tail_at, m.tail_n)
        b.len += m.tail_n
    buf_int(b, m.offset)
    if m.extras.headers.n > 2:
        pop_reply_headers(b, m.extras.headers)
    if m.extras.due.n == 8:
        buf_text(b, b",\"deliverAt\":")
        put_time(b, extras_due(&m.extras), 6)
    buf_byte(b, b'}')

cdef void pop_reply_headers(Buf* b, Slice headers) noexcept nogil:
    # Their members, as they were stored.
    buf_text(b, b",")
    buf_slice(b, slice_of(headers.p + 1, headers.n - 2))

cdef void pop_reply_tail(Buf* b, PopMessage* m) noexcept nogil:
    # What all messages of one claim have in common, up to the offset: written once, then copied from the answer itself.
    m.tail_uuid = m.partition_uuid.p
    m.tail_attempt = m.attempt
    m.tail_at = b.len
    buf_text(b, b"\",\"partitionId\":\"")
    buf_slice(b, m.partition_uuid)
    buf_text(b, b"\",\"partition\":")
    json_escape(b, m.partition)
    buf_text(b, b",\"leaseId\":\"")
    buf_slice(b, m.lease)
    buf_text(b, b"\",\"consumerGroup\":")
    json_escape(b, m.group)
    buf_text(b, b",\"queue\":")
    json_escape(b, m.queue)
    buf_text(b, b",\"deliveryAttempt\":")
    buf_int(b, m.attempt)
    buf_text(b, b",\"offset\":")
    m.tail_n = b.len - m.tail_at

cdef void pop_reply_autopilot(Buf* b, PopReq* q, int partitions, int batch) noexcept nogil:
    if q.autopilot:
        buf_text(b, b",\"autopilot\":{\"partitions\":")
        buf_int(b, partitions)
        buf_text(b, b",\"batch\":")
        buf_int(b, batch)
        buf_byte(b, b'}')

cdef void pop_reply_close(Buf* b, PopReq* q, int n, int partitions, int batch) noexcept nogil:
    buf_byte(b, b']')
    if q.events:
        return
    pop_reply_autopilot(b, q, partitions, batch)
    buf_byte(b, b'}')

cdef void pop_reply_empty(Buf* b, PopReq* q, int why, const char* uuid, const char* reason) noexcept nogil:
    # One form per reason; a pop that was willing to wait, however short, is told that its time is over. Events: none.
    if q.events:
        buf_text(b, b"[]")
        return
    if q.wait:
        why = WHY_EXPIRED
    if why == WHY_EXPIRED or why == WHY_WINDOW or why == WHY_NOTHING:
        buf_text(b, b"{\"success\":true,\"queue\":")
        json_escape(b, q.queue)
        buf_text(b, b",\"partition\":")
        json_escape(b, q.partition)
        buf_text(b, b",\"partitionId\":")
        if uuid != NULL and why != WHY_EXPIRED:
            buf_byte(b, b'"')
            buf_put(b, uuid, 36)
            buf_text(b, b"\",\"leaseId\":\"\"")
        else:
            buf_text(b, b"null,\"leaseId\":null")
        buf_text(b, b",\"consumerGroup\":")
        json_escape(b, q.group)
        if why == WHY_NOTHING:
            buf_text(b, b",\"partitionsClaimed\":0")
        if why == WHY_WINDOW:
            buf_text(b, b",\"windowBufferActive\":true")
        buf_text(b, b",\"messages\":[]")
    elif why == WHY_LEASE_HELD:
        buf_text(b, b"{\"success\":false,\"error\":\"lease_held\",\"messages\":[]")
    elif why == WHY_NOT_FOUND:
        buf_text(b, b"{\"success\":false,\"error\":\"partition_not_found\",\"messages\":[]")
    else:
        buf_text(b, b"{\"success\":false,\"error\":\"no_available_partition\",\"messages\":[]")
    buf_text(b, b",\"reason\":\"")
    buf_text(b, reason)
    buf_byte(b, b'"')
    pop_reply_autopilot(b, q, q.partitions, q.batch)
    buf_byte(b, b'}')
