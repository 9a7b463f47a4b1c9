# Pops, and the statements that serve them. Owner: the pop's worker; who is parked stands in lists that book.lock
# guards. Only pop_move writes the state of a pop.

cdef struct Engine
cdef struct LeasedAck
cdef struct Taken

cdef enum PopState:
    POP_PENDING = 0
    POP_RESOLVING = 1         # waits for names, or until pops are not paused
    POP_LEASING = 2           # waits to be tried, or with candidates for a call
    POP_FETCHING = 3          # in a statement that claims for it
    POP_COMPLETED = 4
    POP_EMPTY = 5
    POP_FAILED = 6
    POP_PARKED = 7

cdef enum ParkedAt:
    PARKED_NOT = 0
    PARKED_GROUP = 1
    PARKED_CURSOR = 2
    PARKED_STRANGER = 3
    PARKED_PACED = 4

cdef enum Take:
    TAKE_DONE = 0             # there are candidates, or nothing is ready
    TAKE_STALE = 1            # what it found is gone since
    TAKE_PAUSED = 2           # its group is
    TAKE_PACED = 3            # there is something, but no tokens for it
    TAKE_SHORT = 4            # memory ran out

cdef enum PopWhy:
    WHY_NO_PARTITION = 0      # wildcard, nothing claimable
    WHY_NOT_FOUND = 1         # specific, queue or partition unknown
    WHY_LEASE_HELD = 2
    WHY_WINDOW = 3
    WHY_NOTHING = 4           # claimed but nothing eligible
    WHY_EXPIRED = 5           # long poll ran out

cdef enum:
    CALL_BYTES = 32 << 20     # that the pops of one call bring, unless one of them does alone
    CALL_JOB_BYTES = 64 << 20 # of one, as far as they are counted
    CALL_FREE = 1 << 20       # of a call that brings too little to be counted
    CALL_EACH = 65536         # of a message, where none was seen yet
    CALL_CURSORS = 1000       # candidates in one call
    POP_MAX_PARTITIONS = 1000 # candidates of one pop at a time
    CALL_ROOM = CALL_CURSORS + POP_MAX_PARTITIONS

cdef enum:
    CLAIM_BYTES = 8388608     # of one answer; its first row comes whatever its size

cdef struct PopSpan:          # of a claim that was acknowledged at once: what it consumed
    int64_t first
    int64_t stop              # 0: nothing

cdef struct PopJob:
    Job job
    PopReq req
    HeapNode deadline         # in the worker's heap while parked
    PopJob* wait_next
    PopJob* wait_prev
    Queue* queue
    Group* group
    Partition* partition      # specific pop
    Cursor* only              # its place there
    Slice want_partition      # specific pop of a partition not known yet
    bint any_queue            # namespace or task pop
    int missing               # queues of it in which its group was not known when it was last tried
    bint paced                # it waits for tokens (ready/rates)
    bint waited               # it has: what there is now has to do
    int reserved              # tokens it holds
    int shared                # of which rates: SHARED_*
    int allowed               # messages it may take
    bint gone                 # the client left
    bint asked                # names were asked for since it was last tried
    bint named                # they were looked up,
    bint known                # and there is such a queue
    uint8_t state
    uint8_t parked_at
    uint8_t why
    int width                 # candidates it may have: the room for them
    int n_cursors
    int first_cursor          # index into the call's candidates
    Cursor** cursors
    PopSpan* spans            # beside them, of one that acknowledges at once
    unsigned char[16] lease
    int64_t lease_us          # how long what it claims is leased
    int64_t claimed_us        # monotonic, before the statement that claims for it was sent
    uint8_t stalls            # claims of it whose lease may have been over before they were answered
    int64_t until_us          # long-poll deadline (monotonic), 0 = no waiting
    int64_t paused_until      # pop maintenance: told then
    Claim* claims             # while a push carries it: what is claimed for it
    Claim* last_claim
    int hand_left             # records it still takes
    int hand_width            # partitions it takes at most
    int n_handed
    int n_messages            # of its answer
    int64_t first_us          # when the first row it was answered from was stored, 0: handed over
    Taken* taken              # one per candidate, while its records come from memory
    size_t taken_bytes        # of their rows
    int n_made
    Buf handed                # its answer, when it comes from another thread

cdef enum:
    POP_STALL_US = 1000000    # from a claim to its answer: its lease counts from the claim then
    POP_STALLS = 3            # a database that takes longer than the lease lasts delivers all the same

cdef inline void pop_move(PopJob* j, int state) noexcept nogil:
    # What its job counts as is for govern/job.
    j.state = <uint8_t>state

cdef struct PopCall:
    Call base
    Cursor** cursors
    int* rows                 # of its answer: where those of each candidate begin
    int n_cursors
    JobList acks              # of a call for records in memory: acknowledgments that travel with it
    LeasedAck** leased        # what they are about, cursors ascending
    int n_leased
    int64_t expected          # bytes of its answers, as far as can be told
    bint counted              # in the budget
    bint heads                # where their logs end is asked for

cdef enum:
    FRAMED_WASTE = 4          # a stored frame is sent whole when at least one in so many of its messages is wanted

cdef struct Taken:
    CachedRow* row            # the one that holds `first`; it and those after it up to first + take are referenced
    int64_t first
    int take
    bint made
    uint64_t place            # of the cursor, once it is made

cdef inline CachedRow* taken_next(Taken* t, CachedRow* r) noexcept nogil:
    # The claim's row after r, NULL after its last one. What `newer` of the last row points to is not referenced, and
    # may be gone.
    return r.newer if r.base + r.n < t.first + t.take else NULL

cdef inline int64_t taken_base(Taken* t, int64_t next_offset) noexcept nogil:
    # Where a read may begin once `next_offset`, one of the claim's records or the one after them, follows committed:
    # the row that holds it.
    cdef CachedRow* r = t.row
    while r.base + r.n <= next_offset and r.base + r.n < t.first + t.take:
        r = r.newer
    return next_offset if r.base + r.n <= next_offset else r.base
