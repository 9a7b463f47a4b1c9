# Streams of messages (feeds): what each client was given, and which leases it holds.
# Owner: the worker of its connection. Locks: book.lock for the fields that say so.

cdef struct Conn
cdef struct Feed
cdef struct Request
cdef struct Worker

cdef struct Fed:
    # A lease held by a feed. Guarded by book.lock.
    Fed* prev
    Fed* next
    Fed* alike                # another Fed of the same lease
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
    Request* check            # internal request that verifies the token again (feed/feedgrant), not answered yet
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
    bint half                 # a frame was incomplete at the last heartbeat
    bint parted               # a fragmented message has begun
    Buf parts
    int64_t parts_held        # bytes of `parts`, in the budget of all connections
    int64_t parts_until       # monotonic: the stream ends if the message is incomplete then
    uint32_t frames           # frames received
    size_t want               # least bytes that the incomplete frame needs
    char[29] accept           # the answer to the client's Sec-WebSocket-Key
    # Guarded by book.lock:
    Fed* out
    int64_t returned          # messages whose leases ended
    bint full                 # its credit is used up
    bint posted               # msg is in flight
    bint closed               # the stream ended: it is freed once msg has arrived
