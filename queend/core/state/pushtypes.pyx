# Messages on their way into the log. A request (PushJob) is cut into parts, one for each appender that its partitions
# belong to. An appender gathers a batch: its items are grouped by partition and cut into chunks, each a row of the log.
# Owner: a PushPart travels between its job's worker and its appender's; batches, their partitions and chunks belong to
# the appender's worker. Locks: none, except idsets.lock for an IdSet.

cdef struct Appender
cdef struct Claim

# ---- bounds and failures ---------------------------------------------------------------------------------------------

cdef enum:
    LANES = 64
    ROW_RECORDS = 1000        # records in one row of the log
    ROW_BYTES = 65536         # payload bytes in one row, unless a single payload is larger
    BATCH_ITEMS = 20000
    BATCH_BYTES = 16777216
    BATCH_PARTITIONS = 4000
    HASH_FROM = 8             # from this many records on, unordered ids are looked up in a hash
    PUSHERS_PARTITIONS = 1000  # a batch takes parts of pushers up to this many partitions, bytes and items
    PUSHERS_BYTES = 2097152
    PUSHERS_ITEMS = 19000
    # For each so many groups of its queue, a partition counts once more: after the commit, every group hears of it.
    PARTITION_GROUPS = 50
    SHARE_PARTITIONS = 250    # partitions and bytes of a batch that make up a pusher's share
    SHARE_BYTES = 1048576
    SMALL_ITEMS = 16          # a part up to this size fits beside the parts of pushers
    SMALL_BYTES = 65536

# Why items could not be stored. The largest value among a request's items decides its answer.
cdef enum PushFailure:
    FAILED_NOT = 0
    FAILED_REFUSED = 500      # the database refuses them
    FAILED_UNCLEAR = 501      # the cause is unclear (ERROR_UNCLEAR)
    FAILED_UNREACHED = 503    # the database could not take them

# ---- a request and its parts -----------------------------------------------------------------------------------------

cdef struct PushPart:
    # The items of one push request that belong to one appender. Travels to the appender and back.
    InboxMsg msg
    PushJob* job
    Appender* stream
    PushItem* items           # chained by next while it travels
    int left
    # copy of the job's flag when the part was made: the job belongs to its worker, the part to its appender
    bint check_ids
    bint parted               # some of its items were sent home before it: the part follows by the same way
    # as in PushJob, for its items: written by the appender's thread while the job belongs to its worker
    int failed                # PushFailure
    const Verdict* server_error

cdef struct PushJob:
    Job job
    PushReq req
    int parts_left
    PushPart one              # the only part if a single appender takes all
    bint held                 # items came home and have not left again: counts as one part
    PushItem* unresolved      # items whose partition is not known yet
    bint naming               # waits for a round of look-ups for these items, or behind an earlier push
    bint limited              # some items use capacity of a bounded queue
    bint doubts               # some items without capacity may be stored already
    int failed                # why items could not be stored, the largest PushFailure of all
    const Verdict* server_error  # the server's error for these items; NULL: none
    bint drain                # comes from the failover buffer (failover/refill); has no client
    bint unhurried            # may take the whole deadline: a chunk of the buffer that had no answer before
    int records               # records of the chunk
    bint check_ids            # items that came home may be stored: every id is checked
    bint unreached            # the database was unreachable for its look-ups
    bint spilled              # some items go to the failover buffer (failover/spill)
    uint8_t spill_why
    uint64_t spill_address    # the client's address (budget_key), 1 if it is not known
    int spill_error           # errno of SPILL_FAILED
    int64_t held_until        # waits for older records of its partitions until then (monotonic)
    bint unsealed             # an item could not be encrypted

# ---- the failover buffer, as pushes use it ---------------------------------------------------------------------------

cdef struct FailoverHooks:
    # The failover buffer as the rooms above use it; failover/ fills in the pointers.
    void (*send)(Worker* w, PushJob* j) noexcept nogil      # spills the items; push_spilled brings the job home
    void (*answered)(PushJob* j) noexcept nogil             # ends a job that came from the buffer
    void (*retry)(int64_t pause_us) noexcept nogil          # retries after a pause, as the job could not be stored

cdef FailoverHooks failover_hooks

# ---- a batch ---------------------------------------------------------------------------------------------------------

# Values of PushPartition.known that are no offset (p_known of queend.push).
cdef enum:
    KNOWN_NOTHING = 0         # no id is remembered yet
    KNOWN_CROWDED = -1        # there is no room to remember ids
    KNOWN_LOOK = -2           # minus the offset up to which all ids are known: ids of the push may be among them

# Values of PushPartition.hint that are no offset (p_hint of queend.push).
cdef enum:
    HINT_EXPECTED = -1        # the head is named
    HINT_HIGH = -2            # minus an offset: the hint is that offset, and the answer holds `high`

cdef struct PushSlot:
    # A record of a PushPartition, found by its id.
    PushItem* it
    int at                    # its place in the item's run

