# Reads POST /api/v1/ack and /api/v1/ack/batch, item by item, and writes the answer, one result for each. In: a body.
# Out: acknowledgments, or a refusal; the answer. Stateless, takes no lock.

cdef struct AckRaw:
    # Literals as found; p NULL: absent, or no string. bad: present, neither a string nor null.
    Slice txid, partition, status, group, lease, error, window
    Slice delay               # any literal but null
    bint cumulative
    bint cumulative_bad       # given, but neither true nor false
    bint txid_bad, lease_bad, status_bad, window_bad
    Slice typo                # a key that was meant to be another, of `names`
    Slice other               # the first key that is near to none of them
    const char* names

# ---- a body ----------------------------------------------------------------------------------------------------------

cdef bint ackbody_parse(Slice body, bint single, Tools* t, AckReq* q) noexcept nogil:
    cdef Json j
    q.n = 0
    q.items = NULL
    q.group = slice_lit(b"__QUEUE_MODE__")
    t.what = b"item"
    t.index = 0
    if not json_body_object(&j, body, b"transactionId is required" if single else b"acknowledgments array is required",
                            &t.error):
        return False
    return ackbody_single(&j, t, q) if single else ackbody_batch(&j, t, q)

cdef bint ackbody_single(Json* j, Tools* t, AckReq* q) noexcept nogil:
    cdef AckRaw raw
    if not ackbody_object(j, t, &raw):
        return False
    if not json_end(j):
        return json_refuse(&t.error, j)
    if raw.window.p == NULL and not raw.window_bad:
        if raw.txid.p == NULL:
            return refuse(&t.error, b"transactionId is required")
        if raw.partition.p == NULL:
            return refuse(&t.error, b"partitionId is required to ensure message uniqueness")
    q.items = <AckItem*>arena_alloc(t.arena, sizeof(AckItem))
    if q.items == NULL:
        return refuse_memory(&t.error)
    if not ackbody_item(q.items, &raw, NULL, t):
        return False
    q.group = q.items.group_name
    q.n = 1
    return True

cdef bint ackbody_batch(Json* j, Tools* t, AckReq* q) noexcept nogil:
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key
    cdef Slice group
    cdef int c
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        c = json_peek(j)
        if member_is(key, b"acknowledgments") and c == b'[':
            if seen:
                return refuse(&t.error, b"acknowledgments is given twice")
            seen = True
            if not ackbody_items(j, t, q):
                return False
        elif member_is(key, b"consumerGroup") and c == b'"':
            if not json_skip(j, &group):
                break
            if group.n > 2 and not ident_name(group, t.arena, &q.group):
                return refuse(&t.error, b"consumerGroup must be valid text of at most 255 bytes")
        elif typo_key(key, BATCH_NAMES, b"body", -1, t.arena, &t.error):
            return False
        elif not json_skip(j, NULL):
            break
    if j.error != NULL or not json_end(j):
        return json_refuse(&t.error, j)
    return seen or refuse(&t.error, b"acknowledgments array is required")

cdef bint ackbody_items(Json* j, Tools* t, AckReq* q) noexcept nogil:
    cdef bint first = True
    cdef AckRaw raw, before
    cdef bint window
    cdef int room = 0
    json_enter(j, b'[')
    while json_element(j, &first):
        t.index = q.n
        if q.n >= t.settings.max_items:
            return refuse_as(&t.error, b"acknowledgments has more than %d elements", t.settings.max_items)
        q.items = <AckItem*>arena_grow(t.arena, q.items, q.n, sizeof(AckItem), 32, &room)
        if q.items == NULL:
            return refuse_memory(&t.error)
        if json_peek(j) != b'{':
            if not json_skip(j, NULL):
                break
            memset(&raw, 0, sizeof(AckRaw))
        elif not ackbody_object(j, t, &raw):
            return False
        window = raw.window.p != NULL or raw.window_bad
        if not window and (raw.txid.p == NULL or raw.txid.n <= 2):
            return refuse_item(t, b"Each acknowledgment must have a valid transactionId string", b"transactionId")
        if not window and (raw.partition.p == NULL or raw.partition.n <= 2):
            return refuse_item(t,
                               b"Each acknowledgment must have a valid partitionId string to ensure message uniqueness",
                               b"partitionId")
        if not ackbody_item(&q.items[q.n], &raw, &before if q.n else NULL, t):
            return False
        before = raw
        q.n += 1
    return j.error == NULL or json_refuse(&t.error, j)

# ---- an acknowledgment as literals -----------------------------------------------------------------------------------

cdef bint ackbody_object(Json* j, Tools* t, AckRaw* raw) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    memset(raw, 0, sizeof(AckRaw))
    raw.names = ACK_NAMES
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        c = json_peek(j)
        if not json_skip(j, &value):
            break
        ackbody_member(raw, key, c, value)
    return j.error == NULL or json_refuse(&t.error, j)

