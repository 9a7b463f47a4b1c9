# Refuses misspelled names in requests, which would otherwise be ignored. In: a name, and the known names. Out: a
# refusal that says which name was meant. Owns the tables of names; no lock. QUEEND_STRICT refuses a name that differs
# from a known one by case, `_`, `-` or one letter. It refuses what other systems call a known name, too.
# `Prefer: handling=strict` of a request refuses all unknown names.
# Parameters of pops and streams stand in a table of their own (route/popquery).

cdef bint strict              # QUEEND_STRICT; set before the threads start

cdef enum:
    TYPO_SHORTEST = 5         # shorter names have too many neighbours
    TYPO_SHOWN = 64           # bytes of a name that a refusal shows

# Each name begins with its length.
cdef const char* PUSH_NAMES = (b"\x05" b"queue" b"\x09" b"partition" b"\x07" b"payload" b"\x0d" b"transactionId"
                               b"\x07" b"traceId" b"\x0b" b"traceparent" b"\x0a" b"tracestate" b"\x09" b"deliverAt"
                               b"\x07" b"delayMs" b"\x07" b"headers")
cdef const char* ACK_NAMES = (b"\x08" b"windowId" b"\x0d" b"transactionId" b"\x0b" b"partitionId" b"\x06" b"status"
                              b"\x0d" b"consumerGroup" b"\x07" b"leaseId" b"\x05" b"error" b"\x07" b"delayMs"
                              b"\x0a" b"cumulative" b"\x04" b"type")
cdef const char* TX_NAMES = (b"\x0d" b"transactionId" b"\x0b" b"partitionId" b"\x06" b"status"
                             b"\x0d" b"consumerGroup" b"\x07" b"leaseId" b"\x05" b"error" b"\x07" b"delayMs"
                             b"\x0a" b"cumulative" b"\x04" b"type" b"\x05" b"queue" b"\x09" b"partition"
                             b"\x07" b"payload" b"\x07" b"traceId" b"\x0b" b"traceparent" b"\x0a" b"tracestate"
                             b"\x09" b"deliverAt" b"\x05" b"items" b"\x04" b"data" b"\x07" b"headers")
cdef const char* NO_NAMES = b""
cdef const char* PUSH_BODY_NAMES = (b"\x05" b"items")
cdef const char* BATCH_NAMES = (b"\x0f" b"acknowledgments" b"\x0d" b"consumerGroup")
cdef const char* TX_BODY_NAMES = (b"\x0a" b"operations" b"\x0e" b"requiredLeases" b"\x02" b"kv" b"\x06" b"timers"
                                  b"\x09" b"positions")
cdef const char* LEASE_NAMES = (b"\x07" b"seconds")
cdef const char* PUSH_QUERY_NAMES = (b"\x06" b"format" b"\x05" b"queue" b"\x09" b"partition" b"\x07" b"payload"
                                     b"\x09" b"deliverAt" b"\x07" b"delayMs")
cdef const char* EVENTS_QUERY_NAMES = (b"\x06" b"format" b"\x09" b"partition")
cdef const char* CYCLE_NAMES = (b"\x08" b"query_id" b"\x0c" b"partition_id" b"\x0e" b"consumer_group"
                                b"\x0d" b"release_lease" b"\x09" b"state_ops" b"\x0a" b"push_items" b"\x03" b"ack")
cdef const char* CYCLE_OP_NAMES = (b"\x04" b"type" b"\x03" b"key" b"\x05" b"value")
cdef const char* CYCLE_ITEM_NAMES = (b"\x05" b"queue" b"\x09" b"partition" b"\x07" b"payload" b"\x0d" b"transactionId"
                                     b"\x07" b"traceId" b"\x09" b"namespace" b"\x04" b"task" b"\x07" b"headers"
                                     b"\x0b" b"traceparent" b"\x0a" b"tracestate")
cdef const char* CYCLE_ACK_NAMES = (b"\x0d" b"transactionId" b"\x07" b"leaseId" b"\x06" b"status" b"\x05" b"count"
                                    b"\x05" b"error")
