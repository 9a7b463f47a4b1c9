# The contents of a request, and the permissions of its token (grant). In: what a route read. Out: what the answer is
# made from: the engine fills the structs in. They are plain structs in the request's arena. Owner: the request's
# worker, except where a field says otherwise. No locks; the table of all grants is in auth/grants.

cdef struct Group
cdef struct Partition
cdef struct Queue
cdef struct PushPart

# ---- bounds, and routes ----------------------------------------------------------------------------------------------

cdef const char* PARTITION_DEFAULT = "Default"        # partition of a message that names none

cdef enum:
    NAME_MAX = 255            # bytes of a queue, partition or group name
    TXID_MAX = 255            # characters of a transactionId
    MAX_TIMEOUT_MS = 115000   # longest long poll
    AUTOPILOT_BATCH = 200
    BATCH_MAX = 10000
    LEASE_MAX = 86400         # seconds that a pop may ask for
    FEED_BEAT_MOST_S = 600    # longest heartbeat interval of a stream
    DELAY_DAYS = 366          # longest delay of a message or a partition

cdef enum Route:              # routes that share one function (HotRoute)
    ROUTE_ONLY = 0
    ROUTE_PUSH
    ROUTE_EVENTS
    ROUTE_POP_QUEUE
    ROUTE_POP_PARTITION
    ROUTE_POP_ANY
    ROUTE_ACK
    ROUTE_ACK_BATCH
    ROUTE_STREAM_QUEUE
    ROUTE_STREAM_PARTITION
    ROUTE_KV_KEY

cdef inline bint req_has_partition(int route) noexcept nogil:
    return route == ROUTE_POP_PARTITION or route == ROUTE_STREAM_PARTITION

# ---- pushes ----------------------------------------------------------------------------------------------------------

cdef struct PushRun

# PushItem.status. A record with a status up to ITEM_DUPLICATE is in the log.
cdef enum:
    ITEM_QUEUED = 0
    ITEM_DUPLICATE = 1
    ITEM_FAILED = 2
    ITEM_BUFFERED = 3         # in the failover buffer
    ITEM_UNREACHED = 4        # not stored because the database was unreachable
    ITEM_STATUSES = 5

# PushItem.id_kind
cdef enum IdKind:
    ID_MADE = 0               # made by the daemon, of version 7
    ID_V7 = 1                 # the client's, of version 7
    ID_OTHER = 2              # any other

cdef enum PushFull:
    FULL_NOT = 0
    FULL = 1
    FULL_UNCHECKED = 2        # not looked up yet whether the record is stored already

cdef struct PushItem:
    PushItem* next
    PushItem* original        # the first record of the same call with this id
    int original_at           # its place in the run of `original`
    PushRun* run  # records of an item that holds many: ids, texts and payloads are in the run (payload.n: their bytes)
    Partition* partition
    Queue* room               # the bounded queue whose capacity it uses
    PushPart* of_part         # the part that carries it to its appender
    const char* partition_uuid        # 36 bytes
    Slice queue
    Slice part
    # JSON literals with quotes as the client wrote them, for the answer; p NULL where the client wrote none
    Slice queue_json
    Slice txid_json
    Slice txid                # p NULL: made by the daemon
    Slice payload             # exact bytes
    Slice sub                 # producer subject
    Extras* more              # due, seal, headers; NULL: none of the three
    unsigned char[16] id
    unsigned char[16] trace
    unsigned char[16] message_id
    uint8_t id_kind           # ID_*
    uint8_t keep_text
    uint8_t has_trace
    uint8_t timed             # the item itself gave its delivery time
    uint8_t keyed             # its id follows from an Idempotency-Key: if it is stored, this request stored it before
    uint8_t status            # ITEM_*
    uint8_t of_deleted        # it duplicates a message that was deleted
    uint8_t full              # FULL*: it failed because its queue is full; offset is then the queue's maxSize
    # partitions among which the daemon chose one, as the queue has no order; 0: its partition was named
    uint16_t spread
    int64_t offset
    int64_t created_us

cdef enum:
    RUN_LEAST = 16            # fewer records are merged with others of their partition
    RUN_MOST = 1000           # records, as in any row
    RUN_BYTES = 65536         # bytes of a stored body, as in any row
    RUN_RATIO = 16            # a compressed body unpacks to at most this many times its size

cdef struct PushRun:
    int n
    uint8_t codec             # BODY_V1 or BODY_FRAMES
    bint open                 # the records were expanded to items of their own
    bint made                 # the daemon made their ids
    bint has_v7
    bint has_other
    bint rising               # each id is larger than its predecessor
    unsigned char[16] lo      # smallest version-7 id
    unsigned char[16] hi
    unsigned char* ids        # 16 bytes each
    int32_t partition_id      # for the answer
    size_t bytes              # approximate bytes of the body
    Slice* payloads           # BODY_V1
    Slice stored              # BODY_FRAMES: the client's zstd frame
    Slice inner               # its unpacked content
    PushItem* items           # room for n, filled by pushrun_expand

