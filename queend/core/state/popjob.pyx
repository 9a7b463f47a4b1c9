# Pops, the statements that serve them, and feeds: streams of messages, which are consecutive pops for one client. In
# and out: fields. Owner: the worker of the pop, or of the feed's connection.
# Locks: book.lock guards the lists of parked pops, the leases of a feed, and the fields that say so.

cdef struct LeasedAck

# ---- a pop -----------------------------------------------------------------------------------------------------------

cdef enum Take:
    TAKE_DONE = 0             # has candidates, or nothing is ready
    TAKE_STALE = 1            # what it found was deleted since
    TAKE_PAUSED = 2           # its group is paused
    TAKE_RATE = 3             # messages are ready, but tokens are missing
    TAKE_SHORT = 4            # out of memory

cdef enum PopWhy:
    WHY_NO_PARTITION = 0      # wildcard: nothing to claim
    WHY_NOT_FOUND = 1         # specific: queue or partition unknown
    WHY_LEASE_HELD = 2
    WHY_WINDOW = 3
    WHY_NOTHING = 4           # claimed, but no message may be delivered yet
    WHY_EXPIRED = 5           # the long poll timed out

cdef enum:
    CALL_BYTES = 32 << 20     # memory that the pops of one call take, unless a single pop takes more
    CALL_FREE = 1 << 20       # smaller calls are not counted in the budget
    CALL_EACH = 1 << 20       # assumed bytes of a message if none was seen yet
    # memory of a pop by its bytes: the buffer of libpq, which doubles as it grows, the result, and the answer
    CALL_COPIES = 3
    CROWDED_US = 10000        # how often pops are looked at that wait until clients have taken answers
    CROWDED_MOST = 64         # such pops passed over for one call
    CALL_CURSORS = 1000       # candidates in one call
    POP_MAX_PARTITIONS = 1000 # candidates of one pop in one attempt
    CONFLATED_PARTITIONS = 64 # candidates of a pop of a group that conflates, if it does not say how many
    CALL_ROOM = CALL_CURSORS + POP_MAX_PARTITIONS
    CLAIM_BYTES = 8388608     # bytes of one answer; the first row is always delivered

cdef struct Claim:            # a candidate of a pop; then the records of its partition that the pop claims
    Cursor* cursor
    PopJob* job
    CachedRow* cached         # the row in memory that holds `first`; it and the rows up to first + take are referenced
    PushPartition* pushed     # the records come from a push: its items of the partition
    int row                   # first row of the records in the answer, -1: none; of a push: index of their first chunk
    bint made
    int take                  # number of records; 0: not known yet
    int64_t first             # offset of the first one
    int64_t passed            # records before it that are leased with it, and not delivered (conflation)
    uint64_t place            # the cursor's, once the claim is made; 0: unknown

cdef struct PopJob:
    Job job
    PopReq req
    HeapNode deadline         # in the worker's heap while parked
    PopJob* wait_next
    PopJob* wait_prev
    Queue* queue
    Group* group
    Partition* partition      # of a pop that names a partition
    Cursor* only              # the group's cursor in that partition
    Slice want_partition      # name of that partition while it is unknown
    bint any_queue            # a pop by namespace or task
    int missing               # matching queues in which its group was unknown at the last attempt
    bint rate_limited         # waits for tokens (ready/rates)
    bint waited               # has waited for tokens: takes what is there now
    int reserved              # tokens that it holds
    int shared                # SHARED_*: the rates of these tokens
    int allowed               # messages that it may take
    bint client_gone          # the client left
    bint asked                # asked for names since the last attempt
    bint looked_up            # its names were looked up
    bint known                # its queue exists
    uint8_t why
    int width                 # most candidates
    int room                  # allocated candidates
    bint adrift               # `claims` is not yet memory of the request
    int n_claims
    int n_made
    Claim* claims             # its candidates; then the claims that were made
    unsigned char[16] lease
    int64_t lease_us          # lease time of what it claims
    int64_t claimed_us        # monotonic, before its claiming statement was sent
    uint8_t stalls            # its claims whose lease may have ended before the answer
    int64_t until_us          # deadline of the long poll (monotonic), 0: does not wait
    int64_t paused_until      # pop maintenance: the client is told then
    int hand_left             # records that it still takes from a push (push/handover)
    int hand_width            # most partitions that it takes
    int n_messages            # messages in its answer
    int64_t first_us          # when the first delivered row was stored, 0: handed over by a push
    Buf handed                # its answer, if another thread writes it

cdef bint popjob_room(PopJob* j, int n, bint own) noexcept nogil:
    # Makes room for n claims, of which none is in use. own: the caller is the pop's worker. Any other thread calls
    # popjob_adopt there before the pop goes on. Returns False if memory ran out.
    cdef size_t bytes
    if n <= j.room:
        return True
    j.room = max(n, 2 * j.room)
    bytes = sizeof(Adopted) + j.room * sizeof(Claim)
    j.claims = <Claim*>(arena_alloc(&j.job.r.arena, bytes) if own else malloc(bytes))
    if j.claims == NULL:
        j.room = 0
        return False
    j.claims = <Claim*>(<char*>j.claims + sizeof(Adopted))
    j.adrift = not own
    return True

