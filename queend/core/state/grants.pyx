# What a verified token allows, as its request carries it. Owner: the request; the table of all is auth/grant's.

cdef enum:
    GRANT_READ = 1            # levels: each includes those below; 0 is a token without a role
    GRANT_WRITE = 2
    GRANT_ADMIN = 3
    GRANT_WAYS = 8            # places a digest may stand in
    GRANT_RULES = 256         # of one grant at most

cdef enum:
    VERB_PUSH = 1
    VERB_POP = 2
    VERB_READ = 4
    VERB_MANAGE = 8

cdef struct GrantRule:
    # Queues whose name fits the pattern may be used with the verbs. A grouped rule holds only on behalf of groups whose
    # name fits the second pattern.
    uint8_t verbs
    bint grouped
    uint16_t n
    uint16_t group_n
    uint32_t at               # of the pattern, from the grant's begin; the second one follows

cdef struct Grant:
    # One piece of memory: this, its rules, their patterns, the subject.
    unsigned char[32] digest
    int64_t expires_us        # wall clock
    int64_t used_us           # wall clock: the place of the one that was used longest ago is taken first
    size_t size
    uint32_t subject_at
    uint32_t subject_n
    int n_rules
    uint8_t level
    bint limited              # only what the rules allow
    int64_t epoch             # grants_epoch when the table was asked

cdef int64_t grants_epoch     # raised whenever the table forgets all grants (grants_clear)

cdef inline bint grant_stale(Grant* g) noexcept nogil:
    # Returns True if the table forgot all grants since g was copied: the token has to be verified again.
    return g != NULL and g.epoch != atomic_get64(&grants_epoch)

cdef inline Slice grant_subject(Grant* g) noexcept nogil:
    return slice_of(<const char*>g + g.subject_at, g.subject_n)
