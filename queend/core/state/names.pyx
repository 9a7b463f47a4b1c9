# What this process knows of queues, partitions and consumer groups. Owner: the process.
# Guarded by catalog.lock; fields of the pop side by book.lock; what else guards a field is said there.

cdef struct CachedRow
cdef struct Cursor
cdef struct PopJob
cdef struct PushGroup
cdef struct IdSet
cdef struct Tally

cdef struct Capacity:         # guarded by capacity_lock
    int64_t answer            # of queue_sizes, less what this process had stored when it was asked
    int64_t asked_us          # monotonic, 0 = never
    int64_t took_us
    int64_t taken             # records let in, less those that were not stored
    int64_t stored
    SharedFlag wanted         # a push waits for another answer: read without the lock

cdef enum:
    SHARED_GROUP = 1          # each group has a rate over all partitions
    SHARED_QUEUE = 2          # all groups together have one
    SHARED_BITS = 3
    RATE_WANT = 1000000       # most tokens asked for at once
    RATE_HELD_US = 250000     # how long a slice is held
    RATE_LEAST_US = 1000      # between two looks
    RATE_PAUSE_US = 100000    # after an error
    RATE_AGAIN_US = 1000000   # until an empty bucket is asked again, at most

cdef struct Rate:             # the slice of a bucket in the database that this process holds (ready/rates): the book's
    int64_t tokens
    int64_t until_us          # monotonic: what is left is given back then
    int64_t next_us           # monotonic: the bucket is empty until then
    int want                  # tokens that are missing: asked for next

cdef struct Queue:
    int32_t id
    int32_t epoch
    SharedFlag dead
    Slice name
    Slice ns                  # it and the task are replaced with the book locked as well
    Slice task
    SharedInt64 lease_us
    SharedInt64 delay_us
    SharedInt64 window_us
    SharedInt64 retry_delay_us
    SharedInt32 retry_limit
    SharedInt32 max_size          # 0: no bound
    SharedFlag sealed               # its payloads are encrypted
    SharedInt32 priority
    SharedInt64 ttl_us            # 0: messages do not grow old
    Slice paused              # ids of its groups that are paused, each 4 bytes; 0: all of them
    SharedInt64 rate_us           # a group is delivered a message of a partition in so long, 0: no bound
    SharedInt32 rate_burst        # so many at once
    SharedInt64 shared            # rates over all partitions: SHARED_*, and what changes with them above; 0: none
    Rate rate                     # of all groups together; guarded by the book
    Queue* shared_next            # of the catalog's list of queues with such rates
    int32_t turn                  # the group that was last served by that rate (book)
    Capacity capacity
    int64_t cleaned           # idle partitions removed, as of the last reload
    Queue* next
    Queue* same_hash
    Table partitions          # hash of the name → Partition chain
    Table groups              # hash of the name → Group chain
    Group* group_list         # guarded by the book as well
    Partition* all_partitions # those that can be found; of a buried queue all that went with it
    # monotonic, when its groups were last forgotten, 0: all of them were found again or are buried
    int64_t forgotten_us
    int64_t moved_us          # monotonic, when a reload told that groups were deleted or moved, 0: never
    uint32_t mark             # seen by the running reload
    bint changed              # by a reload: who is parked on it has not been told yet
    Tally* tally              # what it did, per worker
    uint64_t born             # the catalog's count of additions when it was added
    uint32_t filed_page       # book.lease_pages when the next was found out (book)
    bint filed_waits          # a pop by namespace or task waits for its messages (book)

cdef inline bint queue_holds_back(const Queue* q) noexcept nogil:
    # Can what is stored, and not leased, have to wait? Then only a pop in the database knows how much may be delivered.
    return q.delay_us or q.window_us or q.rate_us or q.shared

cdef struct LogEnd:           # of a partition, as this process wrote it last (push/heads)
    int64_t next              # where its newest row ends
    int64_t at                # the moment of that row
    unsigned char[16] high    # `high` of that row
    int64_t sent_us           # monotonic, when the push of that row was sent
    uint16_t alone            # pushes in a row before which nobody else had written
    uint8_t met               # how often a head that was named turned out to be another
    uint8_t known             # all of this is so, if nobody else has written since, and the row is not odd

