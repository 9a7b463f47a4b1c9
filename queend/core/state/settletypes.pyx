# Acknowledgments, transactions, released leases. In and out: fields. Owner: the worker of the request. Locks: book.lock
# while LeasedAck.unacked is used.

# Bits of the result of an acknowledgment. The function queend.ack has the same bits.
cdef enum Acked:
    ACKED_NOT = 0
    ACKED_OK = 1
    ACKED_DLQ = 2
    ACKED_RELEASED = 4
    ACKED_NOT_FOUND = 8
    ACKED_BAD_LEASE = 16
    ACKED_NOOP = 32           # was acknowledged before
    ACKED_TOO_LATE = 64       # should be retried or dead-lettered, but was acknowledged before
    ACKED_GAPS = 128          # more gaps than a cursor can hold
    ACKED_REFUSED = ACKED_NOT_FOUND | ACKED_BAD_LEASE | ACKED_TOO_LATE       # these refuse a whole transaction

cdef enum:
    CALL_ACKS = 5000          # records of a worker in flight, in all calls together
    CALL_LOOKS = 1000         # requests that one call looks at; those whose cursor is in another call wait
    # look-ups for one item: a partition of an unknown queue, the catalog, the partition again, its group
    ACK_ROUNDS = 4

# ---- acknowledgments -------------------------------------------------------------------------------------------------

cdef struct AckJob:
    Job job
    AckReq req
    int pending               # items without a result
    LeasedAck* leased         # one per lease, if the request needs no look into the log
    int n_leased
    int64_t version           # of the catalog that its names were resolved by

cdef struct AckRow:
    AckJob* job
    Partition* partition
    Group* group
    AckItem* first
    AckItem* last
    int n

cdef struct LeasedAck:
    AckJob* job
    Unacked* unacked          # valid only while book.lock is held
    AckItem* first            # n consecutive items of the request
    int n
    uint64_t key
    int64_t first_offset
    int64_t passed            # records of the lease before the acknowledged ones (conflation)
    int64_t base
    uint64_t place            # the cursor's; 0: unknown, or the lease goes on
    bint look                 # this process knows the partition only up to the end of the lease: it must look for more

# ---- transactions ----------------------------------------------------------------------------------------------------

cdef struct TxJob:
    Job job
    TxReq req
    # checked without a refusal: missing names may be created
    bint cleared
    bint limited              # pushes to a bounded queue
    bint doubt                # the answer was lost: the outcome must be checked before anything else
    bint check_ids            # an answer was lost once: ids made by the daemon are looked up as well
    int fault                 # TX_FAULT_*: reason of a later refusal

# ---- claims that are given back --------------------------------------------------------------------------------------

cdef enum:
    TAKE_BACK_US = 2000000    # longest time that a cursor is held back

cdef struct Release:
    Release* next
    int tries
    int pin                   # pin of the claiming pop
    Cursor* cursor
    unsigned char[16] lease
    int64_t span_first        # records that were consumed at once
    int64_t span_stop

cdef struct ReleaseList:
    Release* first
    Limit limit
