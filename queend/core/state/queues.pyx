# Known queues, partitions and consumer groups of this process; their cursors, messages in memory, and the book. In and
# out: fields. A cursor is the position of a group in a partition; only cursor_move writes its state. Owner: the
# process.
# Locks: catalog.lock for queues, partitions and groups; book.lock for the pop side, cursors and the book. A field under
# another lock, or of one thread, names it.

cdef struct CachedRow
cdef struct Cursor
cdef struct PopJob
cdef struct PushPartition
cdef struct IdSet
cdef struct Tally

# ---- capacity and rates of a queue -----------------------------------------------------------------------------------

cdef struct Capacity:         # guarded by capacity_lock
    int64_t answer            # of queue_sizes, less the records that this process had stored when it asked
    int64_t asked_us          # monotonic, 0: never
    int64_t took_us
    int64_t taken             # records admitted, less those that were not stored
    int64_t stored
    SharedFlag wanted         # a push waits for a newer answer; read without the lock

cdef enum:
    SHARED_GROUP = 1          # each group has a rate over all partitions
    SHARED_QUEUE = 2          # all groups together have one rate
    SHARED_BITS = 3
    RATE_WANT = 1000000       # most tokens asked for at once
    RATE_HELD_US = 250000     # how long this process holds a slice of tokens
    RATE_LEAST_US = 1000      # between two looks
    RATE_PAUSE_US = 100000    # after an error
    RATE_AGAIN_US = 1000000   # longest pause until an empty bucket is asked again

cdef struct Rate:  # the slice of a bucket in the database that this process holds (ready/rates); guarded by book.lock
    int64_t tokens
    int64_t until_us          # monotonic: unused tokens are returned then
    int64_t next_us           # monotonic: the bucket is empty until then
    int want                  # missing tokens: asked for next

# ---- queues ----------------------------------------------------------------------------------------------------------

cdef enum:
    VERSION_NONE = -1         # of a catalog that is to be loaded: no database has this version
    GROUP_EVERY = 0           # instead of a group's id: every group of the queue

cdef struct Queue:
    int32_t id
    int32_t epoch
    SharedFlag dead
    Slice name
    Slice ns                  # ns and task are replaced with book.lock held as well
    Slice task
    SharedInt64 lease_us
    SharedInt64 delay_us
    SharedInt64 window_us
    SharedInt32 retry_limit
    SharedInt32 max_size          # 0: no bound
    SharedFlag sealed               # payloads are encrypted
    SharedInt32 priority
    SharedInt64 ttl_us            # 0: messages never expire
    Slice paused              # ids of the queue's paused groups, 4 bytes each; id 0: all groups
    SharedInt64 rate_us           # a group gets one message of a partition in this time, 0: no bound
    SharedInt32 rate_burst        # messages that may be delivered at once
    SharedInt32 spread            # partitions of a queue without order, 0: messages keep their order
    int64_t spread_turn           # the one that gets the next message; changed by atomic_add64 alone
    # rates over all partitions: SHARED_*, and above these bits a part that changes with the rates; 0: none
    SharedInt64 shared
    Rate rate                     # of all groups together; guarded by book.lock
    Queue* shared_next            # next in the catalog's list of queues with shared rates
    int32_t turn                  # group that was last served by `rate` (book.lock)
    Capacity capacity
    int64_t cleaned           # idle partitions removed, as of the last reload
    Queue* next
    Queue* same_hash
    Table partitions          # hash of the name → Partition chain
    Table groups              # hash of the name → Group chain
    Group* group_list         # guarded by book.lock as well
    SharedInt32 n_groups      # in group_list
    Partition* all_partitions # partitions that can be found; for a retired queue, all partitions retired with it
    Partition* last_partition
    # monotonic, when its groups were last forgotten, 0: all of them were found again or are retired
    int64_t forgotten_us
    int64_t moved_us          # monotonic, when a reload showed that groups were deleted or moved, 0: never
    uint32_t mark             # running reload that saw the queue
    bint changed              # a reload changed the queue; its parked pops have not been notified yet
    Tally* tally              # counts of the queue, one entry per worker
    # estimates by queue_measure: bytes per message of recent pushes and pops, bytes of recent answers of pops
    SharedInt64 message_bytes
    SharedInt64 answer_bytes
    uint64_t born             # the catalog's count of additions when the queue was added
    uint32_t filed_page       # book.lease_pages when filed_waits was computed (book.lock)
    bint filed_waits          # a pop by namespace or task waits for messages of the queue (book.lock)

cdef inline bint queue_holds_back(const Queue* q) noexcept nogil:
    # Returns True if stored, unleased messages may have to wait. Then only a pop in the database knows how many
    # messages may be delivered.
    return q.delay_us or q.window_us or q.rate_us or q.shared

