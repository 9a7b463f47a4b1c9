# Searches a request's header lines. Few are ever needed, so the lines are kept as they came. In: the lines. Out: a
# field's value, whether it lists a word, which weight Accept gives a type.

cdef enum MediaType:
    MEDIA_OTHER = 0           # or absent
    MEDIA_JSON = 1
    MEDIA_LINES = 2           # application/x-ndjson
    MEDIA_ARROW = 3           # application/vnd.apache.arrow.stream
    MEDIA_FRAMES = 4          # application/x-queen-push
    MEDIA_EVENT = 5           # a CloudEvent
    MEDIA_EVENTS = 6          # a batch of CloudEvents
    MEDIA_CLOUD = 7           # another form of CloudEvents

cdef bint header_next(const char** at, const char* end, const char* name, Slice* value) noexcept nogil:
    # Finds the next header of this name (lower case) from `at` on, its value without blanks around it. Returns False if
    # there is no further one.
    cdef const char* p = at[0]
    cdef const char* stop
    cdef size_t n = strlen(name)
    while p < end:
        stop = <const char*>memchr(p, b'\n', end - p)
        if stop == NULL:
            stop = end
        if <size_t>(stop - p) > n and p[n] == b':' and text_folds(p, name, n):
            at[0] = stop + 1
            p += n + 1
            while p < stop and (p[0] == b' ' or p[0] == b'\t'):
                p += 1
            while stop > p and ((stop - 1)[0] == b' ' or (stop - 1)[0] == b'\t' or (stop - 1)[0] == b'\r'
                                or (stop - 1)[0] == b'\n'):
                stop -= 1
            value[0] = slice_of(p, stop - p)
            return True
        p = stop + 1
    return False

cdef Slice header_value(Slice raw, const char* name) noexcept nogil:
    # Returns the value of the first header of this name (lower case); p NULL: absent.
    cdef const char* at = raw.p
    cdef Slice value = slice_of(NULL, 0)
    header_next(&at, raw.p + raw.n, name, &value)
    return value

cdef Slice header_single(Slice raw, const char* name) noexcept nogil:
    # Returns the value of the header of this name (lower case); p NULL: absent, or given more than once.
    cdef const char* at = raw.p
    cdef Slice value = slice_of(NULL, 0)
    cdef Slice other
    if header_next(&at, raw.p + raw.n, name, &value) and header_next(&at, raw.p + raw.n, name, &other):
        return slice_of(NULL, 0)
    return value

cdef Slice header_listed(Slice raw, const char* name, const char* begins) noexcept nogil:
    # Returns the rest of the first word with this beginning that headers of this name list; p NULL if there is no such
    # word.
    cdef const char* at = raw.p
    cdef Slice value
    cdef size_t n = strlen(begins)
    cdef size_t i, stop
    while header_next(&at, raw.p + raw.n, name, &value):
        i = 0
        while i < value.n:
            while i < value.n and (value.p[i] == b' ' or value.p[i] == b',' or value.p[i] == b'\t'):
                i += 1
            stop = i
            while stop < value.n and value.p[stop] != b' ' and value.p[stop] != b',' and value.p[stop] != b'\t':
                stop += 1
            if stop - i >= n and memcmp(value.p + i, begins, n) == 0:
                return slice_of(value.p + i + n, stop - i - n)
            i = stop
    return slice_of(NULL, 0)

cdef bint header_lists(Slice raw, const char* name, const char* word) noexcept nogil:
    # Returns True if a header of this name lists the word (both in lower case).
    cdef const char* at = raw.p
    cdef Slice value
    cdef size_t n = strlen(word)
    cdef size_t i
    while header_next(&at, raw.p + raw.n, name, &value):
        for i in range(value.n - n + 1 if value.n >= n else 0):
            if (text_folds(value.p + i, word, n) and (i == 0 or value.p[i - 1] == b' ' or value.p[i - 1] == b',')
                    and (i + n == value.n or value.p[i + n] == b' ' or value.p[i + n] == b',')):
                return True
    return False

