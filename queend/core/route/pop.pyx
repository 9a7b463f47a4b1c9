# GET /api/v1/pop…: its path and query read; the pieces of its answer as JSON.

cdef bint pop_name(Slice query, const char* key, Arena* a, Slice* out, ApiError* e) noexcept nogil:
    # A name from the query; absent and empty are the same.
    if query_find(query, key, a, out) < 0 or out.n > NAME_MAX:
        e.status = 400
        snprintf(e.text, 239, b"%s must be valid text of at most 255 bytes", key)
        return False
    return True

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
    cdef Slice text
    cdef bint given, yes, also
    memset(q, 0, sizeof(PopReq))
    q.route = route
    if not query_names(query, STREAM_NAMES if route == ROUTE_STREAM_QUEUE or route == ROUTE_STREAM_PARTITION
                       else POP_NAMES, a, e):
        return False
    if not pop_path(route, path, a, q, e):
        return False
    if not pop_name(query, b"consumerGroup", a, &q.group, e):
        return False
    if q.group.n == 0:
        q.group = slice_lit(b"__QUEUE_MODE__")
    if route == ROUTE_POP_ANY:
        if not pop_name(query, b"namespace", a, &q.ns, e) or not pop_name(query, b"task", a, &q.task, e):
            return False
        if q.ns.n == 0 and q.task.n == 0:
            return refuse(e, b"namespace or task is required")
    if not query_truth(query, b"conflation", a, &yes, e):
        return False
    if yes:
        # permanent, and told before anything is claimed: a client that needs it must not be served without it
        return refuse(e, b"conflation is not supported")
    if not query_truth(query, b"wait", a, &yes, e):
        return False
    q.wait = yes
    if not query_truth(query, b"autoAck", a, &yes, e) or not query_truth(query, b"commitOnDelivery", a, &also, e):
        return False
    q.auto_ack = yes or also
    if not query_truth(query, b"autopilot", a, &yes, e):
        return False
    q.autopilot = yes
    if not pop_form(query, a, q, e):
        return False
    if not query_number(query, b"batch", a, AUTOPILOT_BATCH if q.autopilot else s.default_batch, 1, BATCH_MAX, &q.batch,
                        &given, e):
        return False
    q.batch_given = given
    if not query_number(query, b"partitions", a, 1, 1, 1000000, &q.partitions, &given, e):
        return False
    q.partitions_given = given
    if not query_number(query, b"timeout", a, s.default_timeout_ms, 0, MAX_TIMEOUT_MS, &q.timeout_ms, &given, e):
        return False
    if q.batch < 1:
        q.batch = 1
    if q.batch > BATCH_MAX:
        q.batch = BATCH_MAX
    if q.partitions < 1:
        q.partitions = 1
    if route == ROUTE_POP_PARTITION or route == ROUTE_STREAM_PARTITION:
        q.partitions = 1
        q.partitions_given = True       # by the path: nothing is left to choose
    if q.timeout_ms > MAX_TIMEOUT_MS:
        q.timeout_ms = MAX_TIMEOUT_MS
    if (query_find(query, b"leaseSeconds", a, &text)
            and (not query_int(query, b"leaseSeconds", a, 0, &q.lease_s) or not 1 <= q.lease_s <= LEASE_MAX)):
        return refuse(e, b"leaseSeconds must be a number from 1 to 86400")
    return pop_subscription(query, a, s, q, e)

cdef bint pop_form(Slice query, Arena* a, PopReq* q, ApiError* e) noexcept nogil:
    # How the answer is wanted. Both parameters begin with the same letter: one look for those who send neither.
    cdef const char* p = query.p
    cdef const char* end = query.p + query.n
    cdef Slice form
    while p < end and p[0] != b'f':
        p = <const char*>memchr(p, b'&', end - p)
        p = end if p == NULL else p + 1
    if p >= end:
        return True
    if not query_truth(query, b"frames", a, &q.frames, e):
        return False
    if query_find(query, b"format", a, &form) and form.n:
        q.events = not q.frames and slice_is(form, b"cloudevents")
        if not slice_is(form, b"cloudevents") and not slice_is(form, b"json"):
            return refuse(e, b"format must be json or cloudevents")
    return True

cdef bint pop_subscription(Slice query, Arena* a, const Settings* s, PopReq* q, ApiError* e) noexcept nogil:
    # Where a group that is new here begins (section 6.5). Queue mode always begins at the oldest message.
    # from_beginning: `all`, in the words of the published clients.
    cdef Slice mode, since
    cdef int found = query_find(query, b"subscriptionMode", a, &mode)
    if strict and (found < 0 or mode.n and not slice_is(mode, b"all") and not slice_is(mode, b"from_beginning")
                   and not slice_is(mode, b"new") and not slice_is(mode, b"new-only")):
        return refuse(e, b"subscriptionMode must be all, new or new-only")
    found = query_find(query, b"subscriptionFrom", a, &since)
    if strict and (found < 0 or since.n and not slice_is(since, b"now") and not time_parse(since, &q.sub_from_us)):
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

cdef void pop_reply_open(Buf* b, PopReq* q, Slice queue, Slice partition, Slice uuid, Slice lease,
                         int claimed) noexcept nogil:
    if q.events:
        buf_byte(b, b'[')
        return
    buf_text(b, b"{\"success\":true,\"queue\":")
    json_escape(b, queue)
    buf_text(b, b",\"partition\":")
    json_escape(b, partition)
    buf_text(b, b",\"partitionId\":\"")
    buf_slice(b, uuid)
    buf_text(b, b"\",\"leaseId\":\"")
    buf_slice(b, lease)
    buf_text(b, b"\",\"consumerGroup\":")
    json_escape(b, q.group)
    buf_text(b, b",\"partitionsClaimed\":")
    buf_int(b, claimed)
    buf_text(b, b",\"messages\":[")

cdef void pop_reply_message(Buf* b, PopMessage* m, bint first) noexcept nogil:
    if not first:
        buf_byte(b, b',')
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
