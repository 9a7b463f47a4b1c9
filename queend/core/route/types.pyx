# The requests of the hot routes and what their answers are made of. Parsers fill them from bytes, the engine fills what
# it learns, replies read them. Every slice stands in the request's arena or body and lives as long as the request.

cdef enum:
    ROUTE_NONE = 0            # not a hot one
    ROUTE_PUSH = 1
    ROUTE_POP_QUEUE = 2       # any partition of a queue
    ROUTE_POP_PARTITION = 3
    ROUTE_POP_ANY = 4         # any queue of a namespace or task
    ROUTE_ACK = 5
    ROUTE_ACK_BATCH = 6
    ROUTE_TRANSACTION = 7
    ROUTE_LEASE = 8
    ROUTE_LIVEZ = 9
    ROUTE_READYZ = 10

cdef enum:
    NAME_MAX = 255            # bytes of a queue, partition or group name
    TXID_MAX = 255            # characters of a transactionId

# ---- push ----------------------------------------------------------------------------------------------------------

cdef enum IdKind:
    ID_OURS = 0               # made here (version 7)
    ID_SEVEN = 1              # the client's, a UUID of version 7 in lower case
    ID_OTHER = 2

cdef enum PushStatus:
    PUSH_QUEUED = 0
    PUSH_DUPLICATE = 1
    PUSH_FAILED = 2
    PUSH_BUFFERED = 3

cdef struct PushItem:
    PushItem* next            # engine: chain inside one partition's group
    void* partition           # engine: Partition* once resolved
    void* job                 # engine
    PushItem* original        # engine: the first item of the same call with this id
    const char* partition_uuid    # engine: 36 characters
    Slice queue               # decoded
    Slice part                # decoded
    Slice queue_json          # literals with quotes, as the client wrote them
    Slice txid_json
    Slice txid                # decoded
    Slice payload             # the exact bytes of the JSON value
    Slice sub                 # producer; may be empty
    unsigned char[16] id      # the record's
    unsigned char[16] trace
    unsigned char[16] message_id  # engine: of the stored message, the original's for a duplicate
    uint8_t id_kind
    uint8_t keep_text         # txid is not told by the id
    uint8_t has_trace
    uint8_t status
    int32_t index             # in the request
    int64_t offset            # engine: of the stored message
    int64_t created_us        # engine: of the stored message

cdef struct PushReq:
    int n
    PushItem* items

# ---- pop -----------------------------------------------------------------------------------------------------------

cdef enum PopWhy:             # why a pop brings nothing
    WHY_NO_PARTITION = 0      # wildcard, nothing claimable
    WHY_NOT_FOUND = 1         # specific, queue or partition unknown
    WHY_LEASE_HELD = 2
    WHY_WINDOW = 3
    WHY_NOTHING = 4           # claimed but nothing eligible
    WHY_EXPIRED = 5           # long poll ran out

cdef struct PopReq:
    Slice queue               # empty in a namespace pop
    Slice partition           # specific pop; p is not NULL there even when the name is empty
    Slice group
    Slice ns
    Slice task
    int route
    int batch                 # messages, at least 1
    int partitions            # at least 1
    int timeout_ms
    bint wait
    bint auto_ack
    bint autopilot            # what was not given may be chosen, and is told in the answer
    bint batch_given
    bint partitions_given
    bint conflation           # asked for; not offered
    bint frames               # asked for; not offered
    bint sub_new              # a group seen first starts now
    bint sub_from_valid       # or at this time
    int64_t sub_from_us

cdef struct PopMessage:
    unsigned char[16] id      # message id
    unsigned char[16] record_id   # the transactionId when txid is empty
    Slice txid                # text
    Slice trace               # 16 bytes or empty
    Slice sub
    Slice payload             # JSON
    Slice queue               # names, decoded
    Slice partition
    Slice group
    Slice partition_uuid      # 36 characters
    Slice lease               # 36 characters, empty with auto-ack
    int attempt
    int64_t offset
    int64_t created_us
    # Kept from message to message by pop_reply_message; zeroed before the first.
    int64_t time_of           # created_us that time_text spells
    char[28] time_text
    const char* tail_of       # partition_uuid.p and attempt that the tail was written for
    int tail_attempt
    size_t tail_at            # where it stands in the answer
    size_t tail_len

# ---- ack -----------------------------------------------------------------------------------------------------------

cdef enum AckStatus:
    ACK_COMPLETED = 0
    ACK_FAILED = 1
    ACK_DLQ = 2
    ACK_RETRY = 3
    ACK_UNKNOWN = 255         # a word nobody knows

cdef enum:                    # bits of AckItem.code
    ACKED_OK = 1
    ACKED_DLQ = 2
    ACKED_RELEASED = 4
    ACKED_NOT_FOUND = 8
    ACKED_BAD_LEASE = 16

cdef struct AckItem:
    AckItem* next             # engine: chain inside one row
    void* partition           # engine: Partition*
    void* group               # engine: Group*
    Slice txid_json           # literal as the client wrote it
    Slice error               # text for the dead letter; empty: none
    Slice group_name          # the group it is for
    Slice queue_name          # engine: p is NULL when the partition is unknown
    Slice partition_name      # engine
    unsigned char[16] id      # the record's
    unsigned char[16] lease
    unsigned char[16] partition_uuid
    int64_t partition_number  # given as a decimal number instead; else 0
    int32_t partition_id      # engine
    uint8_t status
    uint8_t code              # engine: the result
    bint has_lease
    bint lease_bad            # not the spelling of a lease: never valid
    bint done                 # engine
    bint group_missing        # engine

cdef struct AckReq:
    Slice group
    int n
    AckItem* items
    bint single

# ---- transaction ---------------------------------------------------------------------------------------------------

cdef enum TxKind:
    TX_UNKNOWN = 0
    TX_ACK = 1
    TX_PUSH = 2

cdef enum TxFault:            # why the operation at fault failed
    TX_FAULT_TYPE = 0         # no such type of operation
    TX_FAULT_STATUS = 1       # a status transactions do not have
    TX_FAULT_LEASE = 2
    TX_FAULT_NOT_FOUND = 3
    TX_FAULT_DUPLICATE = 4

cdef struct TxOp:             # one acknowledgment or one pushed item
    int kind
    int fault
    AckItem* ack
    PushItem* push
    Slice type_json           # literal of an unknown type, `null` when absent

cdef struct TxReq:
    int n
    TxOp* ops                 # flat: a push operation of k items is k of them
    int n_required
    unsigned char* required   # 16 bytes each
    unsigned char[16] id      # names the transaction in its answer

# ---- lease ---------------------------------------------------------------------------------------------------------

cdef struct LeaseReq:
    Slice text                # as in the path
    unsigned char[16] lease   # all zero (nobody's) when text is no UUID
    int seconds
    int status                # engine: 0 extended, 1 not found, 2 expired
    int renewed               # engine
    int64_t expires_us        # engine
