# Who has something to deliver, and who waits for it: for each consumer group and partition a cursor, the group's place
# in it. Owner: the process; guarded by book.lock. Only cursor_move writes the state of a cursor.

cdef enum CursorState:
    CURSOR_IDLE = 0           # nothing known to deliver
    CURSOR_READY = 1          # in its group's ready ring
    CURSOR_BUSY = 2           # a claim is on its way
    CURSOR_LEASED = 3         # in the due heap until the lease ends
    CURSOR_DELAYED = 4        # in the due heap until a delay, window or retry pause ends

    FRESH_AGAIN = 2           # Cursor.fresh: forgotten while it was busy
    AGAIN_NEWS = 1            # Cursor.again: there may be more to deliver,
    AGAIN_FREE = 2            # or the lease that was in the way has ended

cdef struct Fed

cdef struct Cursor:
    HeapNode due
    Partition* partition
    Group* group
    Cursor* next              # ready ring
    Cursor* prev
    Cursor* all_next          # of its group; of a partition that is buried alone, of that
    Cursor* all_prev
    PopJob* wait_first        # parked pops of exactly this partition
    PopJob* wait_last
    int64_t next_offset       # next to deliver, as far as known
    int64_t wakes_at          # end of the newest pause it is known to have, by the database's clock
    uint8_t state
    uint8_t fresh             # its row may not exist; FRESH_AGAIN: nor after the answer that is awaited
    uint8_t dead              # its partition is buried: in no list but that one's
    uint8_t again             # AGAIN_*: something happened while it was busy, look again
    uint32_t moved            # book.moves when it last changed its state
    # its newest delivery is not known to be acknowledged to the end: what is left of it goes first
    uint8_t open
    uint32_t looked           # book.commits when its lease was last looked up, 0: since it is leased, never
    Fed* fed                  # a feed whose lease it is, NULL: none

cdef enum:
    ROWCACHE_AGE_US = 10000000

cdef struct CachedRow:
    CachedRow* newer          # of its partition
    CachedRow* next           # of the process, in the order they came
    CachedRow* prev
    Partition* partition
    int64_t base
    int64_t created_us
    int64_t kept_us           # monotonic
    int n
    int refs
    bint dropped
    size_t bytes              # of memory
    Slice ids                 # as in the log, uncompressed; behind the struct
    Slice body
    Slice meta

cdef struct Unacked:
    Unacked* newer               # of the process, in the order they were leased
    Unacked* older
    uint64_t key
    unsigned char[16] lease
    int64_t first             # offset of the first record that is not acknowledged
    int64_t base              # where a read may begin once all of it is: see queend.claim
    int64_t leased_us         # monotonic
    uint64_t place            # of the cursor when it was claimed: see queend.ack_leased; 0: not known
    int n                     # records that are not
    int done                  # records that are: their ids stand before the others'
    bint afar                 # read from the database, which others may write to: where the log ends is asked for
    bint flying               # an acknowledgment of it is on its way
    size_t bytes
    unsigned char* ids        # 16 of each record; behind the struct

cdef struct Book:
    uv_mutex_t lock
    Heap due
    Table name_waiters        # parked pops of queues, partitions or namespaces not (all) known: ready/byname
    int n_name_waiters
    int n_cursors             # in memory
    int64_t parked
    int64_t missed_us         # monotonic, when a pop that does not wait last found nothing; 0: never
    uint32_t commits          # looks that saw a commit, and one
    uint32_t lease_pages      # how often leases were chosen to be looked up, so far
    Group* used_first         # groups in the order of their last pops (ready/unused)
    Group* used_last
    uint32_t ticks            # half seconds, as far as the era was looked at (find/grave)
    Group* scan_first         # groups that want a scan
    SharedInt n_scans         # of them
    uint32_t moves            # of all cursors, so far
    int64_t forgets           # how often the groups of a queue were forgotten, so far: read without the lock
    bint looked               # there was a look: scans may begin
    const Verdict* scan_said  # by the server, of the last scan; NULL: it was done
    SharedInt64 rates_at          # monotonic, when rates are looked at next (find/rates), 0: never

cdef Book book