cdef inline void popjob_adopt(PopJob* j) noexcept nogil:
    # Makes claims that another thread allocated memory of the request.
    cdef char* block
    if j.adrift:
        block = <char*>j.claims - sizeof(Adopted)
        arena_adopt_at(&j.job.r.arena, <Adopted*>block, block, sizeof(Adopted) + j.room * sizeof(Claim))
        j.adrift = False

cdef inline int popjob_width(const PopJob* j) noexcept nogil:
    # Returns the number of partitions that the pop may take. A partition of a group that conflates has one message, so
    # the batch decides if the pop does not.
    if j.group.conflates and not j.req.partitions_given and j.want_partition.p == NULL:
        return min(j.req.batch, CONFLATED_PARTITIONS)
    return min(j.width, j.req.partitions)

cdef inline int popjob_conflation(const PopJob* j) noexcept nogil:
    # Returns what the answer says about conflation. Requires that its group is known.
    return CONFLATION_ON if j.group.conflates else CONFLATION_CONFLICT if j.req.conflation else CONFLATION_NONE

cdef inline Claim* popjob_candidate(PopJob* j, Cursor* c) noexcept nogil:
    # Adds a candidate. Requires room for it.
    cdef Claim* x = &j.claims[j.n_claims]
    memset(x, 0, sizeof(Claim))
    x.cursor = c
    x.job = j
    x.row = -1
    j.n_claims += 1
    return x

# ---- the statement of pops -------------------------------------------------------------------------------------------

cdef enum:
    POP_STALL_US = 1000000    # from this time between claim and answer on, the lease counts from the claim
    POP_STALLS = 3  # after this many stalls the pop delivers even if the database takes longer than the lease lasts

cdef struct PopCall:
    Call base
    Claim** claims            # of all its pops
    int n_claims
    JobList acks              # for records in memory: acknowledgments that travel with the call
    LeasedAck** leased        # leases of these acknowledgments, cursors ascending
    int n_leased
    int64_t expected          # estimated bytes of its answers; once it has left: those counted in the budget
    bint newest               # its groups conflate: the statement is pop_newest
    bint heads                # the call also asks for the ends of the logs

# ---- records from memory ---------------------------------------------------------------------------------------------

cdef enum:
    FRAMED_WASTE = 4          # a stored frame is sent whole if at least one in this many of its messages is wanted

cdef inline CachedRow* popjob_next(Claim* c, CachedRow* r) noexcept nogil:
    # Returns the claim's row after r, NULL after its last row. It does not follow the last row's `newer`: that row is
    # unreferenced and may have been freed.
    return r.newer if r.base + r.n < c.first + c.take else NULL

cdef inline int64_t popjob_base(Claim* c, int64_t next_offset) noexcept nogil:
    # Returns where a read may begin once `next_offset` follows the committed offset: the base of the row that holds it.
    # Requires that next_offset is one of the claim's records, or the record after them.
    cdef CachedRow* r = c.cached
    while r.base + r.n <= next_offset and r.base + r.n < c.first + c.take:
        r = r.newer
    return next_offset if r.base + r.n <= next_offset else r.base

# ---- feeds: what each client was given, and which leases it holds ----------------------------------------------------

cdef struct Feed

cdef struct FeedLease:
    # A lease held by a feed. Guarded by book.lock.
    Link link                 # first: in the feed's list
    FeedLease* alike          # another FeedLease of the same lease
    Feed* feed
    Cursor* cursor            # its `fed` points back
    int n                     # messages of the lease that count against the credit
    unsigned char[16] lease

cdef struct Feed:
    InboxMsg msg              # tells the worker that leases ended
    HeapNode beat             # heartbeat: when the client has heard nothing for beat_s
    Worker* worker
    Request* r                # the long-lived request that the feed answers
    Request* pop              # the feed's internal pop, not answered yet
    Request* answer           # the answer of that pop, to be written
    Request* check            # internal request that verifies the token again (feed/feed), not answered yet
    int64_t check_since       # monotonic, when the first such request was made; 0: the grant is valid
    PopReq req                # parameters of each pop
    FeedReq ask
    int64_t granted           # messages that it may be given (credit)
    int64_t used              # messages given, less those whose leases ended
    int64_t pause_until       # monotonic: resumes then after a failure
    int64_t wrote_us          # monotonic, time of the last write
    bint begun                # the response head is written
    bint last                 # the last event is written
    # Fields of a WebSocket:
    Request* commands         # internal request for the client's commands, not answered yet
    int n_commands
    int silences              # heartbeats since the client was last heard
    bint half                 # a frame, or a record of TLS, was incomplete at the last look (feed_dead)
    int64_t half_due          # when the next look is due, monotonic µs
    bint parted               # a fragmented message has begun
    bint frame_refused        # a frame found no room (net/budget): the stream is closed, and its input is not read
    Buf parts
    int64_t parts_held        # bytes of `parts`, in the budget of all connections
    int64_t parts_until       # monotonic: the stream ends if the message is incomplete then
    uint32_t frames           # frames received
    size_t want               # least bytes that the incomplete frame needs
    char[29] accept           # the answer to the client's Sec-WebSocket-Key
    # Guarded by book.lock:
    FeedLease* out            # leases that it holds, oldest first
    FeedLease* out_last
    int64_t returned          # messages whose leases ended
    bint full                 # its credit is used up
    bint posted               # msg is in flight
    bint closed               # the stream ended: it is freed once msg has arrived