cdef struct PushPartition:
    PushPartition* next
    Partition* partition
    PushItem* first
    PushItem* last
    int breadth               # see PushBatch
    int n
    size_t bytes              # of payload; of framed runs as they came, compressed
    unsigned char[16] lo
    unsigned char[16] hi
    bint has_v7
    bint has_other
    bint has_client
    bint answered
    int64_t head              # the partition's head after the commit, 0: nothing new
    PushItem* dups            # records whose id occurs earlier in the same call: answered from the first occurrence
    int64_t known             # what the statement tells the database about known ids (memory/idset); KNOWN_*
    int64_t known_at
    PushSlot* slots           # hash of ids, made if they come unordered
    uint32_t slots_mask
    int runs                  # runs in the chain
    bint compared             # its ids were compared with rows of the log (push/results)
    int missing               # records that are in none of these rows
    bint refused              # nothing was stored: must be sent again, uncompressed
    bint scheduled            # a record has a delivery time
    bint needs_ids            # must wait at the appender's id loader: push/idloader
    bint learn                # the partition's ids must be read before it is sent
    # Fields of push/logend:
    int64_t hint_offset       # what the statement tells the database about its newest row; HINT_*
    int answers               # answers received for its rows
    bint as_sent              # all records were stored unchanged
    bint has_high             # the answer contained `high`
    bint ids_recent           # all version-7 ids are within HEAD_RECENT_US of the database's clock
    bint conflict             # the named head was wrong, or did not suffice
    unsigned char[16] high
    int64_t began             # first offset
    int64_t ended             # offset after the last record
    int64_t ended_at

cdef struct PushChunk:
    PushPartition* group
    PushItem* first
    int n
    int skip
    bint whole                # stored unchanged: its offsets are consecutive
    bint scheduled            # a record has a delivery time
    bint keep                 # a reader is expected soon: the row goes into the cache
    size_t bytes              # of payload

cdef struct PushBatch:
    PushBatch* next
    Arena arena
    PushPartition* first
    PushPartition* last
    int n_partitions
    int breadth               # its partitions, counted by the groups of their queues too
    int n_items
    int n_jobs                # requests with items in the batch
    PushJob* job              # the last of these requests
    const Verdict* server_error  # the server's error of the last attempt; NULL: none
    size_t bytes
    PushChunk* chunks
    int n_chunks
    Claim** claims            # of waiters that are answered from this batch
    int n_claims
    PopJob* takers            # these waiters, chained by wait_next
    PopJob* takers_last
    int64_t incarnation       # the incarnation that its partitions belong to
    bint check_ids            # its outcome was lost once: every id is checked
    bint scheduled            # a record has a delivery time
    bint has_other            # an id is the client's and not of version 7
    bint uncompressed         # SQL removes its duplicates: no row is compressed and no id is compared here
    bint expects              # all heads are named
    bint hurried              # a push without an answer after ANSWER_MS goes into the failover buffer, if one exists
    int tries
    int64_t since_us          # when the batch was first sent
    int64_t begun_us          # when gathering began, if the operator configured a linger

# ---- appenders -------------------------------------------------------------------------------------------------------

cdef struct Pusher:
    # A connection that takes turns: its parts are in the gathering batch, or wait (push/pushers).
    Pusher* next              # in the appender's list of pushers, or of free ones
    uint64_t client           # Job.client
    PushPart* first           # waiting parts, in their order
    PushPart* last
    int partitions            # added to the `breadth` of the gathering batch
    size_t bytes              # bytes that it added to the gathering batch

cdef struct Appender:
    Call call                 # must stay first: the statement in flight
    int index
    Appender* side  # id loader: partitions that must wait gather there, so that others do not wait (push/idloader)
    Appender* main            # the appender that this id loader belongs to; NULL: this one has lanes itself
    PushPartition* learning   # the partition whose ids the id loader reads
    Worker* worker
    PushBatch* gather
    PushBatch* flying
    PushBatch* resend         # sent before the gathering batch: retries and halves of a split
    PushBatch* dropped        # freed together with the previous batch, whose results are still to be scattered
    bint leaving              # the next batch leaves before the results of this one are scattered
    Pusher* pushers           # in the order of their turns
    Pusher* pushers_last
    Pusher* pushers_free
    Table by_client           # pushers by client
    bint full                 # the gathering batch is full: parts of pushers wait for the next turn
    int passed_by             # items passed over since the last turn, as the batch has PUSHERS_PARTITIONS partitions
    int64_t retry_at          # monotonic: no attempt before this moment, after a failure
    Linger linger
    bint stale                # waits for a reload of the catalog

# ---- remembered ids, and walks over items ----------------------------------------------------------------------------

cdef struct IdSet:
    Partition* partition
    IdSet* newer
    IdSet* older
    uint64_t* cells
    uint64_t size
    uint64_t used
    int64_t origin
    int shift
    int64_t known             # every id below this offset is remembered
    int64_t known_at          # moment of the row that ends there
    bint sure                 # a row was stored on this knowledge: late_ids is known to be unnecessary
    int64_t used_us

cdef struct EachItem:         # iterates over items (push/runitem)
    PushReq* q
    int i                     # next item
    int k                     # next record of that item, if it is an expanded run

cdef struct Records:
    PushItem* it
    int at                    # place in the item's run
    BatchRow row              # for frames