cdef inline void queue_measure(SharedInt64* estimate, int64_t seen) noexcept nogil:
    # Counts an observation in an estimate, which rises at once and falls by eighths. 0: nothing was seen yet. Threads
    # may overwrite each other's values.
    cdef int64_t before = estimate[0]
    if seen > before:
        estimate[0] = seen
    elif before - seen >= 8:
        estimate[0] = before - ((before - seen) >> 3)

# ---- partitions ------------------------------------------------------------------------------------------------------

cdef struct LogEnd:           # end of a partition's log, as this process last wrote it (push/logend)
    int64_t next              # offset after its newest row
    int64_t at                # moment of that row
    unsigned char[16] high    # `high` of that row
    int64_t sent_us           # monotonic, when the push of that row was sent
    uint16_t exclusive        # consecutive pushes before which no other process had written
    uint8_t conflicts         # how often a named head turned out to be wrong
    uint8_t known             # the fields are valid unless another process has written since

cdef struct Partition:
    Link link                 # first: in the queue's list, or in the list of partitions retired with it
    int32_t id
    SharedFlag dead
    Queue* queue
    Partition* same_hash
    Cursor* retired_cursors   # its cursors, if the partition was removed alone
    Slice name
    char[36] uuid
    int64_t head              # next offset to be assigned, as far as known (book.lock)
    # offset of its newest row, as far as known: a hint, written by the appender of its lane, read by transactions
    int64_t row_base
    LogEnd end                # written by the thread of its lane's appender
    CachedRow* cache_first    # newest rows, in memory (book.lock)
    CachedRow* cache_last
    PushPartition* gathering  # what the appender of its lane gathers for it (that appender's thread)
    bint in_loader            # its records gather at the id loader of that appender (push/idloader; the same thread)
    # Guarded by idsets.lock:
    IdSet* idset             # ids that are not version 7, NULL: not remembered
    uint32_t no_idset_until  # monotonic, s: ids are not remembered until then (memory ran short), 0: may be
    uint32_t crowded          # 1 + number of remembered ids when memory ran short; 0: it did not
    uint8_t non_v7_count      # such ids pushed while they were not remembered, up to IDSET_FROM

# ---- consumer groups -------------------------------------------------------------------------------------------------

cdef struct Handling:         # observed behaviour of a group's consumers (memory/autopilot), 0: nothing observed yet
    double claimed            # messages of a partition when it was claimed
    double message_us         # time from delivery to acknowledgment, divided by the number of messages

cdef struct Group:
    Link link                 # first: in the order of the groups' last pops (ready/groups)
    int32_t id
    SharedFlag dead           # forgotten: it can be found again while it is in its queue's list
    SharedFlag paused         # its pops find nothing; pops that may wait are parked (deliver/popend)
    bint conflates            # gets only the newest message of each partition; constant
    Queue* queue
    Group* next               # in the queue's list, or in the list of groups retired with it
    Group* prev               # in the queue's list
    Group* same_hash
    Slice name
    # All fields below are guarded by book.lock.
    Table cursors             # partition id → Cursor
    Cursor* ready_first
    Cursor* ready_last
    int n_ready
    PopJob* wait_first
    PopJob* wait_last
    int n_wait
    Handling handling
    Rate rate                 # over all partitions
    PopJob* paced_first       # pops that wait for tokens of the group's or the queue's rate
    PopJob* paced_last
    int n_paced
    int n_wait_only           # waiters that named one partition
    int n_delayed             # cursors in CURSOR_DELAYED
    int n_leased              # cursors in CURSOR_LEASED
    uint32_t passed           # namespace pops that went to another queue while this group had messages
    uint32_t favoured         # namespace pops that went here while a queue of lower priority had messages
    PopJob* handing           # the waiter that a leaving push is filling
    int n_handing             # claims of the group that the push makes
    int64_t busy_at           # when many consumers were last active: see linger_crowd
    uint8_t scan              # SCAN_*
    int32_t scan_after
    Group* scan_next
    bint scan_listed
    bint scan_twice           # asked for again while it ran
    int scan_rests            # partitions that pops take before a scan that rests goes on
    uint32_t used             # book.ticks at the group's last pop
    bint listed               # the group stands in that order
    int n_fed                 # cursors leased to a feed
    Cursor* all_cursors

cdef enum:
    SCAN_WANTED = 0
    SCAN_RUNNING = 1
    SCAN_DONE = 2
    # begun, and goes on after scan_after: with the next free worker if it is listed, else with the group's next pop
    SCAN_PAUSED = 3

# ---- counts of a queue -----------------------------------------------------------------------------------------------

