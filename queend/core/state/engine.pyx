# The engine of one worker: what waits for a statement, and how many are out. Owner: that worker.

cdef enum AskKind:
    ASK_RESOLVE = 0           # queues and partitions of pushes: created when missing
    ASK_PARTITION = 1         # a partition by name, never created
    ASK_NAMES = 2             # partitions by id
    ASK_GROUPS = 3            # groups of acks, never created
    ASK_SIZE = 5              # what queues with a bound hold
    ASK_STORED = 6            # ids for which such a queue has no room: where they are stored already
    ASK_GROUP = 4             # a group of pops (or of a transaction's acks): created, with its subscription
    ASK_DRAINED = 7           # as ASK_RESOLVE, of what the failover buffer holds: created whatever the bounds

cdef enum NameBound:
    BOUND_QUEUES = 1
    BOUND_PARTITIONS = 2
    BOUND_GROUPS = 3

cdef struct Asked:
    Slice first               # a queue's name, or a group's
    Slice second              # a partition's, or a group's
    int32_t id                # of the queue or partition it is in
    PushItem* item            # ASK_STORED
    int64_t mark              # ASK_SIZE: capacity_mark

cdef struct Ask:
    Call base
    Ask* next
    int kind
    int n
    int room
    Asked* at
    int64_t cleanings         # of the catalog when it was sent
    Queue* queue              # ASK_GROUP
    Slice mode
    int64_t since_us
    bint has_since
    int tries
    int64_t first_us          # when it was first sent
    bint finds                # ASK_GROUP while commits hang: the group is looked for, not made
    bint unhurried            # had no answer after ANSWER_MS: may take the whole deadline

cdef struct Round:
    bint running
    int64_t server            # the incarnation whose numbers it asks with
    Arena arena
    Job* jobs
    JobList passed            # jobs whose clients had their share of the round: they go behind those that came since
    Table asked               # names asked for by each client (Job.client)
    int names                 # and by all
    int room                  # names that the job that asks may still ask for
    Ask* waiting              # not sent yet
    int flying
    int failures
    int why                   # the answer where one of its statements failed: 500 or 503
    const Verdict* said       # and what the server said; NULL: nothing
    bint apart                # which of its jobs is to blame is not known: each asks for itself
    bint reload               # a partition of a queue this process has not heard of: its jobs wait for the catalog
    Table refused             # names that may not be made, as Refused
    int64_t pause_until

cdef enum:
    SCAN_PAGE = 1000
    LOOK_MOST_MS = 30000             # however seldom the operator wants looks
    LOOK_GAP_US = 60000000           # a longer time is not read through: groups are scanned
    BLIND_US = 60000000              # between scans because of transactions whose start is hidden
    RECENT_MARGIN_US = 1000000       # clocks that are slewed; what is read twice is known already
    BACK_HELD_US = 60000000          # after the database's clock was set back, looks begin no later than they did
    WAKING_BACK_US = 3000000         # how far back a pause may end that was not visible a second ago
    SCAN_PAUSE_US = 200000           # after an error of the server
    WAKING_AHEAD_US = 1500000        # pauses that end before the next look are known before they do
    WAKING_PAGE = 10000
    LEASES_PAGE = 4096               # leases looked up at a time, 5 us each
    LOOK_DEADLINE_MS = 5000          # a connection that is silent for so long is replaced: others look meanwhile

cdef struct Found:
    int32_t partition
    int64_t next_offset       # -1 unknown
    int64_t head
    int64_t leased_until      # database's clock, 0 = free
    int64_t wakes_at          # database's clock: a pause ends then, 0 = this is about something else
    int32_t group             # whose; 0 = every group's

cdef struct Checked:
    int32_t partition
    int32_t group
    int64_t due               # when the lease was to end: a newer lease is not what was asked about

cdef struct RateAsk:
    int32_t queue
    int32_t group             # 0: of all groups together

cdef struct Slices:           # tokens of rates asked for (find/rates)
    Call call
    bint busy
    int n
    RateAsk* asks
    int room