cdef inline int req_item_count(PushItem* it) noexcept nogil:
    # Returns the number of records in an item.
    return it.run.n if it.run != NULL else 1

cdef inline size_t req_item_bytes(PushItem* it) noexcept nogil:
    # Returns the bytes of an item's payload and headers. Runs have no headers of their own.
    return it.payload.n + (it.more.headers.n if it.more != NULL else 0)

cdef struct PushReq:
    int n
    int room                  # items for which there is memory
    bint counts               # the answer holds counts instead of items
    bint replayed             # the same request stored some of it before
    size_t unpacked           # bytes of memory beside the body
    PushItem* items

cdef struct PushOptions:
    Slice queue               # for items that name no queue; p NULL: not given
    Slice part
    bint bare                 # a line is a payload, not an item
    bint counts               # the answer holds counts instead of items
    int64_t due               # delivery time for items that give none, 0: at once

# ---- pops, and streams of messages -----------------------------------------------------------------------------------

cdef enum ParamKind:          # type of a query parameter (route/popquery)
    PARAM_TEXT
    PARAM_NAME                # text of at most NAME_MAX bytes
    PARAM_TRUTH
    PARAM_NUMBER              # integer, read as in Queen MQ; with QUEEND_STRICT as PARAM_WHOLE
    PARAM_WHOLE               # whole number from low to high

cdef struct Param:
    Slice name
    int kind
    int of                    # routes that accept it, one bit each
    int low
    int high

cdef struct ParamValue:
    Slice text                # decoded
    int found                 # QUERY_*
    int number
    bint given                # `number` holds a valid integer
    bint yes

cdef inline int req_number(const ParamValue* v, int missing) noexcept nogil:
    return v.number if v.given else missing

cdef enum FeedForm:
    FEED_NONE = 0
    FEED_CHUNKS = 1           # server-sent events
    FEED_PLAIN = 2            # server-sent events for a client that cannot read chunks
    FEED_SOCKET = 3           # a WebSocket

cdef struct FeedReq:          # what a stream asks for besides its pops
    int credit                # messages without an acknowledgment, 0: not given
    int beat_s                # heartbeat interval
    bint release              # its leases end with the stream
    bint release_given
    int window                # most messages of a partition in one window; 0: each message is sent alone

cdef enum Conflation:
    CONFLATION_NONE = 0       # the answer does not mention it
    CONFLATION_ON = 1         # the group conflates
    CONFLATION_CONFLICT = 2   # the pop asks for it, and the group does not conflate

cdef struct PopReq:
    int route
    Slice queue
    Slice partition
    Slice group
    Slice ns
    Slice task
    int batch
    int partitions
    int timeout_ms
    int lease_s               # of this pop; 0: the queue's lease time
    bint wait
    bint auto_ack
    bint autopilot
    bint frames               # asks for a framed answer
    bint events               # asks for CloudEvents
    bint conflation           # asks for the newest message of each partition only
    uint8_t feed              # FEED_*: form in which a stream's messages are written
    bint window               # all messages form one window
    bint batch_given
    bint partitions_given
    bint sub_new
    bint sub_from_valid
    int64_t sub_from_us

cdef struct PopMessage:
    unsigned char[16] id
    unsigned char[16] record_id
    Slice payload
    bint as_event
    uint8_t feed              # FEED_*
    bint window               # it is part of a window
    size_t window_at          # where the window begins in the answer
    Extras extras             # without a text: the record id is the transactionId
    uint8_t conflation        # CONFLATION_*
    int claimed               # partitions in the answer
    Slice lease               # 36 bytes, empty with autoAck
    Slice queue
    Slice group
    Slice partition
    Slice partition_uuid
    int attempt
    int64_t created_us
    int64_t offset
    # popreply_json keeps the fields below from one message to the next; all zero before the first
    int64_t time_us           # moment that `time` spells
    char[28] time
    const char* tail_uuid     # partition_uuid.p for which the tail was written, with tail_attempt
    int tail_attempt
    size_t tail_at            # where the tail stands in the answer
    size_t tail_n

# ---- acknowledgments -------------------------------------------------------------------------------------------------

# AckItem.status. The function queend.ack has the same numbers, except ACK_OTHER.
cdef enum AckStatus:
    ACK_COMPLETED = 0
    ACK_FAILED = 1
    ACK_DLQ = 2
    ACK_RETRY = 3
    ACK_UPTO = 4              # completes the message and all before it
    ACK_WINDOW = 16           # added to a status for queend.ack: applies to all messages that the lease still holds
    ACK_OTHER = 255           # an unknown word

# Values of AckItem.delay_us and AckItem.partition_id.
cdef enum:
    ACK_DELAY_OF_QUEUE = -1       # as configured in the queue
    ACK_PARTITION_UNREAD = 0      # its UUID was not read yet
    ACK_PARTITION_NONE = -1       # its UUID names no partition of this database

