# Deliverable messages, and the pops that wait for them. Each consumer group has one cursor per partition: the group's
# position in it. Owner: the process. Locks: book.lock guards all. Only cursor_move writes the state of a cursor.

cdef enum CursorState:
    CURSOR_IDLE = 0           # no deliverable message known
    CURSOR_READY = 1          # in its group's ready ring
    CURSOR_BUSY = 2           # a claim is in flight
    CURSOR_LEASED = 3         # in the due heap until the lease ends
    CURSOR_DELAYED = 4        # in the due heap until a delay, window or retry pause ends

    FRESH_AGAIN = 2           # value of Cursor.fresh: forgotten while it was busy
    AGAIN_NEWS = 1            # bits of Cursor.again: there may be more to deliver
    AGAIN_FREE = 2            # the lease that blocked it has ended

cdef struct Fed

cdef struct Cursor:
    HeapNode due
    Partition* partition
    Group* group
    Cursor* next              # in the ready ring
    Cursor* prev
    Cursor* all_next          # in the group's list; if the partition was buried alone, in the partition's list
    Cursor* all_prev
    PopJob* wait_first        # parked pops of exactly this partition
    PopJob* wait_last
    int64_t next_offset       # next offset to deliver, as far as known
    int64_t wakes_at          # end of the newest known pause, database clock
    uint8_t state
    uint8_t fresh             # its row may not exist; FRESH_AGAIN: nor after the answer that is awaited
    uint8_t dead              # its partition is buried; the cursor is only in that partition's list
    uint8_t again             # AGAIN_*: what happened while it was busy; it must be checked again
    uint32_t moved            # book.moves when the state last changed
    # its newest delivery may not be acknowledged completely: the rest is delivered first
    uint8_t open
    uint32_t looked           # book.commits when its lease was last looked up, 0: not since it was leased
    Fed* fed                  # the feed that holds its lease, NULL: none

cdef enum:
    ROWCACHE_AGE_US = 10000000

cdef struct CachedRow:
    CachedRow* newer          # next newer row of the partition
    CachedRow* next           # in the process's list, in order of insertion
    CachedRow* prev
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
    Unacked* newer               # in the process's list, in order of leasing
    Unacked* older
    uint64_t key
    unsigned char[16] lease
    int64_t first             # offset of the first unacknowledged record
    int64_t base              # where a read may begin once all records are acknowledged: see queend.claim
    int64_t leased_us         # monotonic
    uint64_t place            # the cursor's when it was claimed: see queend.ack_leased; 0: unknown
    int n                     # unacknowledged records
    int done                  # acknowledged records: their ids stand before the others
    # read from the database, where others may have written: the acknowledgment also asks for the end of the log
    bint afar
    bint flying               # an acknowledgment of it is in flight
    size_t bytes
    unsigned char* ids        # 16 bytes per record; stored behind the struct

cdef struct Book:
    uv_mutex_t lock
    Heap due
    Table name_waiters        # parked pops of queues, partitions or namespaces that are not (all) known: ready/byname
    int n_name_waiters
    int n_cursors             # cursors in memory
    int64_t parked
    int64_t missed_us         # monotonic, when a pop that does not wait last found nothing; 0: never
    uint32_t commits          # 1 + looks that saw a commit
    uint32_t lease_pages      # how often leases were selected for a look-up
    Group* used_first         # groups in the order of their last pops (ready/unused)
    Group* used_last
    uint32_t ticks            # half-second ticks at which the era was examined (find/grave)
    Group* scan_first         # groups that want a scan
    SharedInt n_scans         # their number
    uint32_t moves            # state changes of all cursors
    int64_t forgets           # how often the groups of a queue were forgotten; read without the lock
    bint looked               # a look has completed: scans may begin
    const Verdict* scan_said  # the server's error of the last scan; NULL: the scan succeeded
    SharedInt64 rates_at          # monotonic, when rates are looked at next (find/rates), 0: never

cdef Book book
