# Streams of messages (feeds): what a client that waits for all there is to come has, and which leases are out to it.
# Owner: the worker of its connection; what book.lock guards says so.

cdef struct Conn
cdef struct Feed
cdef struct Request
cdef struct Worker

cdef struct Fed:
    # A lease that is out to a feed. Guarded by book.lock.
    Fed* prev
    Fed* next
    Fed* alike                # another one of the same lease
    Feed* feed
    Cursor* cursor            # which points back
    int n                     # messages of it that count
    unsigned char[16] lease

cdef struct Feed:
    InboxMsg msg              # tells its worker that leases are over
    HeapNode beat             # when it is looked at: nothing was heard of us for so long
    Worker* worker
    Request* r                # that it answers, for as long as it lasts
    Request* pop              # made for it, and not answered yet
    Request* answer           # its answer, to be written
    Request* check            # made to verify the token again (feed/feedgrant), and not answered yet
    int64_t check_since       # monotonic, when the first such request was made; 0: the grant holds
    PopReq req                # what each of its pops asks for
    FeedReq ask
    int64_t granted           # messages it may be given
    int64_t used              # it was given, less those whose leases are over
    int64_t pause_until       # monotonic: then it goes on, after something failed
    int64_t wrote_us          # monotonic, when it was last written to
    bint begun                # its head is written
    bint last                 # and its last event
    # of a WebSocket
    Request* commands         # made for what its client said, and not answered yet
    int n_commands
    int silences              # signs of life since its client was heard last
    bint half                 # at the last sign of life a frame had begun
    bint parted               # a message in parts has begun
    Buf parts
    int64_t parts_held        # bytes of them, in the budget of all
    int64_t parts_until       # monotonic: the message is whole by then, or the stream ends
    uint32_t frames           # that its client sent
    size_t want               # bytes that the frame that has begun needs at least
    char[29] accept           # the answer to its client's key
    # guarded by book.lock
    Fed* out
    int64_t returned          # messages whose leases are over
    bint full                 # it has as many messages as it wants
    bint posted               # msg is on its way
    bint closed               # and nobody waits for it: it is freed then