cdef struct AckItem:
    AckItem* next
    Partition* partition
    Group* group
    Slice txid_json
    Slice error
    Slice group_name          # of an acknowledgment in a transaction
    Slice queue_name
    Slice partition_name
    unsigned char[16] id
    unsigned char[16] lease
    unsigned char[16] partition_uuid
    int64_t partition_number
    int64_t delay_us          # pause before a redelivery, or ACK_DELAY_OF_QUEUE
    int32_t partition_id      # or ACK_PARTITION_*
    uint8_t status            # AckStatus
    uint8_t code
    uint8_t asked             # look-ups that named its partition or group, at most ACK_ROUNDS
    bint has_lease
    bint lease_bad            # the given lease is no valid UUID, so it matches no lease
    bint done
    bint window               # applies to all that the lease holds: has_lease is set and id is absent
    int window_n              # messages that the window held

cdef inline int req_ack_count(AckItem* it) noexcept nogil:
    # Returns the number of messages that the acknowledgment is about.
    return it.window_n if it.window else 1

cdef struct AckReq:
    Slice group
    int n
    AckItem* items

# ---- transactions ----------------------------------------------------------------------------------------------------

cdef enum TxKind:
    TX_UNKNOWN = 0
    TX_ACK
    TX_PUSH

# Values above TX_FAULT_NONE are reasons of a refusal.
cdef enum TxFault:
    TX_FAULT_MEMORY = -1      # memory ran out
    TX_FAULT_NONE = 0
    TX_FAULT_TYPE
    TX_FAULT_STATUS
    TX_FAULT_LEASE
    TX_FAULT_NOT_FOUND
    TX_FAULT_DUPLICATE
    TX_FAULT_OF_DELETED       # duplicate of a deleted message
    TX_FAULT_FULL
    TX_FAULT_LATE             # should be dead-lettered, but its group completed it before

# Outcomes of a transaction, besides the index of the failed operation.
cdef enum TxOutcome:
    TX_DONE = -1
    TX_LEASE = -2             # a required lease is not live
    TX_CLEAR = -3             # only checked, without a refusal
    TX_KEYS = -4              # a required operation on a key was not applied
    TX_TIMERS = -5            # there are too many timers
    TX_UNSEALED = -6          # a timer's payload must be sealed first
    TX_FAULTS = 10            # added to an outcome that is kept, so that none is 0

cdef struct TxOp:
    int kind
    int fault
    Slice type_json
    AckItem* ack
    PushItem* push

cdef struct TxReq:
    int n
    int room                  # operations for which there is memory
    int given                 # elements of the operations array
    TxOp* ops
    int n_required
    unsigned char* required
    unsigned char[16] id
    bint counts               # the answer holds counts instead of items
    size_t unpacked           # bytes of memory beside the body
    KvReq kv
    TimerReq timers

# ---- stream cycles ---------------------------------------------------------------------------------------------------

cdef struct CycleOp:
    Slice key
    Slice value               # p NULL: deletes the key
    double end                # end of the operation's window
    bint has_end
    bint dropped              # a later operation replaces this one: it has the same key

cdef struct CycleSpace:
    CycleSpace* next
    Slice queue               # queue to create, with ns and task, if it is missing
    Slice ns
    Slice task

cdef struct CycleReq:
    Slice query_json          # literals as sent, for the answer (also partition_json)
    Slice partition_json
    Slice partition           # text of a partition's id or number
    Slice group
    Slice failed              # why a well-formed cycle cannot be done; p NULL: it can
    Slice error               # why the messages that it acknowledges failed
    const char* code          # error code of a refusal
    unsigned char[16] query
    int n                     # number of operations, as sent
    CycleOp* ops
    PushReq push
    CycleSpace* spaces
    bint has_query
    bint keeps                # the cycle keeps the lease
    bint has_ack
    bint has_lease
    bint dead                 # the messages that it acknowledges failed
    bint windows_closed       # its windows were closed before: nothing was stored
    unsigned char[16] ack
    unsigned char[16] lease
    int count

# ---- extensions of leases --------------------------------------------------------------------------------------------

# LeaseReq.status. The function queend.renew has the same numbers.
cdef enum LeaseStatus:
    LEASE_EXTENDED = 0
    LEASE_NOT_FOUND = 1
    LEASE_EXPIRED = 2

cdef struct LeaseReq:
    unsigned char[16] lease   # all zero if the text is no UUID: no lease has that id
    Slice lease_text
    int seconds
    int status                # LeaseStatus
    int renewed
    int64_t expires_us

# ---- grants: what a verified token allows ----------------------------------------------------------------------------

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

cdef inline bint req_grant_stale(Grant* g) noexcept nogil:
    # Returns True if the table forgot all grants since g was copied: the token has to be verified again.
    return g != NULL and g.epoch != atomic_get64(&grants_epoch)

cdef inline Slice req_subject(Grant* g) noexcept nogil:
    return slice_of(<const char*>g + g.subject_at, g.subject_n)