cdef const char* EVENT_NAMES = (b"\x0b" b"specversion" b"\x02" b"id" b"\x06" b"source" b"\x04" b"type"
                                b"\x07" b"subject" b"\x04" b"time" b"\x0f" b"datacontenttype" b"\x0a" b"dataschema"
                                b"\x0c" b"partitionkey" b"\x0b" b"traceparent" b"\x0a" b"tracestate")
cdef const char* HEADER_NAMES = (b"\x0a" b"cloudEvent" b"\x0c" b"dataEncoding" b"\x0b" b"traceparent"
                                 b"\x0a" b"tracestate" b"\x13" b"originTransactionId" b"\x0b" b"originQueue"
                                 b"\x0f" b"originPartition" b"\x0c" b"originOffset" b"\x07" b"headers")

# Members of an item that this daemon does not support, and what replaces each. QUEEND_STRICT refuses them, like all
# members that no item has.
cdef struct Unsupported:
    const char* name
    const char* instead

cdef enum:
    UNSUPPORTED_MOST = 4

cdef Unsupported[UNSUPPORTED_MOST] unsupported
unsupported[0] = Unsupported(b"ttl", b"it is an option of the queue")
unsupported[1] = Unsupported(b"priority", b"it is an option of the queue")
unsupported[2] = Unsupported(b"namespace", b"it is an option of the queue")
unsupported[3] = Unsupported(b"task", b"it is an option of the queue")

cdef const Unsupported* typo_unsupported(Slice key) noexcept nogil:
    # Returns the row of a key, which has its quotes. NULL if there is no such row.
    cdef int i
    for i in range(UNSUPPORTED_MOST):
        if slice_is(slice_of(key.p + 1, key.n - 2), unsupported[i].name):
            return &unsupported[i]
    return NULL

# Lists what other systems call a known name. The control plane has the same (control/http/known).
cdef struct Mistaken:
    const char* name
    const char* meant

cdef enum:
    MISTAKEN_MOST = 4

cdef Mistaken[MISTAKEN_MOST] mistaken
mistaken[0] = Mistaken(b"group", b"consumerGroup")
mistaken[1] = Mistaken(b"delay", b"delayMs")
mistaken[2] = Mistaken(b"leaseTime", b"leaseSeconds")
mistaken[3] = Mistaken(b"limit", b"batch")

cdef bint typo_foreign(Slice a, Slice b) noexcept nogil:
    # Returns True if other systems call the known name b a.
    cdef int i
    for i in range(MISTAKEN_MOST):
        if slice_is(b, mistaken[i].meant) and typo_same(a, slice_lit(mistaken[i].name)):
            return True
    return False

cdef bint typo_same(Slice a, Slice b) noexcept nogil:
    # Returns True if the names are equal but for case, `_` and `-`.
    cdef size_t i = 0
    cdef size_t k = 0
    while True:
        while i < a.n and (a.p[i] == b'_' or a.p[i] == b'-'):
            i += 1
        while k < b.n and (b.p[k] == b'_' or b.p[k] == b'-'):
            k += 1
        if i == a.n or k == b.n:
            return i == a.n and k == b.n
        if not slice_nsame(a.p + i, b.p + k, 1):
            return False
        i += 1
        k += 1

cdef bint typo_near(Slice a, Slice b) noexcept nogil:
    # Returns True if a means the known name b. It may differ in case, `_` and `-`, or by one letter more, less or
    # other, or by two that are swapped. Or other systems call b so.
    cdef size_t i = 0
    cdef size_t most = a.n if a.n < b.n else b.n
    if typo_same(a, b) or typo_foreign(a, b):
        return True
    if b.n < TYPO_SHORTEST or a.n + 1 < b.n or b.n + 1 < a.n:
        return False
    while i < most and a.p[i] == b.p[i]:
        i += 1
    if a.n < b.n:
        return memcmp(a.p + i, b.p + i + 1, a.n - i) == 0
    if a.n > b.n:
        return memcmp(a.p + i + 1, b.p + i, b.n - i) == 0
    if memcmp(a.p + i + 1, b.p + i + 1, a.n - i - 1) == 0:
        return True
    return (i + 1 < a.n and a.p[i] == b.p[i + 1] and a.p[i + 1] == b.p[i]
            and memcmp(a.p + i + 2, b.p + i + 2, a.n - i - 2) == 0)