cdef void ackbody_member(AckRaw* raw, Slice key, int c, Slice value) noexcept nogil:
    # Takes a member. c: first byte of its value. A fence (a lease, a status, an id) of another type is kept as bad. Any
    # other member of another type is as good as absent.
    cdef bint passed = False
    if member_is(key, b"transactionId"):
        ackbody_text(&raw.txid, &raw.txid_bad, c, value)
    elif member_is(key, b"partitionId"):
        ackbody_text(&raw.partition, &passed, c, value)
    elif member_is(key, b"leaseId"):
        ackbody_text(&raw.lease, &raw.lease_bad, c, value)
    elif member_is(key, b"status"):
        ackbody_text(&raw.status, &raw.status_bad, c, value)
    elif member_is(key, b"consumerGroup"):
        ackbody_text(&raw.group, &passed, c, value)
    elif member_is(key, b"error"):
        raw.error = value if c != b'n' else slice_of(NULL, 0)
    elif member_is(key, b"windowId") and raw.names is ACK_NAMES:
        ackbody_text(&raw.window, &raw.window_bad, c, value)
    elif c == b'n':
        return
    elif member_is(key, b"delayMs"):
        raw.delay = value
    elif member_is(key, b"cumulative"):
        raw.cumulative = c == b't'
        raw.cumulative_bad = c != b't' and c != b'f'
    else:
        ackbody_typo(raw, key)

cdef inline void ackbody_text(Slice* at, bint* bad, int c, Slice value) noexcept nogil:
    # Takes a text, or null, which is as good as absent.
    if c == b'"':
        at[0] = value
    elif c != b'n':
        bad[0] = True

cdef void ackbody_typo(AckRaw* raw, Slice key) noexcept nogil:
    cdef Slice meant
    cdef int judged = typo_judge(slice_of(key.p + 1, key.n - 2), raw.names, &meant)
    if judged == NAME_NEAR:
        raw.typo = key
    elif judged == NAME_OTHER and raw.other.p == NULL:
        raw.other = key

cdef bint ackbody_refused(AckRaw* raw, Tools* t) noexcept nogil:
    return (raw.typo.p != NULL and typo_key(raw.typo, raw.names, t.what, t.index, t.arena, &t.error)
            or raw.other.p != NULL and typo_key(raw.other, raw.names, t.what, t.index, t.arena, &t.error))

# ---- an acknowledgment from its literals -----------------------------------------------------------------------------

cdef bint ackbody_item(AckItem* it, AckRaw* raw, AckRaw* before, Tools* t) noexcept nogil:
    # Makes an item from literals. Requires transactionId and partitionId, or a window.
    # before: the literals of the item before it in the array, or NULL. Most items share its partition and its lease.
    cdef Slice text
    cdef uint8_t kind, keep
    memset(it, 0, sizeof(AckItem))
    if raw.window.p != NULL or raw.window_bad:
        return ackbody_window(it, raw, t) and ackbody_item_rest(it, raw, NULL, t)
    if not ident_txid(raw.txid, t.arena, &text, it.id, &kind, &keep):
        return refuse_item(t, b"transactionId must be valid text of at most 255 characters", b"transactionId")
    it.txid_json = raw.txid
    if before != NULL and slice_eq(before.partition, raw.partition):
        memcpy(it.partition_uuid, (it - 1).partition_uuid, 16)
        it.partition_number = (it - 1).partition_number
    elif (not text_unescape(raw.partition, t.arena, &text, NULL)
          or not (uuid_parse(text, it.partition_uuid) or ident_whole(text, &it.partition_number))):
        # a UUID, or the decimal number that framed pops carry
        return refuse_item(t, b"partitionId must be a UUID", b"partitionId")
    return ackbody_item_rest(it, raw, before, t)

cdef bint ackbody_window(AckItem* it, AckRaw* raw, Tools* t) noexcept nogil:
    # Reads windowId, `partitionId:leaseId` of a stream's window, instead of all three ids.
    cdef Slice text
    if (raw.txid.p != NULL or raw.txid_bad or raw.partition.p != NULL or raw.lease.p != NULL or raw.lease_bad
            or raw.cumulative or raw.cumulative_bad):
        return refuse_item(t, b"windowId stands instead of transactionId, partitionId, leaseId and cumulative",
                           b"windowId")
    if (raw.window_bad or not text_unescape(raw.window, t.arena, &text, NULL) or text.n != 73 or text.p[36] != b':'
            or not uuid_parse(slice_of(text.p, 36), it.partition_uuid)
            or not uuid_parse(slice_of(text.p + 37, 36), it.lease)):
        return refuse_item(t, b"windowId must be the id of a window", b"windowId")
    it.txid_json = raw.window
    it.window = True
    it.has_lease = True
    return True

