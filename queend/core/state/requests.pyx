# What a request asks for: what its route writes, the engine fills in, and the answer is made from. Plain structs in the
# request's arena. Owner: the request's worker, except where a field says otherwise.

cdef struct Group
cdef struct Partition
cdef struct Queue
cdef struct PushPart

cdef enum:
    NAME_MAX = 255            # bytes of a queue, partition or group name
    TXID_MAX = 255            # characters of a transactionId
    MAX_TIMEOUT_MS = 115000   # longest long poll
    AUTOPILOT_BATCH = 200
    BATCH_MAX = 10000
    ACK_UPTO = 4              # status of an acknowledgment: completed, with all that stands before it
    ACK_WINDOW = 16           # added to one, on the way to the database: of all that the lease still has
    LEASE_MAX = 86400         # seconds, asked for by a pop
    FEED_BEAT_MOST_S = 600    # between two signs of life of a stream

cdef enum:
    DELAY_DAYS = 366          # the longest that a message or a partition may be told to wait

cdef enum Route:              # of those that one function takes (HotRoute)
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

cdef inline bint route_names_partition(int route) noexcept nogil:
    return route == ROUTE_POP_PARTITION or route == ROUTE_STREAM_PARTITION

cdef struct PushRun

cdef struct PushItem:
    PushItem* next
    PushItem* original        # the first record of the same call with this id
    int original_at           # which of its run
    PushRun* run              # many records in one item: ids, texts and payloads are in there (payload.n: their bytes)
    Partition* partition
    Queue* room               # the queue with a bound of which it takes room
    PushPart* of_part         # that takes it to its stream
    const char* partition_uuid        # 36 bytes
    Slice queue
    Slice part
    # literals with quotes as the client wrote them, for the answer; p NULL where there are none
    Slice queue_json
    Slice txid_json
    Slice txid                # p NULL: made here
    Slice payload             # exact bytes
    Slice sub                 # producer subject
    Extras* more              # due, seal, headers; NULL: none of them
    unsigned char[16] id
    unsigned char[16] trace
    unsigned char[16] message_id
    uint8_t id_kind           # 0 made here (version 7), 1 the client's version 7, 2 anything else
    uint8_t keep_text
    uint8_t has_trace
    uint8_t timed             # said itself when it may be delivered
    uint8_t keyed             # its id follows from an Idempotency-Key: found stored means stored by this request before
    # 0 queued, 1 duplicate, 2 failed, 3 in the failover buffer, 4 not stored because the database was not reached
    uint8_t status
    uint8_t of_deleted        # the message it is a duplicate of was deleted
    uint8_t full              # failed because its queue is full; offset is then the queue's maxSize
    int64_t offset
    int64_t created_us

cdef enum:
    RUN_LEAST = 16            # fewer records are better merged with others of their partition
    RUN_MOST = 1000           # as in any row
    RUN_BYTES = 65536         # of a body as it is stored, as in any row
    RUN_RATIO = 16            # what is stored compressed unpacks to at most so many times its size

cdef struct PushRun:
    int n
    uint8_t codec             # BODY_V1 or BODY_FRAMES
    bint open                 # the records are items of their own now
    bint made                 # their ids were made here
    bint has_v7
    bint has_other
    bint rising               # each id is larger than the one before
    unsigned char[16] lo      # of the version-7 ids
    unsigned char[16] hi
    unsigned char* ids        # 16 bytes each
    int32_t partition_id      # for the answer
    size_t bytes              # about what the body takes
    Slice* payloads           # BODY_V1
    Slice stored              # BODY_FRAMES: the client's zstd frame
    Slice inner               # and what it unpacks to
    PushItem* items           # room for n, filled by run_open

cdef inline int pushitem_count(PushItem* it) noexcept nogil:
    # Records in an item.
    return it.run.n if it.run != NULL else 1

cdef struct PushReq:
    int n
    bint counts               # answered in numbers
    bint replayed             # some of it was stored by the same request before
    size_t unpacked           # bytes the request takes beside its body
    PushItem* items

cdef enum ParamKind:          # of a parameter of a query (route/pop)
    PARAM_TEXT
    PARAM_NAME                # text of at most NAME_MAX bytes
    PARAM_TRUTH
    PARAM_NUMBER              # a whole one; from low to high, unless that is passed over (QUEEND_STRICT)

cdef struct Param:
    Slice name
    int kind
    int of                    # whose it is: a bit each
    int low
    int high

cdef struct ParamValue:
    Slice text                # decoded
    int found                 # 0: absent, -1: it cannot be decoded
    int number
    bint given                # and it is one
    bint yes

cdef inline int param_number(const ParamValue* v, int missing) noexcept nogil:
    return v.number if v.given else missing

cdef enum FeedForm:
    FEED_NONE = 0
    FEED_CHUNKS = 1           # server-sent events
    FEED_PLAIN = 2            # the same to a client that knows no chunks
    FEED_SOCKET = 3           # a WebSocket

