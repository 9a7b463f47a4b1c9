# The engine of one worker: lists of waiting jobs, their statements, look-ups of names, looks for commits of other
# daemons, and a turn's work. In and out: fields. Owner: the worker. No locks; statistics read limits as they are.

# ---- look-ups of names: find/ask, find/lookup ------------------------------------------------------------------------

cdef enum AskKind:
    ASK_RESOLVE = 0           # queues and partitions of pushes: created if missing
    ASK_PARTITION = 1         # a partition by name, never created
    ASK_NAMES = 2             # partitions by id
    ASK_GROUPS = 3            # groups of acknowledgments, never created
    ASK_GROUP = 4             # a group of pops (or of a transaction's acknowledgments): created with its subscription
    ASK_SIZE = 5              # number of records in bounded queues
    ASK_STORED = 6            # ids of records without capacity in a bounded queue: finds those already stored
    ASK_DRAINED = 7           # like ASK_RESOLVE, for the failover buffer: created regardless of bounds

cdef enum NameBound:
    BOUND_QUEUES = 1
    BOUND_PARTITIONS = 2
    BOUND_GROUPS = 3

cdef struct Asked:
    Slice first               # name of a queue
    Slice second              # name of a partition or group
    int32_t id                # of the queue or partition that contains it
    PushItem* item            # ASK_STORED
    int64_t mark              # ASK_SIZE: catalog_size_mark

cdef struct Ask:
    Call base
    Ask* next
    int kind
    int n
    Asked* at
    int64_t cleanings         # the catalog's cleanings when the statement was sent
    Slice mode                # ASK_GROUP, with the next two
    int64_t since_us
    bint has_since
    bint conflates            # ASK_GROUP: the group, if it is created, conflates
    int tries
    int64_t first_us          # when the statement was first sent
    bint finds                # ASK_GROUP while commits hang: looks the group up without creating it
    bint unhurried            # had no answer within ANSWER_MS: may take the whole deadline

cdef struct Round:
    bint running
    int64_t incarnation       # the incarnation whose numbers the round uses
    Arena arena
    JobList jobs
    JobList passed  # jobs whose clients used up their share of the round: they go behind jobs that arrived since
    Table asked               # number of names asked for by each client (Job.client)
    int names                 # number of names asked for by all clients
    int room                  # names that the asking job may still ask for
    Ask* waiting              # not sent yet
    int flying
    int failures
    int why                   # status for its jobs if a statement failed: 500 or 503
    const Verdict* server_error  # the server's error of that statement; NULL: none
    bint apart                # the failing job is unknown: each job asks alone
    bint reload               # a partition belongs to a queue unknown here: its jobs wait for a reload of the catalog
    Table refused             # names that may not be created, as Refused
    int64_t pause_until

# ---- looks and scans: find/poll, find/scanner ------------------------------------------------------------------------

cdef enum:
    SCAN_PAGE = 1000
    SCAN_PAGE_LEAST = 64             # above CURSORS_KEPT
    LOOK_MOST_MS = 30000             # longest interval between looks, whatever the operator sets
    LOOK_GAP_US = 60000000           # a longer gap is not read through: groups are scanned instead
    BLIND_US = 60000000              # between scans caused by transactions whose start is hidden
    RECENT_MARGIN_US = 1000000       # tolerance for slewed clocks; records read twice are recognized
    BACK_HELD_US = 60000000          # how long looks keep their start after the database's clock was set back
    WAKING_BACK_US = 3000000         # how far back a pause may end that was not visible a second ago
    SCAN_PAUSE_US = 200000           # after an error of the server
    WAKING_AHEAD_US = 1500000        # pauses that end before the next look are learned ahead
    WAKING_PAGE = 10000
    LEASES_PAGE = 4096               # leases looked up at once, 5 us each
    LOOK_DEADLINE_MS = 5000  # a connection that is silent for this long is replaced; other workers look meanwhile

cdef struct Found:
    int32_t partition
    int64_t next_offset       # -1: unknown
    int64_t head
    int64_t leased_until      # database clock, 0: free
    int64_t wakes_at          # database clock: end of a pause, 0: the row is not about a pause
    int32_t group             # the group that the row is about, or GROUP_EVERY

cdef struct Checked:
    int32_t partition
    int32_t group
    int64_t due               # expected end of the lease: identifies the lease that was asked about

cdef struct RateAsk:
    int32_t queue
    int32_t group             # GROUP_EVERY: all groups together

cdef struct Slices:           # requests for tokens of rates (ready/rates)
    Call call
    bint busy
    int n
    RateAsk* asks
    int room

