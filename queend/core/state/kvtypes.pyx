# Operations on keys and values. In: what route/kvbody read. Out: results, where they stand in the answer of a
# statement. They stand in the request's arena. Owner: the request's worker. No locks.

cdef enum:
    KV_OPS_MOST = 256         # operations of a request
    KV_KEYS_MOST = 1024       # keys that it names
    KV_KEY_MOST = 512         # bytes of a key
    KV_NS_MOST = 64           # bytes of a namespace
    KV_VALUE_MOST = 65536     # bytes of a value
    KV_PAGE_MOST = 1000       # rows of a list
    KV_READ_MOST = 4 << 20    # bytes of the values that one getMany or list returns
    KV_TTL_MOST = 3153600000  # seconds of a life: 100 years

# KvOp.kind. The functions of sql/function/kv have the same numbers.
cdef enum KvKind:
    KV_GET = 0
    KV_PUT = 1
    KV_DELETE = 2
    KV_INCR = 3
    KV_CHECK = 4
    KV_LIST = 5
    KV_LIST_KEYS = 6

# Outcome of an operation, as those functions return it.
cdef enum KvOutcome:
    KV_DONE = 0
    KV_EXISTS = 1
    KV_ABSENT = 2
    KV_VERSION = 3
    KV_LIMIT = 4
    KV_TYPE = 5
    KV_MORE = 6               # a list has more rows
    KV_REQUIRED = 16          # added to the outcome of a required operation that undid its request

cdef enum:
    KV_ANY = -1               # KvOp.expect: no condition
    KV_FOREVER = -1           # KvOp.ttl_us

cdef struct KvOp:
    # One operation, or one key of a getMany.
    uint8_t kind              # KV_*
    bint absent               # put that was asked for as putIfAbsent
    bint many                 # one key of a getMany
    bint required
    int at                    # place of its operation in the request
    int wave
    Slice ns
    Slice key                 # also the prefix of a list
    Slice value               # literal of a put; text after which a list begins, p NULL: at its beginning
    int64_t expect            # version, 0: absent, KV_ANY
    int64_t ttl_us            # KV_FOREVER; of a list: its most rows
    Slice delta               # literals; p NULL: not given
    Slice low
    Slice high
    int row                   # first row of the answer; -1: none
    int rows

# Columns of a row of an answer, as kv_get, kv_write and kv_bundle return them.
cdef enum:                    # KV_ROW_*
    KV_ROW_ORD = 0
    KV_ROW_OUTCOME
    KV_ROW_VERSION
    KV_ROW_EXPIRES_AT
    KV_ROW_UPDATED_AT
    KV_ROW_VALUE
    KV_ROW_KEY
    KV_COLUMNS

cdef struct KvLost:
    # The condition that undid a request.
    int at                    # place of its operation; -1: none
    int outcome
    int64_t version
    Slice value               # p NULL: no row

cdef struct KvReq:
    int n
    int room                  # operations for which there is memory
    int given                 # elements of the operations array
    KvOp* ops
    bint path                 # its only operation is that of a path
    bint writes               # looks or writes under locks
    bint lists
    bint requires
    const char* code          # of a refusal, with its reason
    const char* reason
    KvLost lost
    PGresult* res             # while the answer is written; NULL: the results are not known
    const int* columns        # KV_ROW_* → column of `res`

cdef inline bint kvtype_alone(const KvReq* q) noexcept nogil:
    # Returns True if the request shares no statement.
    return q.requires or q.lists

cdef inline bint kvtype_writes(const KvOp* op) noexcept nogil:
    return KV_PUT <= op.kind <= KV_INCR

# ---- locks -----------------------------------------------------------------------------------------------------------

cdef enum:
    LOCK_OPS_MOST = 64        # operations of a request
    LOCK_SLOTS = 1024         # permits of a semaphore
    LOCK_TEXT_MOST = 256      # bytes of a name or an owner

# LockOp.kind. The function queend.locks has the same numbers.
cdef enum LockKind:
    LOCK_ACQUIRE = 0
    LOCK_RENEW = 1
    LOCK_RELEASE = 2
    LOCK_GET = 3
    LOCK_KINDS = 4

# Outcome of an operation, as that function returns it.
cdef enum LockOutcome:
    LOCK_WON = 0
    LOCK_ALREADY = 1          # this owner held it before
    LOCK_HELD = 2             # all permits are held
    LOCK_CONTENDED = 3        # other transactions work on the free ones
    LOCK_LOST = 4             # the permit is another's, or ended
    LOCK_HOLDER = 5           # the row is about a holder

cdef struct LockOp:
    uint8_t kind              # LOCK_*
    Slice name
    Slice owner               # p NULL: none given
    int64_t ttl_us
    int64_t token
    int limit
    int slot
    int row                   # first row of the answer, and how many
    int rows

cdef struct LockReq:
    int n
    int room
    LockOp* ops
