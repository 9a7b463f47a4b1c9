# What a cycle pushes to its sinks. In: the body's items, one by one. Out: items of a push, and what their queues are to
# be made with.

cdef bint cycle_items(Json* j, Arena* a, UuidGen* g, CycleReq* q, ApiError* e) noexcept nogil:
    # The cursor stands at the value.
    cdef PushReq* push = &q.push
    cdef bint first = True
    cdef int room = 0
    push.n = 0
    push.items = NULL
    q.spaces = NULL
    if json_peek(j) != b'[':
        return cycle_bad(e, NULL, 0, b"push_items", b"must be an array")
    json_enter(j, b'[')
    while json_element(j, &first):
        if push.n >= CYCLE_ITEMS:
            return cycle_many(q, b"push_items", CYCLE_ITEMS, e)
        push.items = pushitems_grow(a, push.items, push.n, &room, j, slice_of(j.begin, j.end - j.begin), CYCLE_ITEMS)
        if push.items == NULL:
            error_set(e, 503, b"Out of memory")
            return False
        if not cycle_item(j, a, g, q, &push.items[push.n], push.n, e):
            return False
        push.n += 1
    return j.error == NULL or cycle_no_json(q, j, e)

cdef bint cycle_item(Json* j, Arena* a, UuidGen* g, CycleReq* q, PushItem* it, int place, ApiError* e) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value, text
    cdef Slice none = slice_of(NULL, 0)
    cdef Slice queue = none
    cdef Slice part = none
    cdef Slice txid = none
    cdef Slice trace = none
    cdef Slice payload = none
    cdef Slice ns = none
    cdef Slice task = none
    cdef unsigned char[16] id
    cdef char[32] where
    if json_peek(j) != b'{':
        snprintf(where, sizeof(where), b"push_items[%d]", place)
        return cycle_bad(e, NULL, 0, where, b"must be an object")
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        if not json_skip(j, &value):
            break
        if key_is(key, b"payload"):
            payload = value
        elif key_is(key, b"deliverAt") or key_is(key, b"delayMs"):
            if not slice_is(value, b"null") and not slice_is(value, b"0"):
                return cycle_bad(e, b"push_items", place, b"deliverAt" if key_is(key, b"deliverAt") else b"delayMs",
                                 b"is not supported in a cycle")
        elif key_is(key, b"queue"):
            queue = value
        elif key_is(key, b"partition"):
            part = value
        elif key_is(key, b"transactionId"):
            txid = value
        elif key_is(key, b"traceId"):
            trace = value
        elif key_is(key, b"namespace"):
            ns = value
        elif key_is(key, b"task"):
            task = value
        elif cycle_stray(q, key, CYCLE_ITEM_NAMES, b"push_items", place, a, e):
            return False
    if j.error != NULL:
        return cycle_no_json(q, j, e)
    if queue.p == NULL or slice_is(queue, b"null"):
        return cycle_bad(e, b"push_items", place, b"queue", b"is required")
    if not cycle_text(queue, a, 1, NAME_MAX, b"push_items", place, b"queue", &text, e):
        return False
    if not cycle_text(part, a, 0, NAME_MAX, b"push_items", place, b"partition", &text, e):
        return False
    if text.p == NULL:
        part = none
    if not cycle_text(txid, a, 0, CYCLE_TXID, b"push_items", place, b"transactionId", &text, e):
        return False
    if text.p == NULL:
        txid = none
    elif not txid_fits(text):
        return cycle_bad(e, b"push_items", place, b"transactionId", b"must have at most 255 characters")
    if not cycle_text(trace, a, 0, NAME_MAX, b"push_items", place, b"traceId", &text, e):
        return False
    if text.n == 0:
        trace = none
    elif not cycle_uuid(text, id):
        return cycle_bad(e, b"push_items", place, b"traceId", b"must be a UUID")
    if (not cycle_text(ns, a, 0, NAME_MAX, b"push_items", place, b"namespace", &ns, e)
            or not cycle_text(task, a, 0, NAME_MAX, b"push_items", place, b"task", &task, e)):
        return False
    if not pushitem_new(a, g, it, txid, queue, part, trace, payload, b"null", NULL, it - 1 if place else NULL,
                        b"push_items", place, e):
        return False
    return ns.n + task.n == 0 or cycle_space(q, a, it.queue, ns, task, e)

cdef bint cycle_space(CycleReq* q, Arena* a, Slice queue, Slice ns, Slice task, ApiError* e) noexcept nogil:
    # Where its queue is to stand, should it be made. The newest comes first.
    cdef CycleSpace* s = <CycleSpace*>arena_alloc(a, sizeof(CycleSpace))
    if s == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    s.next = q.spaces
    s.queue = queue
    s.ns = ns if ns.p != NULL else slice_lit(b"")
    s.task = task if task.p != NULL else slice_lit(b"")
    q.spaces = s
    return True
