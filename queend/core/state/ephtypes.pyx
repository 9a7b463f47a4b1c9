# Ephemeral queues: what they hold, and requests for them. In: what route/ephbody read. Out: fields. Owner: the stripe
# of a queue (EphStripe) owns the queue and all below it; a request is its worker's. Locks: EphStripe.lock guards all
# that is reachable from a queue, and the fields of a waiting pop that the lists use.

cdef struct EphCursor
cdef struct EphFlight
cdef struct EphGroup
cdef struct EphMessage
cdef struct EphPartition
cdef struct EphPop
cdef struct EphQueue

cdef enum:
    EPH_STRIPES = 16
    EPH_QUEUES_MOST = 10000   # queues of the daemon
    EPH_PARTITIONS_MOST = 10000       # of a queue
    EPH_GROUPS_MOST = 1000            # of a queue
    EPH_CURSORS_MOST = 100000         # of a queue: groups times partitions
    EPH_ITEMS_MOST = 10000    # messages of a push or pop, acknowledgments of a call
    EPH_ANSWER_MOST = 8 << 20 # bytes of payloads in one answer; the first message is always delivered
    EPH_TIMEOUT_MS = 300000   # longest long poll
    EPH_RETRIES_MOST = 1000

cdef enum:
    EPH_IDLE_US = 3600000000  # after an hour without a request, queues, partitions and groups are forgotten

# ---- a queue ---------------------------------------------------------------------------------------------------------

cdef struct EphOptions:
    int64_t max_bytes         # of payloads
    int64_t max_length        # messages
    int64_t ttl_us            # 0: messages do not expire
    int64_t lease_us
    int retry_limit
    int window_ms             # how long a waiting pop gathers messages, 0: not
    int window_count          # messages that end the gathering; 0: the batch of the pop
    bint drops_oldest         # policy dropOldest; else a push beyond the bounds is refused

cdef struct EphLimits:        # written before the threads start
    int64_t bytes             # memory of all queues; 0: there are none
    bint shared               # the daemon has peers: there are no ephemeral queues

cdef uint64_t eph_start       # random number of this start; part of each id

cdef struct EphFigures:       # of the daemon; each word is read and written atomically
    int64_t bytes             # memory in use
    int64_t queues
    int64_t pushed
    int64_t popped
    int64_t acked
    int64_t redelivered
    int64_t dropped_bounds    # by dropOldest
    int64_t dropped_ttl
    int64_t dropped_retry
    int64_t refused           # pushes refused because a bound was reached

cdef struct EphStripe:
    # A part of the queues, chosen by the hash of their names.
    uv_mutex_t lock
    Table queues              # EphQueue by the hash of its name
    EphQueue* first           # the longest unused first
    EphQueue* last
    Heap leases               # EphFlight.due of messages that are leased
    Heap ends                 # EphQueue.ends of queues with ttlSeconds that hold messages
    int n
    int64_t due_us            # earliest due time of both heaps, INT64_MAX: none; read without the lock

cdef struct EphQueue:
    EphQueue* before          # first: links of the stripe's list
    EphQueue* next
    EphStripe* stripe
    Slice name
    uint64_t key
    EphOptions options
    bint declared
    int64_t life              # number of this queue's contents: a reset, and a queue of the same name, have another
    int64_t last_id
    EphMessage* oldest
    EphMessage* newest
    int64_t n
    int64_t bytes             # of payloads
    Table named               # EphPartition by the hash of its name
    EphPartition* first       # the longest unused first
    EphPartition* last
    int n_partitions
    Table groups              # EphGroup by the hash of its name
    EphGroup* group_first     # the longest unused first
    EphGroup* group_last
    int n_groups
    int n_wait
    HeapNode ends             # when its oldest message expires
    int64_t used_us
    int64_t dropped_bounds
    int64_t dropped_ttl
    int64_t dropped_retry

cdef struct EphPartition:
    EphPartition* before      # first: links of the queue's list
    EphPartition* next
    EphQueue* queue
    Slice name
    uint64_t key
    EphMessage* oldest
    EphMessage* newest
    int64_t n
    int64_t bytes
    EphCursor* cursors        # one of each group of the queue
    int64_t used_us

cdef struct EphMessage:
    EphMessage* before        # first: links of the partition's list
    EphMessage* next
    EphMessage* older         # links of the queue's list
    EphMessage* newer
    EphPartition* partition
    int64_t id                # rises within the queue
    int64_t pushed_us
    int done                  # groups that have completed it
    size_t n
    char[1] payload           # n bytes

cdef struct EphGroup:
    EphGroup* before          # first: links of the queue's list
    EphGroup* next
    EphQueue* queue
    Slice name
    uint64_t key
    Table flights             # EphFlight by the id of its message
    Table cursors             # EphCursor by the address of its partition
    EphCursor* ready          # cursors with messages to deliver, in turns
    EphCursor* ready_last
    EphPop* wait_first        # pops that wait for any partition
    EphPop* wait_last
    int n_wait                # pops that wait, also for one partition
    int64_t pending           # messages not completed
    int64_t leased            # of these: delivered, their lease not over
    int64_t skipped           # messages dropped before the group completed them
    int64_t used_us

cdef struct EphCursor:
    EphCursor* before         # first: links of the group's ready cursors
    EphCursor* next
    EphCursor* of_partition   # next cursor of the partition
    EphPartition* partition
    EphGroup* group
    EphMessage* at            # first message that was never delivered; NULL: there is none
    Heap again                # EphFlight.due of messages to deliver again; `at` is the message's id
    EphPop* wait_first        # pops that wait for this partition
    EphPop* wait_last
    int64_t pending
    int64_t leased
    bint is_ready             # it is in the group's list

cdef struct EphFlight:        # a message that a group has received and not completed
    HeapNode due              # in the stripe's leases, or in the cursor's `again`
    EphCursor* cursor
    EphMessage* message
    int attempts              # deliveries before the current one
    bint leased

# ---- requests --------------------------------------------------------------------------------------------------------

cdef struct EphPushReq:
    Slice queue
    Slice partition
    Slice* payloads
    int n
    int room
    int64_t bytes

cdef struct EphAck:
    Slice id_json             # literal with quotes
    int64_t life
    int64_t message
    int attempts
    bint known                # the id is one of this daemon's form
    bint ours                 # of this start of the daemon
    bint fails                # status failed or retry
    uint8_t outcome           # EPH_ACKED…
    bint dropped              # it was the last attempt

cdef enum EphOutcome:
    EPH_ACKED = 0
    EPH_REDELIVERED = 1
    EPH_STALE = 2
    EPH_UNKNOWN = 3

cdef struct EphAckReq:
    Slice queue
    Slice group
    EphAck* acks
    int n
    int room

cdef struct EphPopReq:
    Slice queue
    Slice partition
    bint any_partition
    Slice group
    int batch
    bint wait
    int timeout_ms
    bint auto_ack

cdef struct EphTaken:         # a delivered message, to be given back if its answer does not leave
    int64_t message
    int attempts

cdef struct EphPop:
    Job job
    EphPop* before            # links of a cursor's or group's list while it waits; `next` also of a list of woken pops
    EphPop* next
    EphPopReq req
    HeapNode deadline         # in the worker's heap while it waits
    EphGroup* group           # where it waits; NULL: in no list
    EphCursor* cursor
    int64_t until_us          # end of the long poll; 0: it does not wait
    int64_t window_us         # end of the gathering, 0: nothing was found yet
    bint queue_gone           # its queue was deleted while it waited
    bint client_gone
    int64_t life              # of the queue that it took from
    EphTaken* taken
    int n_taken