cdef struct Partition:
    int32_t id
    SharedFlag dead
    Queue* queue
    Partition* same_hash
    Partition* all_next       # of its queue, or buried with it
    Partition* all_prev
    Cursor* buried            # its cursors, when it was removed alone
    Slice name
    char[36] uuid
    int64_t head              # next offset to be assigned, as far as known (book)
    int64_t row_base          # offset at which its newest row begins, as far as known (a hint: set by the
                              # thread of its lane's stream, read by those of transactions)
    LogEnd end                # its lane's stream's thread
    CachedRow* cache_first    # its newest rows, in memory (book)
    CachedRow* cache_last
    PushGroup* open           # what the stream of its lane gathers for it (that stream's thread)
    bint on_side              # it gathers at the stream's side (push/side; the same thread)
    # guarded by idsets.lock:
    IdSet* idset             # its ids that are not version 7, NULL: not remembered
    uint32_t no_idset_until  # monotonic, s: there was no room, 0 = may be remembered
    uint32_t crowded          # ids that were remembered when room ran out, and one
    uint8_t strange           # such ids pushed while they were not remembered, up to IDSET_FROM

cdef struct Handling:         # what was seen of a group's consumers of late (memory/autopilot), 0: nothing yet
    double claimed            # messages of a partition when it was claimed
    double message_us         # from a delivery to its acknowledgment, divided by its messages

cdef struct Group:
    int32_t id
    SharedFlag dead           # forgotten: it can be found again while it is in its queue's list
    SharedFlag paused         # its pops find nothing, those that may wait do (deliver/pause)
    Queue* queue
    Group* next               # of its queue, or buried with it
    Group* same_hash
    Slice name
    # all below: guarded by the book
    Table cursors             # partition id → Cursor
    Cursor* ready_first
    Cursor* ready_last
    int n_ready
    PopJob* wait_first
    PopJob* wait_last
    int n_wait
    Handling handling
    Rate rate                 # over all partitions
    PopJob* paced_first       # pops that wait for tokens, of it or of the queue
    PopJob* paced_last
    int n_paced
    int n_wait_only           # waiters that named one partition
    int n_delayed             # cursors in that state
    int n_leased              # cursors in that state
    uint32_t passed           # namespace pops that went to another queue while this one had something
    uint32_t favoured         # that went here while a queue of lower priority had something
    PopJob* handing           # the waiter that a leaving push is filling
    int n_handing             # claims of the group that it makes
    int64_t crowd_us          # when many were at work last: see hold_crowd
    uint8_t scan              # SCAN_*
    int32_t scan_after
    Group* scan_next
    bint scan_listed
    bint scan_twice           # asked for again while it ran
    Group* newer              # in the order of their last pops (ready/unused)
    Group* older
    uint32_t used             # book.ticks at its last pop
    bint listed               # it stands in that order
    int n_fed                 # cursors whose lease is a feed's
    Cursor* all_cursors

cdef enum:
    SCAN_WANTED = 0
    SCAN_RUNNING = 1
    SCAN_DONE = 2
    SCAN_PAUSED = 3           # begun, and given back by its worker: listed, and it goes on behind scan_after

cdef struct Tally:
    # What a queue did, per worker: plain words that only their worker's thread adds to, as answers are written, in a
    # cache line of their own, so nobody waits for anybody. Who samples them (Core.tallies) may read a slightly old
    # value. They live as long as the queue's entry in the catalog.
    uint64_t push_requests    # runs of items of the queue, as they stood in requests
    uint64_t push_messages    # stored or known before
    uint64_t pop_requests
    uint64_t pop_messages
    uint64_t pop_empty
    uint64_t ack_requests     # as push_requests
    uint64_t ack_done
    uint64_t ack_failed       # refused
    uint64_t transactions
    uint64_t lag_us           # summed over lag_n pops: how long ago the first row they delivered of was stored
    uint64_t lag_n
    uint64_t lag_most_us      # since it was sampled; the sampler sets it to 0
    uint64_t each             # bytes of an answer for each message in it, of late
    uint64_t[3] line          # to 128 bytes

cdef struct TallySeen:
    Queue* queue
    int parked
