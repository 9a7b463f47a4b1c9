# Messages on their way into the log. A request (PushJob) is cut into parts, one for each stream that its partitions
# belong to; a stream gathers a batch, whose items are grouped by partition and cut into chunks, each a row of the log.
# A PushPart travels between its job's worker and its stream's; batches, groups and chunks are their stream's.

cdef struct PushStream
cdef struct Claim

cdef enum:
    LANES = 64
    ROW_RECORDS = 1000        # records in one row of the log
    ROW_BYTES = 65536         # payload bytes in one row, unless one payload alone is larger
    BATCH_ITEMS = 20000
    BATCH_BYTES = 16777216
    BATCH_GROUPS = 4000
    HASH_FROM = 8             # from this many records on, ids out of order are looked up in a hash
    PUSHERS_GROUPS = 1000     # partitions, bytes and items of a batch up to which parts of pushers are taken
    PUSHERS_BYTES = 4194304
    PUSHERS_ITEMS = 19000
    SHARE_GROUPS = 250        # partitions and bytes of a batch with which a pusher has its share
    SHARE_BYTES = 2097152
    SMALL_ITEMS = 16          # of a part that finds room beside those of pushers
    SMALL_BYTES = 65536

cdef struct PushPart:
    # The items of one push request that belong to one stream; travels there and back.
    InboxMsg msg
    PushJob* job
    PushStream* stream
    PushItem* items           # chained by next while it travels
    int left
    bint unsure               # as the job was when the part was made: the job is its worker's, this one its stream's
    bint parted               # some of its items went home before it: it comes behind them, by the same way
    # as in PushJob, of its items: written by the stream's thread, while the job is its worker's
    int failed
    const Verdict* said

cdef struct PushJob:
    Job job
    PushReq req
    int parts_left
    PushPart one              # the only part when there is one stream to send parts to
    bint held                 # items came home and are not on their way again: counts as one part
    PushItem* unresolved      # items whose partition is not known yet
    bint naming               # it waits for a round of look-ups because of those, or of an earlier push's
    bint limited              # some of it takes room of a queue with a bound
    bint doubts               # some for which there was none may be stored already
    # why items could not be stored, the largest of all: 0 all were stored, 500 the database refuses them, 501 nobody
    # knows whose fault it is (BLAME_UNCLEAR), 503 the database could not take them
    int failed
    const Verdict* said       # by the server, of those; NULL: it said nothing
    bint drain                # comes from the failover buffer (failover/refill); it has no client
    bint unhurried            # may take the whole deadline: a chunk from there that had no answer before
    int records               # of those
    bint unsure               # items that came home may be stored: every id is checked
    bint unreached            # the database could not be asked for its names
    bint spilled              # some of its items go there (failover/spill)
    uint8_t spill_why
    int64_t held_until        # it waits for older records of its partitions, until then (monotonic)
    bint unsealed             # an item could not be sealed

cdef struct Elsewhere:
    # The failover buffer, as the rooms above it see it; failover/ fills it in.
    void (*send)(Worker* w, PushJob* j) noexcept nogil      # its items go there; it comes home by push_spilled
    void (*answered)(PushJob* j) noexcept nogil             # a job that came from there is done
    void (*retry)(int64_t pause_us) noexcept nogil          # it could not be stored: again, after a pause

cdef Elsewhere elsewhere

cdef struct PushSlot:
    # A record of a group, by its id.
    PushItem* it
    int at                    # which of its run

cdef struct PushGroup:
    PushGroup* next
    Partition* partition
    PushItem* first
    PushItem* last
    int n
    size_t bytes
    unsigned char[16] lo
    unsigned char[16] hi
    bint has_v7
    bint has_other
    bint has_client
    bint answered
    int64_t head              # the partition's head after the commit, 0 = nothing new
    PushItem* dups            # records of the same call with an id seen before: answered from their first occurrence
    int64_t known             # what push is told of it (memory/idset)
    int64_t known_at
    PushSlot* slots           # hash of ids, made when they come out of order
    uint32_t slots_mask
    int runs                  # items of the chain that are runs
    bint compared             # its ids were compared with rows of the log (push/compare)
    int missing               # records of it that none of these rows holds
    bint refused              # nothing of it was stored: to be sent again, plain
    bint scheduled            # some record of it has a delivery moment
    bint to_side              # it has to wait at its stream's side: push/side
    bint learn                # its partition's ids are to be read before it is sent
    # push/heads:
    int64_t hint              # what push is told of its newest row
    int answers               # to rows of it
    bint sound                # all of them were stored as they were
    bint told                 # with `high`
    bint timely               # all its version-7 ids are of about now
    bint refuted              # the head that was named was another, or did not suffice
    unsigned char[16] high
    int64_t began             # its first offset
    int64_t ended             # behind its last
    int64_t ended_at