cdef struct Polling:
    Call call                 # must stay first: poll_forget sets all other fields to 0
    int64_t incarnation       # the incarnation that `found` belongs to
    Group* scanning
    int pin                   # pin of `scanning`
    Found* found              # rows whose partitions are not all known by name yet
    int n_found
    int n_applied             # of these, in the book already
    bint applying             # the others follow, a slice a turn
    bint incomplete           # some could not be applied: the look or page is read again
    int finding               # FIND_*
    bint forgotten            # the worker has met another server since the statement in flight was sent
    int64_t pause_until       # of the scan, monotonic: set after a server error
    int64_t cleanings         # the catalog's cleanings when `found` was asked for
    uint64_t snapshot  # hash of the snapshot of the last look: an equal hash means that nothing was committed since
    int64_t looked_us         # monotonic, when the last look was sent
    int64_t due_us            # monotonic, when the next look is due; 0: at once
    bint recent_wanted
    int64_t since             # database clock: all older records were visible at the last complete look; 0: no look yet
    int64_t since_us          # monotonic, when that look was sent
    int64_t recent_us         # monotonic, when the running look was sent
    int64_t next_since        # becomes `since` when the running look completes
    bint gap                  # the look may miss records (LOOK_GAP_US passed, or `blind`): groups are scanned after it
    # monotonic: queues created meanwhile are known after a reload that begins later; 0: no reload needed
    int64_t load_after
    bint blind                # a running transaction has a hidden start: looks may miss its records
    int64_t doubted_us        # monotonic, when the groups were last scanned for that reason
    int64_t next_writer
    # database clock: earliest start of a transaction that may have written a pause unseen at that look; 0: unknown
    int64_t writer
    bint waking_wanted
    # database clock: pauses that end up to this moment, and up to partition waking_after, are known
    int64_t waking_from
    int32_t waking_after
    int64_t waking_sent
    bint last_page            # of the scan
    uint32_t moves            # book.moves when the running page was asked for
    int32_t page_end          # partition that the running page ends with
    int64_t leases_due_us     # monotonic, when the next leases are looked up; 0: all were visited
    int leases_left           # places of the due heap that are still to be visited
    int leases_unasked        # visits left in which leases are looked up although no pop waits
    int leases_at             # place that was visited last
    int n_checked
    Checked[LEASES_PAGE] checked        # leases in the running look-up

# ---- failover buffer -------------------------------------------------------------------------------------------------

cdef enum SpillWhy:
    SPILL_KEPT = 0
    SPILL_FULL = 1
    SPILL_SHARE = 2           # the client's address has its share; others go on
    SPILL_FAILED = 3

cdef struct AdoptMsg:
    InboxMsg msg
    uint64_t number
    char[4096] dir

# ---- jobs that wait, and the engine ----------------------------------------------------------------------------------

cdef enum:
    TROUBLE_PAUSE_US = 20000  # after a failed pop, acknowledgment or transaction
    BORROW_US = 2000000       # between two requests for a connection of another worker

cdef struct JobQueue:
    # Jobs of one type that wait for a statement. The linger says when the statement leaves, its limit how many are in
    # flight.
    JobList jobs
    Linger linger
    Limit limit

cdef enum:
    DRAIN_LISTS = 4
    DRAINS_IN_TURN = 4        # number of drains whose order rotates each turn, starting at DRAIN_FIRST
    DRAIN_FIRST = 1
    DRAINS_MOST = 20

ctypedef void* ListHead

cdef struct Drain:
    # Work of a turn on lists that are not empty: one row per kind (run/jobtypes).
    void (*run)(Engine* e) noexcept nogil
    bint (*send)(Engine* e) noexcept nogil    # instead of `run`: sends jobs of `queue` in a statement
    # addresses of the list heads; NULL: end of the array. If there are no lists, `run` is called in each turn
    ListHead* lists[DRAIN_LISTS]
    bint rests                # pauses after a failed call
    int op                    # OP_* under which the limit of `queue` appears in the metrics; OP_COUNT: under none
    JobQueue* queue

cdef struct Engine:
    Worker* worker
    Settings* settings
    SlotPool* slots
    uv_timer_t timer
    int64_t armed_us          # when the timer fires, 0: not armed
    int64_t patience_us       # how long a request waits for an unavailable database
    int64_t unready_since
    int64_t borrowed_us       # monotonic, when it last asked for a connection of another worker
    int64_t pause_until       # after a failed pop or acknowledgment
    Call reload
    int64_t version           # the catalog's version by which the gathered jobs were resolved
    bint stopping
    int closing               # remaining steps of closing
    bint want_reload
    int64_t reload_pause
    int rotate
    int64_t queued_jobs
    JobList resolving
    int naming                # pushes that wait for a round of look-ups (PushJob.naming)
    JobList wait_reload
    JobQueue pops             # pops with candidates
    # pops whose records are in memory, and acknowledgments that travel with them. These calls are much shorter than
    # those of `pops`; measured together, they would make the others look slow.
    JobQueue claims
    JobList woken             # pops to be tried again
    JobList paused            # pops held by maintenance
    JobQueue acks
    JobList leased            # acknowledgments known to complete what was delivered
    JobQueue txs
    JobQueue leases
    JobQueue lease_asks       # extensions with tokens limited to some queues: the lease's queue must be looked up
    JobQueue kv_reads
    JobQueue kv_writes        # with looks and lists
    JobQueue locks
    JobQueue timers
    JobQueue cycles
    JobList flushes           # cycles that wait for the end of a lease
    ReleaseList releases      # leases that are given back
    ReleaseList takebacks     # records, consumed at once, that are taken back
    Heap deadlines
    Heap beats                # heartbeats of the feeds
    Heap memory_deadlines     # of waiting pops of ephemeral queues
    JobList memory_woken      # such pops, to be tried again
    int64_t grants_seen       # grants_epoch when streams and parked pops were last checked against it
    Drain[DRAINS_MOST] drains
    int n_drains
    int64_t turned_us         # when a statement of claims or acknowledgments by lease last left
    int64_t hold_us           # time until a linger ends by time alone, or HOLD_NONE
    Round round
    Polling polling
    Slices rates
    Table ack_rows            # AckRow by partition and group, of acknowledgments in flight
    int acks_in_flight        # their records
    Args args                 # of the statement being written
    BodyPack pack

cdef Worker* leader           # the first worker: does the periodic work of the process

cdef inline Engine* engine_of(Worker* w) noexcept nogil:
    return w.engine