cdef struct Discover:
    Call call
    int64_t server            # the incarnation that `found` is of
    Group* scanning
    int pin                   # of it
    Found* found              # rows whose partitions are not all known by name yet
    int n_found
    int finding               # FIND_*
    int64_t pause_until       # of the scan, monotonic: after an error of the server
    int64_t cleanings         # of the catalog when they were asked for
    uint64_t snapshot         # hash of the one the last look saw: the same again means that nothing was committed since
    int64_t looked_us         # monotonic, when the last look was sent
    int64_t due_us            # monotonic, when the next one is due; 0: at once
    bint recent_wanted
    int64_t since             # database's clock: all older was visible at the last complete look; 0 = there was none
    int64_t since_us          # monotonic, when that look was sent
    int64_t recent_us         # monotonic, when the look under way was sent
    int64_t next_since        # what it will leave in `since`
    bint gap                  # too long ago, or hidden: the groups are scanned when it is through
    # monotonic: queues that came meanwhile are known after a reload begun later; 0 = no need of one
    int64_t load_after
    bint blind                # a transaction was under way whose start is hidden: looks may pass its records over
    int64_t doubted_us        # monotonic, when the groups were last scanned because of one
    int64_t next_writer
    # database's clock: who may have written a pause then unseen began no earlier; 0 = not known
    int64_t writer
    bint waking_wanted
    # database's clock: pauses that end up to then, and up to partition waking_after, are known
    int64_t waking_from
    int32_t waking_after
    int64_t waking_sent
    bint last_page            # of the scan
    uint32_t moves            # book.moves when the page under way was asked for
    int32_t page_end          # partition that the page under way ends with
    int64_t leases_due_us     # monotonic, when the next leases are looked up; 0: all were visited
    int leases_left           # places of the heap of due times that are still to be visited
    int leases_unasked        # of them, those where leases are looked up although no pop waits
    int leases_at             # place that was visited last
    int n_checked
    Checked[LEASES_PAGE] checked        # those asked about

cdef enum SpillWhy:
    SPILL_KEPT = 0
    SPILL_FULL = 1
    SPILL_FAILED = 2

cdef struct AdoptMsg:
    InboxMsg msg
    uint64_t number
    char[4096] dir

cdef enum:
    TROUBLE_PAUSE_US = 20000  # after a pop, acknowledgment or transaction that failed
    BORROW_US = 2000000       # between two questions for a connection of another worker

cdef struct JobQueue:
    # Jobs of one type that wait for a statement: when it leaves, and how many fly.
    JobList jobs
    Hold hold
    Limit limit

cdef enum:
    DRAIN_LISTS = 4
    DRAINS_IN_TURN = 4        # of the drains, beginning with DRAIN_FIRST: each turn begins with another one of them
    DRAIN_FIRST = 1
    DRAINS_MOST = 16

ctypedef void* ListHead

cdef struct Drain:
    # What is done in a turn about lists that are not empty: one row each (run/kinds).
    void (*run)(Engine* e) noexcept nogil
    # where the first of each list stands; NULL: there are fewer lists. Of none: it is called in each turn
    ListHead* lists[DRAIN_LISTS]
    bint rests                # for a moment after a call that failed
    int op                    # OP_* of `queue`
    JobQueue* queue           # whose limit is told to whoever looks at the metrics; NULL: none is

cdef struct Engine:
    Worker* worker
    Settings* settings
    SlotPool* slots
    uv_timer_t timer
    int64_t armed_us          # when the timer fires, 0 = not armed
    int deadline_ms
    int64_t patience_us       # how long a request waits for a database that is away
    int64_t unready_since
    int64_t borrowed_us       # monotonic, when it last asked for a connection of another worker
    int64_t pause_until       # after a failed pop or ack call
    Call reload
    int64_t version           # of the catalog that what it gathered was resolved by
    int64_t server            # the incarnation this worker goes by
    bint stopping
    int closing               # steps of closing still to come
    bint want_reload
    int64_t reload_pause
    int rotate
    int64_t queued_jobs
    JobList resolving
    int naming                # pushes that wait for a round of look-ups (PushJob.naming)
    JobList wait_reload
    JobQueue pops             # with candidates
    # the same, their records in memory, and what travels with them: much shorter calls, which would make the others
    # look slow
    JobQueue claims
    JobList woken             # to be tried again
    JobList paused            # pops held by maintenance
    JobQueue acks
    JobList leased            # the same, known to complete what was delivered
    JobQueue txs
    JobQueue leases
    JobQueue lease_asks       # of tokens that are limited to queues: whose leases are they?
    JobQueue cycles
    JobList flushes           # cycles that wait for the end of a lease
    Release* releases
    Takeback* takebacks
    Heap deadlines
    Heap beats                # of its feeds
    int64_t grants_seen       # grants_epoch when streams and parked pops were last looked at for it
    Limit release_limit
    Limit takeback_limit
    Drain[DRAINS_MOST] drains
    int n_drains
    int64_t turned_us         # when a statement of claims or acknowledgments by lease left last
    int64_t hold_us           # until time alone ends a hold, -1: nothing is held
    Round round
    Discover discover
    Slices rates
    Table ack_rows
    Args args                 # of the statement that is written
    BodyPack pack

cdef Worker* boss             # the first worker: looks after what is due by time

cdef inline Engine* engine_of(Worker* w) noexcept nogil:
    return w.engine