cdef struct PushChunk:
    PushGroup* group
    PushItem* first
    int n
    int skip
    bint whole                # stored as it was: its offsets follow each other
    bint scheduled            # some record of it has a delivery moment
    bint keep                 # somebody will read it soon
    size_t bytes              # of payload

cdef struct PushBatch:
    PushBatch* next
    Arena arena
    PushGroup* first
    PushGroup* last
    int n_groups
    int n_items
    int n_jobs                # requests that have items in it
    PushJob* job              # the last of them
    const Verdict* said       # by the server, when it was sent last; NULL: nothing
    size_t bytes
    PushChunk* chunks
    int n_chunks
    Claim* claims            # for waiters that are answered from this batch
    int n_claims
    int64_t server            # the incarnation whose partitions it has
    bint unsure               # its outcome was lost once: every id is checked
    bint scheduled            # some record of it has a delivery moment
    bint has_other            # some id in it that is the client's and not of version 7
    bint plain                # duplicates are taken out of it in SQL: no row is compressed, no id is compared here
    bint named                # all heads are named
    bint hurried              # a push without an answer after ANSWER_MS goes into the failover buffer, if there is one
    int tries
    int64_t since_us          # when it was first sent
    int64_t begun_us          # when it began to gather, where the operator asked for a hold

cdef struct Claim:
    Claim* following          # of the same waiter
    PushGroup* group
    Cursor* cursor
    PopJob* job
    int row                   # its partition's first row in the call
    int take                  # records
    bint made
    uint64_t place            # of the cursor, once it is made
    bint answers              # its waiter is answered, and this is its first

cdef struct Pusher:
    # A connection that takes turns: it brought to the batch that gathers, or has parts that wait (push/pusher).
    Pusher* next              # in its stream's list of pushers, or of free ones
    uint64_t client           # Job.client
    PushPart* first           # parts that wait, in their order
    PushPart* last
    int groups                # partitions it brought to the batch that gathers
    size_t bytes              # and bytes

cdef struct PushStream:
    Call call                 # first: what is in flight
    int index
    PushStream* side          # for partitions that must wait and keep no other waiting (push/side)
    PushStream* main          # whose side it is, NULL: it has lanes
    PushGroup* learning       # what a side reads for
    Worker* worker
    PushBatch* gather
    PushBatch* flying
    PushBatch* again          # to be sent before anything gathered: retries and halves of a split
    PushBatch* dropped        # while the batch before is still to be scattered: freed with it
    bint leaving              # the next batch leaves, that one is not scattered yet
    Pusher* pushers           # whose turn comes first, first
    Pusher* pushers_last
    Pusher* pushers_free
    Table by_client           # pushers, by their clients
    bint full                 # the batch that gathers: parts of pushers wait for the next turn
    int passed_by             # items that opened no group since the last turn
    int64_t retry_at          # not before (monotonic), after a failure
    Hold hold
    bint stale                # waits for the catalog to be reloaded

cdef struct IdSet:
    Partition* partition
    IdSet* newer
    IdSet* older
    uint64_t* cells
    uint64_t size
    uint64_t used
    int64_t origin
    int shift
    int64_t known             # every id below this offset is remembered
    int64_t known_at          # moment of the row that ends there
    bint sure                 # a row was stored on this knowledge: late_ids is known not to be needed
    int64_t used_us

cdef struct EachItem:         # push/runs
    PushReq* q
    int i                     # the item that comes next
    int k                     # and its record, where it is a run that was opened

cdef struct Records:
    PushItem* it
    int at                    # in its run
    BatchRow row              # of frames
