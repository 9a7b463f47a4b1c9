# Acknowledgments, transactions, leases that are given back. Owner: the request's worker.

cdef enum:
    ACKED_OK = 1
    ACKED_DLQ = 2
    ACKED_RELEASED = 4
    ACKED_NOT_FOUND = 8
    ACKED_BAD_LEASE = 16
    ACKED_NOOP = 32           # it was acknowledged before
    ACKED_TOO_LATE = 64       # it should have gone back, or to the dead letters, and was acknowledged before
    ACKED_GAPS = 128          # more gaps than a cursor remembers
    ACKED_REFUSED = 8 | 16 | 64      # refuses the transaction it is in
    CALL_ACKS = 20000         # records in one call
    # of look-ups: a partition of a queue unknown here, the catalog, the partition again, its group
    ACK_ROUNDS = 4

cdef struct AckJob:
    Job job
    AckReq req
    int pending               # items without a result
    int asked                 # rounds of look-ups so far
    LeasedAck* leased         # one per lease, while it needs no look into the log
    int n_leased
    int64_t version           # of the catalog whose names it has

cdef struct AckRow:
    AckJob* job
    Partition* partition
    Group* group
    AckItem* first
    AckItem* last
    int n

cdef struct LeasedAck:
    AckJob* job
    Unacked* unacked          # only while the book is locked
    AckItem* first            # n items of the request, one behind the other
    int n
    uint64_t key
    int64_t first_offset
    int64_t base
    uint64_t place            # of the cursor; 0: not known, or the lease goes on
    bint look                 # what this process knows of the partition ends with the lease

cdef struct TxJob:
    Job job
    TxReq req
    bint asked
    # nothing stood against it when it was looked at: what it names and does not exist may be made
    bint cleared
    bint limited              # it pushes to a queue with a bound
    bint doubt                # the answer was lost: before anything else, was it done?
    bint unsure               # it was lost once: ids made here are looked for as well
    int fault                 # what it was refused for since

cdef struct Release:
    Release* next
    int tries
    int pin                   # of the pop that claimed
    Cursor* cursor
    unsigned char[16] lease

cdef enum:
    TAKE_BACK_US = 2000000    # a cursor is held back for so long at most

cdef struct Takeback:
    Takeback* next
    int tries
    int pin                   # of the pop that claimed
    Cursor* cursor
    PopSpan span