cdef inline bint text_folds(const char* p, const char* lower, size_t n) noexcept nogil:
    # Returns True if p is `lower` but for the case of its letters.
    cdef size_t i
    cdef char c
    for i in range(n):
        c = p[i]
        if c >= b'A' and c <= b'Z':
            c += LETTER_SMALL
        if c != lower[i]:
            return False
    return True

cdef inline bint text_same(const char* a, const char* b, size_t n) noexcept nogil:
    # Returns True if both are equal but for the case of letters.
    cdef size_t i
    for i in range(n):
        if ((a[i] | LETTER_SMALL if b'A' <= a[i] <= b'Z' else a[i])
                != (b[i] | LETTER_SMALL if b'A' <= b[i] <= b'Z' else b[i])):
            return False
    return True

cdef inline bint slice_folds(Slice s, const char* lower) noexcept nogil:
    # Returns True if all of s is `lower`, in any case.
    cdef size_t n = strlen(lower)
    return s.n == n and text_folds(s.p, lower, n)

cdef inline bint slice_begins(Slice s, const char* lower) noexcept nogil:
    # Returns True if s begins with `lower`, in any case.
    cdef size_t n = strlen(lower)
    return s.n >= n and text_folds(s.p, lower, n)

cdef inline bint type_is(Slice value, const char* name) noexcept nogil:
    # Returns True if the value is this media type, with or without parameters.
    cdef size_t n = strlen(name)
    return slice_begins(value, name) and (value.n == n or value.p[n] == b';' or value.p[n] == b' '
                                          or value.p[n] == b'\t')

cdef int media_type(Slice headers) noexcept nogil:
    # Returns what Content-Type says that the body is, one of MEDIA_*. http/known refuses a request with two such lines.
    cdef Slice value = header_value(headers, b"content-type")
    if not slice_begins(value, b"application/"):
        return MEDIA_OTHER
    if type_is(value, b"application/json"):
        return MEDIA_JSON
    if type_is(value, b"application/x-ndjson"):
        return MEDIA_LINES
    if type_is(value, b"application/vnd.apache.arrow.stream"):
        return MEDIA_ARROW
    if type_is(value, b"application/x-queen-push"):
        return MEDIA_FRAMES
    if type_is(value, b"application/cloudevents+json"):
        return MEDIA_EVENT
    if type_is(value, b"application/cloudevents-batch+json"):
        return MEDIA_EVENTS
    return MEDIA_CLOUD if slice_begins(value, b"application/cloudevents") else MEDIA_OTHER

cdef int accept_weight(Slice headers, const char* name) noexcept nogil:
    # Returns the weight that Accept gives a media type, in thousandths; 0 if the client does not take it. Ranges such
    # as */* do not count.
    cdef const char* at = headers.p
    cdef const char* end
    cdef const char* stop
    cdef Slice value
    cdef int weight
    cdef int most = 0
    while header_next(&at, headers.p + headers.n, b"accept", &value):
        end = value.p + value.n
        while value.p < end:
            stop = <const char*>memchr(value.p, b',', end - value.p)
            if stop == NULL:
                stop = end
            while value.p < stop and (value.p[0] == b' ' or value.p[0] == b'\t'):
                value.p += 1
            value.n = stop - value.p
            if type_is(value, name):
                weight = weight_of(value)
                if weight > most:
                    most = weight
            value.p = stop + 1
    return most

cdef int weight_of(Slice element) noexcept nogil:
    # Returns 500 for `type/subtype; q=0.5`, 1000 without a readable q.
    cdef const char* p = <const char*>memchr(element.p, b';', element.n)
    cdef const char* end = element.p + element.n
    cdef int weight = 0
    cdef int digit = 1000
    while p != NULL:
        p += 1
        while p < end and (p[0] == b' ' or p[0] == b'\t'):
            p += 1
        if end - p >= 3 and (p[0] | LETTER_SMALL) == b'q' and p[1] == b'=':
            if p[2] != b'0':
                return 1000
            p += 3
            while p + 1 < end and b'0' <= p[1] <= b'9' and digit > 1 and (p[0] == b'.' or digit < 1000):
                digit //= 10
                weight += (p[1] - c'0') * digit
                p += 1
            return weight
        p = <const char*>memchr(p, b';', end - p) if p < end else NULL
    return 1000
