# The permissions of a verified token (its grant), as its request carries it. Owner: the request. The table of all
# grants is in auth/grant.

cdef enum:
    GRANT_NONE = 0            # levels: each includes the lower ones; GRANT_NONE: a token without a role
    GRANT_READ = 1
    GRANT_WRITE = 2
    GRANT_ADMIN = 3
    GRANT_WAYS = 8            # places in the table where a digest may stand
    GRANT_RULES = 256         # most rules of one grant

cdef enum:
    VERB_PUSH = 1
    VERB_POP = 2
    VERB_READ = 4
    VERB_MANAGE = 8

cdef struct GrantRule:
    # Allows the verbs on queues whose name fits the pattern. A grouped rule also requires that the group's name fits
    # the second pattern.
    uint8_t verbs
    bint grouped
    uint16_t n
    uint16_t group_n
    uint32_t at               # offset of the pattern from the grant's begin; the second pattern follows

cdef struct Grant:
    # One block of memory: the struct, its rules, the rules' patterns, the subject.
    unsigned char[32] digest
    int64_t expires_us        # wall clock
    int64_t used_us           # wall clock; a new grant replaces the least recently used one
    size_t size
    uint32_t subject_at
    uint32_t subject_n
    int n_rules
    uint8_t level
    bint limited              # allows only what the rules allow
    int64_t epoch             # grants_epoch when the grant was copied from the table

cdef int64_t grants_epoch     # incremented when the table forgets all grants (grants_clear)

cdef inline bint grant_stale(Grant* g) noexcept nogil:
    # Returns True if the table forgot all grants since g was copied: the token has to be verified again.
    return g != NULL and g.epoch != atomic_get64(&grants_epoch)

cdef inline Slice grant_subject(Grant* g) noexcept nogil:
    return slice_of(<const char*>g + g.subject_at, g.subject_n)
