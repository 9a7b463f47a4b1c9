# Names that were meant to be others. What is unknown is passed over, so a slip in a name would be taken for nothing at all: what is
# a known name but for its case, or for one letter, is refused.

cdef bint strict              # QUEEND_STRICT; set before the threads start

cdef enum:
    STRAY_SHORTEST = 5        # of shorter names too many are near

# Each begins with its length.
cdef const char* POP_NAMES = (b"\x05" b"batch" b"\x04" b"wait" b"\x07" b"timeout" b"\x0d" b"consumerGroup" b"\x07" b"autoAck" b"\x10" b"commitOnDelivery" b"\x0a" b"partitions" b"\x10" b"subscriptionMode" b"\x10" b"subscriptionFrom" b"\x09" b"namespace" b"\x04" b"task" b"\x09" b"autopilot" b"\x06" b"frames" b"\x06" b"format" b"\x0c" b"leaseSeconds" b"\x0a" b"conflation")
cdef const char* PUSH_NAMES = (b"\x05" b"queue" b"\x09" b"partition" b"\x07" b"payload" b"\x0d" b"transactionId" b"\x07" b"traceId" b"\x0b" b"traceparent" b"\x0a" b"tracestate" b"\x09" b"deliverAt" b"\x07" b"delayMs")
cdef const char* ACK_NAMES = (b"\x0d" b"transactionId" b"\x0b" b"partitionId" b"\x06" b"status" b"\x0d" b"consumerGroup" b"\x07" b"leaseId" b"\x05" b"error" b"\x07" b"delayMs" b"\x0a" b"cumulative" b"\x04" b"type")
cdef const char* TX_NAMES = (b"\x0d" b"transactionId" b"\x0b" b"partitionId" b"\x06" b"status" b"\x0d" b"consumerGroup" b"\x07" b"leaseId" b"\x05" b"error" b"\x07" b"delayMs" b"\x0a" b"cumulative" b"\x04" b"type" b"\x05" b"queue" b"\x09" b"partition" b"\x07" b"payload" b"\x07" b"traceId" b"\x0b" b"traceparent" b"\x0a" b"tracestate" b"\x09" b"deliverAt" b"\x05" b"items" b"\x04" b"data")

cdef bint name_near(Slice a, Slice b) noexcept nogil:
    # Is a known name (b) meant? Equal but for case; or one letter more, less or other, or two that changed places.
    cdef size_t i = 0
    cdef size_t most = a.n if a.n < b.n else b.n
    if a.n == b.n and text_same(a.p, b.p, a.n):
        return True
    if b.n < STRAY_SHORTEST or a.n + 1 < b.n or b.n + 1 < a.n:
        return False
    while i < most and a.p[i] == b.p[i]:
        i += 1
    if a.n < b.n:
        return memcmp(a.p + i, b.p + i + 1, a.n - i) == 0
    if a.n > b.n:
        return memcmp(a.p + i + 1, b.p + i, b.n - i) == 0
    if memcmp(a.p + i + 1, b.p + i + 1, a.n - i - 1) == 0:
        return True
    return i + 1 < a.n and a.p[i] == b.p[i + 1] and a.p[i + 1] == b.p[i] and memcmp(a.p + i + 2, b.p + i + 2, a.n - i - 2) == 0

cdef Slice name_meant(Slice name, const char* names) noexcept nogil:
    # The one of `names` that was meant; p NULL: it is one of them, or none is near.
    cdef const char* at = names
    cdef size_t n
    while at[0]:
        n = <size_t>at[0]
        if n == name.n and memcmp(at + 1, name.p, n) == 0:
            return slice_of(NULL, 0)
        at += n + 1
    at = names
    while at[0]:
        n = <size_t>at[0]
        if name_near(name, slice_of(at + 1, n)):
            return slice_of(at + 1, n)
        at += n + 1
    return slice_of(NULL, 0)

cdef bint refuse_stray(ApiError* e, Slice name, Slice meant, const char* what, int index) noexcept nogil:
    # what NULL: of the query.
    cdef size_t i
    for i in range(name.n):
        if <unsigned char>name.p[i] < 33 or <unsigned char>name.p[i] > 126:
            name = slice_lit(b"a name")
            break
    e.status = 400
    if what == NULL:
        snprintf(e.text, 239, b"%.*s is no parameter; %.*s is one", <int>min(name.n, <size_t>64), name.p, <int>meant.n, meant.p)
    else:
        snprintf(e.text, 239, b"%.*s is no key; %.*s is one (%s %d)", <int>min(name.n, <size_t>64), name.p, <int>meant.n, meant.p, what, index)
    return False

cdef bint key_stray(Slice key, const char* names, const char* what, int index, ApiError* e) noexcept nogil:
    # A key that nobody took, with its quotes. True: it was refused.
    cdef Slice meant
    if not strict or key.n < 2:
        return False
    meant = name_meant(slice_of(key.p + 1, key.n - 2), names)
    if meant.p == NULL:
        return False
    refuse_stray(e, slice_of(key.p + 1, key.n - 2), meant, what, index)
    return True

cdef bint query_names(Slice query, const char* names, ApiError* e) noexcept nogil:
    # False: one of its names was meant to be another, refused.
    cdef const char* p = query.p
    cdef const char* end = query.p + query.n
    cdef const char* stop
    cdef const char* equal
    cdef Slice name, meant
    if not strict:
        return True
    while p < end:
        stop = <const char*>memchr(p, b'&', end - p)
        if stop == NULL:
            stop = end
        equal = <const char*>memchr(p, b'=', stop - p)
        name = slice_of(p, (equal if equal != NULL else stop) - p)
        meant = name_meant(name, names)
        if meant.p != NULL:
            return refuse_stray(e, name, meant, NULL, 0)
        p = stop + 1
    return True

cdef bint query_number(Slice query, const char* key, Arena* a, int missing, int low, int high, int* out, bint* given, ApiError* e) noexcept nogil:
    # A whole number from low on; beyond high it is high where that is no mistake. Strict: nothing else is one.
    cdef Slice s
    cdef size_t i
    cdef int found
    given[0] = query_int(query, key, a, missing, out)
    found = query_find(query, key, a, &s) if strict else 0
    if found == 0 or found > 0 and s.n == 0:
        return True
    for i in range(s.n):
        if not 48 <= <unsigned char>s.p[i] <= 57:
            given[0] = False
    if given[0] and low <= out[0] <= high:
        return True
    e.status = 400
    snprintf(e.text, 239, b"%s must be a whole number from %d to %d", key, low, high)
    return False

cdef bint query_truth(Slice query, const char* key, Arena* a, bint* out, ApiError* e) noexcept nogil:
    cdef Slice s
    cdef int found = query_find(query, key, a, &s)
    out[0] = False
    if found == 0 or found > 0 and s.n == 0:
        return True
    out[0] = slice_is(s, b"true") or slice_is(s, b"1")
    if out[0] or not strict or slice_is(s, b"false") or slice_is(s, b"0"):
        return True
    e.status = 400
    snprintf(e.text, 239, b"%s must be true or false", key)
    return False