cdef int typo_place(Slice name, const char* names) noexcept nogil:
    # Returns the place of a known name among the names, -1 for another one.
    cdef int place = 0
    while names[0]:
        if <size_t>names[0] == name.n and memcmp(names + 1, name.p, name.n) == 0:
            return place
        names += names[0] + 1
        place += 1
    return -1

cdef bint typo_take(Slice key, const char* names, Slice value, Slice* values) noexcept nogil:
    # Keeps the value of a known key, which has its quotes. values: one for each name, in their order. Returns False if
    # the key is unknown.
    cdef int place = typo_place(slice_of(key.p + 1, key.n - 2), names)
    if place >= 0:
        values[place] = value
    return place >= 0

cdef enum NameIs:
    NAME_KNOWN = 0
    NAME_NEAR = 1             # to a known name
    NAME_OTHER = 2

cdef int typo_judge(Slice name, const char* names, Slice* meant) noexcept nogil:
    # Judges a name. meant: the known name it is near to, p NULL if there is none.
    cdef const char* at = names
    cdef size_t n
    meant[0] = slice_of(NULL, 0)
    if typo_place(name, names) >= 0:
        return NAME_KNOWN
    while at[0]:
        n = <size_t>at[0]
        if typo_near(name, slice_of(at + 1, n)):
            meant[0] = slice_of(at + 1, n)
            return NAME_NEAR
        at += n + 1
    return NAME_OTHER

cdef bint typo_found(Slice name, const char* names, bint refuses_unknown, Slice* meant) noexcept nogil:
    # Returns True if the name is to be refused.
    cdef int judged
    if not strict and not refuses_unknown:
        return False
    judged = typo_judge(name, names, meant)
    return judged == NAME_NEAR or refuses_unknown and judged == NAME_OTHER

cdef void typo_shown(Slice name, char* out) noexcept nogil:
    # Writes a name as a refusal shows it: cut, or `a name` if it is not of visible ASCII. out: TYPO_SHOWN + 1 bytes.
    cdef size_t i
    for i in range(name.n):
        if <unsigned char>name.p[i] <= b' ' or <unsigned char>name.p[i] > b'~':
            name = slice_lit(b"a name")
            break
    snprintf(out, TYPO_SHOWN + 1, b"%.*s", <int>min(name.n, <size_t>TYPO_SHOWN), name.p)

cdef bint typo_refuse(ApiError* e, Slice name, Slice meant, const char* what, int index) noexcept nogil:
    # Refuses a name. what: where it stands, NULL: in the query. index: place in a list, else -1.
    cdef char[64] where
    cdef char[TYPO_SHOWN + 1] shown
    typo_shown(name, shown)
    where[0] = 0
    if what != NULL and index >= 0:
        snprintf(where, sizeof(where), b" (%s %d)", what, index)
    if meant.p == NULL:
        meant = slice_lit(b"")
    return refuse_as(e, b"%s is no %s%s%.*s%s%s", shown,
                     b"parameter" if what == NULL else b"key", b"; " if meant.n else b"", <int>meant.n, meant.p,
                     b" is one" if meant.n else b"", where)

cdef bint typo_key(Slice key, const char* names, const char* what, int index, Arena* a, ApiError* e) noexcept nogil:
    # Judges a key, with its quotes, that no reader took. Returns True if it was refused.
    cdef Slice name = slice_of(key.p + 1, key.n - 2)
    cdef Slice meant
    if not typo_found(name, names, a.strict, &meant):
        return False
    typo_refuse(e, name, meant, what, index)
    return True

cdef bint typo_query(Slice query, const char* names, Arena* a, ApiError* e) noexcept nogil:
    # Returns False if a name of the query was refused.
    cdef Slice name, value, meant
    if not strict and not a.strict:
        return True
    while uri_next(&query, &name, &value):
        if name.n and typo_found(name, names, a.strict, &meant):
            return typo_refuse(e, name, meant, NULL, 0)
    return True