cdef bint ackbody_item_rest(AckItem* it, AckRaw* raw, AckRaw* before, Tools* t) noexcept nogil:
    # Reads all members but transactionId and partitionId.
    cdef Slice text
    it.status = ackbody_status(raw.status)
    if strict and (it.status == ACK_OTHER or raw.status_bad):
        return refuse_item(t, b"status must be completed, failed, retry or dlq", b"status")
    if ackbody_refused(raw, t):
        return False
    if raw.cumulative_bad:
        return refuse_item(t, b"cumulative must be true or false", b"cumulative")
    if raw.cumulative and it.status != ACK_OTHER:
        if it.status != ACK_COMPLETED:
            return refuse_item(t, b"cumulative goes with the status completed alone", b"cumulative")
        it.status = ACK_UPTO
    it.delay_us = ACK_DELAY_OF_QUEUE
    if raw.delay.p != NULL and not time_delay(raw.delay, &it.delay_us):
        return refuse_item(t, DELAY_TEXT, b"delayMs")
    it.lease_bad = raw.lease_bad
    if before != NULL and (it - 1).has_lease and raw.lease.p != NULL and slice_eq(before.lease, raw.lease):
        memcpy(it.lease, (it - 1).lease, 16)
        it.has_lease = True
    elif raw.lease.p != NULL and raw.lease.n > 2:
        if text_unescape(raw.lease, t.arena, &text, NULL) and uuid_parse(text, it.lease):
            it.has_lease = True
        else:
            it.lease_bad = True
    if raw.error.p != NULL and not slice_is(raw.error, b'""'):
        ackbody_reason(raw.error, t.arena, &it.error)
    it.group_name = slice_lit(b"__QUEUE_MODE__")
    if raw.group.p != NULL and raw.group.n > 2 and not ident_name(raw.group, t.arena, &it.group_name):
        return refuse_item(t, b"consumerGroup must be valid text of at most 255 bytes", b"consumerGroup")
    return True

cdef uint8_t ackbody_status(Slice raw) noexcept nogil:
    if raw.p == NULL or member_is(raw, b"completed") or member_is(raw, b"success"):
        return ACK_COMPLETED
    if member_is(raw, b"failed"):
        return ACK_FAILED
    if member_is(raw, b"dlq"):
        return ACK_DLQ
    if member_is(raw, b"retry"):
        return ACK_RETRY
    return ACK_OTHER

cdef void ackbody_reason(Slice raw, Arena* a, Slice* out) noexcept nogil:
    # Takes what went wrong, for people: a text, or any other JSON as it is spelled. An odd character in it is no reason
    # to refuse the acknowledgment. PostgreSQL's text has no NUL, so a blank takes its place.
    cdef char* p
    if raw.p[0] != b'"':
        out[0] = raw if text_is_utf8(raw) else slice_of(NULL, 0)
        return
    if not text_unescape(raw, a, out, NULL):
        out[0] = slice_of(NULL, 0)
        return
    p = <char*>memchr(out.p, 0, out.n)
    while p != NULL:
        p[0] = b' '           # only an escape spells NUL, so the text is a copy in the arena
        p = <char*>memchr(p, 0, out.p + out.n - p)

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void ackbody_reply(Buf* b, AckReq* q) noexcept nogil:
    cdef int i
    cdef AckItem* it
    buf_byte(b, b'[')
    for i in range(q.n):
        it = &q.items[i]
        if i:
            buf_byte(b, b',')
        member_int(b, b"{\"index\":", i)
        member_raw(b, b",\"windowId\":" if it.window else b",\"transactionId\":", it.txid_json)
        if it.window:
            member_int(b, b",\"messages\":", it.window_n)
        member_bool(b, b",\"success\":", it.code & ACKED_OK)
        buf_text(b, b",\"error\":")
        buf_text(b, ackbody_error(it))
        buf_text(b, b",\"queueName\":")
        if it.queue_name.p != NULL:
            text_escape(b, it.queue_name)
            member_text(b, b",\"partitionName\":", it.partition_name)
        else:
            buf_text(b, b"null,\"partitionName\":null")
        member_bool(b, b",\"leaseReleased\":", it.code & ACKED_RELEASED)
        member_bool(b, b",\"dlq\":", it.code & ACKED_DLQ)
        if it.code & ACKED_NOOP:
            buf_text(b, b",\"noop\":true")
        buf_byte(b, b'}')
    buf_byte(b, b']')

cdef inline const char* ackbody_error(AckItem* it) noexcept nogil:
    cdef uint8_t code = it.code
    if code & ACKED_BAD_LEASE: return ackbody_lease_error(it)
    if code & ACKED_NOT_FOUND: return b'"Message not found"'
    if code & ACKED_TOO_LATE: return b'"Message already committed"'
    return b'"Too many messages are acknowledged out of order"' if code & ACKED_GAPS else b"null"

cdef inline const char* ackbody_lease_error(AckItem* it) noexcept nogil:
    # Returns why the lease does not count: it is invalid, or the group holds no lease on the message.
    if it.has_lease or it.lease_bad:
        return b'"Invalid or expired lease"'
    return b'"Invalid or expired lease: the consumer group holds none on this message"'