cdef struct Tally:
    # The counts of a queue, per worker. Only the worker's thread adds to these words, as it writes answers; they have a
    # cache line of their own, so threads do not contend. A reader (Core.tallies) may see a slightly old value. A tally
    # lives as long as the queue's entry in the catalog.
    uint64_t push_requests    # runs of items of the queue, as they stood in requests
    uint64_t push_messages    # stored now, or duplicates of stored messages
    uint64_t pop_requests
    uint64_t pop_messages
    uint64_t pop_empty
    uint64_t ack_requests     # runs of items of the queue, as they stood in requests
    uint64_t ack_done
    uint64_t ack_failed       # refused
    uint64_t transactions
    uint64_t lag_us           # summed over lag_n pops: age of the first row that each pop delivered
    uint64_t lag_n
    uint64_t lag_most_us      # since the last sample; the sampler sets it to 0
    uint64_t[4] line          # pads the struct to 128 bytes

cdef struct TallySeen:
    Queue* queue
    int parked

# ---- cursors ---------------------------------------------------------------------------------------------------------

cdef enum CursorState:
    CURSOR_IDLE = 0           # no deliverable message known
    CURSOR_READY = 1          # in its group's ready ring
    CURSOR_BUSY = 2           # a claim is in flight
    CURSOR_LEASED = 3         # in the due heap until the lease ends
    CURSOR_DELAYED = 4        # in the due heap until a delay, window or retry pause ends

    MISSING_AGAIN = 2         # value of Cursor.may_be_missing: forgotten while it was busy
    RECHECK_NEWS = 1          # bits of Cursor.recheck: there may be more to deliver
    RECHECK_FREE = 2          # the lease that blocked it has ended

cdef struct FeedLease

cdef struct Cursor:
    Link link                 # first: in the ready ring
    HeapNode due
    Partition* partition
    Group* group
    Cursor* all_next          # in the group's list; if the partition was retired alone, in the partition's list
    Cursor* all_prev
    PopJob* wait_first        # parked pops of exactly this partition
    PopJob* wait_last
    int64_t next_offset       # next offset to deliver, as far as known
    int64_t wakes_at          # end of the newest known pause, database clock
    uint8_t state
    uint8_t may_be_missing    # its row may not exist; MISSING_AGAIN: nor after the answer that is awaited
    uint8_t dead              # its partition is retired; the cursor is only in that partition's list
    uint8_t recheck           # RECHECK_*: what happened while it was busy; it must be checked again
    uint32_t moved            # book.moves when the state last changed
    # its newest delivery may not be acknowledged completely: the rest is delivered first
    uint8_t partly_acked
    uint32_t looked           # book.commits when its lease was last looked up, 0: not since it was leased
    FeedLease* fed            # the feed that holds its lease, NULL: none

# ---- messages in memory ----------------------------------------------------------------------------------------------

cdef enum:
    ROWCACHE_AGE_US = 10000000

cdef struct CachedRow:
    Link link                 # first: in the process's list, in order of insertion
    CachedRow* newer          # next newer row of the partition
    Partition* partition
    int64_t base
    int64_t created_us
    int64_t kept_us           # monotonic
    int n
    int refs
    bint dropped
    size_t bytes              # memory used
    Slice ids                 # as in the log, uncompressed; stored behind the struct
    Slice body
    Slice meta

cdef struct Unacked:
    Link link                 # first: in the process's list, in order of leasing
    uint64_t key
    unsigned char[16] lease
    int64_t first             # offset of the first unacknowledged record
    int64_t passed            # records before it that the claim passes (conflation); `first` is then the first of these
    int64_t base              # where a read may begin once all records are acknowledged: see queend.claim
    int64_t leased_us         # monotonic
    uint64_t place            # the cursor's when it was claimed: see queend.ack_leased; 0: unknown
    int n                     # unacknowledged records
    int done                  # acknowledged records: their ids stand before the others
    # read from the database, where others may have written: the acknowledgment also asks for the end of the log
    bint afar
    bint flying               # an acknowledgment of it is in flight
    unsigned char* ids        # 16 bytes per record; stored behind the struct

# ---- the book --------------------------------------------------------------------------------------------------------

cdef struct Book:
    uv_mutex_t lock
    Heap due
    Table name_waiters  # parked pops of queues, partitions or namespaces that are not (all) known: ready/waiters
    int n_name_waiters
    int n_cursors             # cursors in memory
    int64_t parked
    int64_t missed_us         # monotonic, when a pop that does not wait last found nothing; 0: never
    uint32_t commits          # 1 + looks that saw a commit
    uint32_t lease_pages      # how often leases were selected for a look-up
    Group* used_first         # groups in the order of their last pops, the oldest first (ready/groups)
    Group* used_last
    uint32_t ticks            # half-second ticks at which the epoch was examined (find/reclaim)
    Group* scan_first         # groups that want a scan
    SharedInt n_scans         # their number
    uint32_t moves            # state changes of all cursors
    int64_t forgets           # how often the groups of a queue were forgotten; read without the lock
    bint looked               # a look has completed: scans may begin
    const Verdict* scan_error  # the server's error of the last scan; NULL: the scan succeeded
    SharedInt64 rates_at          # monotonic, when rates are looked at next (ready/rates), 0: never

cdef Book book