cdef struct FeedReq:          # what a stream asks for besides its pops
    int credit                # messages without an acknowledgment, 0: not said
    int beat_s                # it hears something so often
    bint release              # its leases end with it
    bint release_given
    int window                # messages of a partition that come as one, at most; 0: each comes for itself

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
    int lease_s               # of this pop; 0: as the queue says
    bint wait
    bint auto_ack
    bint autopilot
    bint frames               # the answer is wanted framed
    bint events               # or as CloudEvents
    uint8_t feed              # FEED_*: it is a stream's, and its messages are written as one's
    bint window               # all of them together
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
    bint window               # it is one of a window
    size_t window_at          # where that began in the answer
    Extras extras             # without a text: the record id's spelling is the transactionId
    int claimed               # partitions its answer is about
    Slice lease               # 36 bytes, empty with autoAck
    Slice queue
    Slice group
    Slice partition
    Slice partition_uuid
    int attempt
    int64_t created_us
    int64_t offset
    # what message_put keeps from one message to the next; all zero before the first
    int64_t time_us           # that `time` spells
    char[28] time
    const char* tail_uuid     # partition_uuid.p and attempt that the tail was written for
    int tail_attempt
    size_t tail_at            # where it stands in the answer
    size_t tail_n

cdef struct AckItem:
    AckItem* next
    Partition* partition
    Group* group
    Slice txid_json
    Slice error
    Slice group_name          # of a transaction's ack
    Slice queue_name
    Slice partition_name
    unsigned char[16] id
    unsigned char[16] lease
    unsigned char[16] partition_uuid
    int64_t partition_number
    int64_t delay_us          # what goes back waits so long, -1: as the options of its queue say
    int32_t partition_id
    uint8_t status            # 0 completed, 1 failed, 2 dlq, 3 retry, ACK_UPTO, 255 any other word
    uint8_t code
    bint has_lease
    bint lease_bad            # given, but not the text of a UUID: no lease has that name
    bint done
    bint window               # of all that the lease has: has_lease, and no id
    int window_n              # how many that were

cdef inline int ackitem_count(AckItem* it) noexcept nogil:
    # Messages it is about.
    return it.window_n if it.window else 1

cdef struct AckReq:
    Slice group
    int n
    AckItem* items

cdef enum TxKind:
    TX_UNKNOWN = 0
    TX_ACK
    TX_PUSH

cdef enum TxFault:
    TX_FAULT_NONE = 0
    TX_FAULT_TYPE
    TX_FAULT_STATUS
    TX_FAULT_LEASE
    TX_FAULT_NOT_FOUND
    TX_FAULT_DUPLICATE
    TX_FAULT_OF_DELETED       # a duplicate of a message that was deleted
    TX_FAULT_FULL
    TX_FAULT_LATE             # to be dead-lettered, but its group has done it

cdef struct TxOp:
    int kind
    int fault
    Slice type_json
    AckItem* ack
    PushItem* push

cdef struct TxReq:
    int n
    TxOp* ops
    int n_required
    unsigned char* required
    unsigned char[16] id
    bint counts               # done is answered in numbers
    size_t unpacked           # bytes the request takes beside its body

cdef struct CycleOp:
    Slice key
    Slice value               # p NULL: the key goes
    double end                # of its window
    bint has_end
    bint dropped              # a later operation has the same key

cdef struct CycleSpace:
    CycleSpace* next
    Slice queue               # where it is to stand, should it be made
    Slice ns
    Slice task

cdef struct CycleReq:
    Slice query_json          # literals as sent, for the answer
    Slice partition_json
    Slice partition           # its text: an id of the wire, or a number
    Slice group
    Slice failed              # why it cannot be done, though the request is well-formed; p NULL: it can
    Slice error               # why what it acknowledges failed
    const char* code          # of a refusal
    unsigned char[16] query
    int n                     # operations, as sent
    CycleOp* ops
    PushReq push
    CycleSpace* spaces
    bint has_query
    bint keeps                # the lease
    bint has_ack
    bint has_lease
    bint dead                 # what it acknowledges failed
    bint gone                 # the windows it closes are closed: nothing was stored
    unsigned char[16] ack
    unsigned char[16] lease
    int count

cdef struct LeaseReq:
    unsigned char[16] lease   # all zero, which is nobody's, when the text is no UUID
    Slice lease_text
    int seconds
    int status                # 0 extended, 1 not found, 2 expired
    int renewed
    int64_t expires_us

cdef enum PushForm:
    PUSH_JSON = 0             # and every type nobody claims: clients send JSON under many names
    PUSH_LINES                # application/x-ndjson
    PUSH_ARROW                # application/vnd.apache.arrow.stream
    PUSH_FRAMES               # application/x-queen-push

cdef struct PushOptions:
    Slice queue               # of items that name none; p NULL: not given
    Slice part
    bint bare                 # a line is a payload, not an item
    bint counts               # the answer is wanted in numbers
    int64_t due               # of items that do not say themselves when they may be delivered, 0 = at once
