# Reads what a cycle pushes to its sinks. In: the body's items, one by one. Out: items of a push, and namespace and task
# for queues that it creates.

cdef bint cycle_items(Json* j, Arena* a, UuidGen* g, CycleReq* q, ApiError* e) noexcept nogil:
    # Reads the array at the cursor.
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
            return refuse_memory(e)
        if not cycle_item(j, a, g, q, &push.items[push.n], push.n, e):
            return False
        push.n += 1
    return j.error == NULL or cycle_no_json(q, j, e)

cdef bint cycle_item(Json* j, Arena* a, UuidGen* g, CycleReq* q, PushItem* it, int place, ApiError* e) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value, text
    cdef Slice ns = slice_of(NULL, 0)
    cdef Slice task = slice_of(NULL, 0)
    cdef ItemRaw raw
    cdef unsigned char[16] id
    cdef char[32] where
    if json_peek(j) != b'{':
        snprintf(where, sizeof(where), b"push_items[%d]", place)
        return cycle_bad(e, NULL, 0, where, b"must be an object")
    memset(&raw, 0, sizeof(ItemRaw))
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        if not json_skip(j, &value):
            break
        if key_is(key, b"payload"):
            raw.payload = value
        elif key_is(key, b"deliverAt") or key_is(key, b"delayMs"):
            if not slice_is(value, b"null") and not slice_is(value, b"0"):
                return cycle_bad(e, b"push_items", place, b"deliverAt" if key_is(key, b"deliverAt") else b"delayMs",
                                 b"is not supported in a cycle")
        elif key_is(key, b"queue"):
            raw.queue = value
        elif key_is(key, b"partition"):
            raw.part = value
        elif key_is(key, b"transactionId"):
            raw.txid = value
        elif key_is(key, b"traceId"):
            raw.trace = value
        elif key_is(key, b"namespace"):
            ns = value
        elif key_is(key, b"task"):
            task = value
        elif not slice_is(value, b"null") and name_unsupported(key) != NULL:
            return cycle_bad(e, b"push_items", place, name_unsupported(key).name, b"is not supported in an item")
        elif cycle_stray(q, key, CYCLE_ITEM_NAMES, b"push_items", place, a, e):
            return False
    if j.error != NULL:
        return cycle_no_json(q, j, e)
    if not cycle_literal(&raw.queue, a, 1, NAME_MAX, place, b"queue", &text, e):
        return False
    if text.p == NULL:
        return cycle_bad(e, b"push_items", place, b"queue", b"is required")
    if (not cycle_literal(&raw.part, a, 0, NAME_MAX, place, b"partition", &text, e)
            or not cycle_literal(&raw.txid, a, 0, CYCLE_TXID, place, b"transactionId", &text, e)):
        return False
    if text.p != NULL and not txid_fits(text):
        return cycle_bad(e, b"push_items", place, b"transactionId", b"must have at most 255 characters")
    if not cycle_literal(&raw.trace, a, 0, NAME_MAX, place, b"traceId", &text, e):
        return False
    if text.n and not uuid_parse(text, id, NULL):
        return cycle_bad(e, b"push_items", place, b"traceId", b"must be a UUID")
    if (not cycle_text(ns, a, 0, NAME_MAX, b"push_items", place, b"namespace", &ns, e)
            or not cycle_text(task, a, 0, NAME_MAX, b"push_items", place, b"task", &task, e)):
        return False
    if not pushitem_new(a, g, it, &raw, b"null", NULL, it - 1 if place else NULL, b"push_items", place, e):
        return False
    return ns.n + task.n == 0 or cycle_space(q, a, it.queue, ns, task, e)

cdef bint cycle_literal(Slice* raw, Arena* a, size_t least, size_t most, int place, const char* name, Slice* text,
                        ApiError* e) noexcept nogil:
    # Reads a literal of an item and its text; null is as good as absent.
    cdef Slice literal = raw[0]
    if slice_is(literal, b"null"):
        raw[0] = slice_of(NULL, 0)
    return cycle_text(literal, a, least, most, b"push_items", place, name, text, e)

cdef bint cycle_space(CycleReq* q, Arena* a, Slice queue, Slice ns, Slice task, ApiError* e) noexcept nogil:
    # Notes namespace and task of the queue, in case it is created. The newest entry comes first.
    cdef CycleSpace* s = <CycleSpace*>arena_alloc(a, sizeof(CycleSpace))
    if s == NULL:
        return refuse_memory(e)
    s.next = q.spaces
    s.queue = queue
    s.ns = ns if ns.p != NULL else slice_lit(b"")
    s.task = task if task.p != NULL else slice_lit(b"")
    q.spaces = s
    return True
