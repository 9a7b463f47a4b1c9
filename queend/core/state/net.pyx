# Connections and their requests, and what all clients together may hold. A connection and its requests belong to its
# worker's thread. Only conn_move writes the state of a connection.

cdef struct HotRoute
cdef struct Worker

cdef enum:
    BODY_PADDING = 80         # JSONWALK_ROOM
    REQUESTS_KEEP = 256       # free requests a worker keeps
    OUTS_KEEP = 64            # answers' memory a worker keeps: requests that wait for an answer hold none
    OUT_KEEP = 65536          # bytes of one of them at most

cdef struct Request:
    # in its connection's order; in the worker's freelist; in its list of those without a client
    Request* next
    Request* before           # in that one
    Conn* conn
    Worker* worker
    Arena arena
    int method                # METHOD_*
    Slice target              # as sent
    Slice path                # raw, of the target
    Slice query               # raw, without the question mark
    Slice headers_raw         # lines with their CRLF
    Slice authority           # the value of Host
    const HotRoute* route     # NULL: the control plane's
    Slice body                # NUL-terminated, BODY_PADDING readable bytes after it
    uint8_t http10
    uint8_t keep_alive
    uint8_t replied
    uint8_t early             # its body was not read: it waits for its token (READ_LATER)
    uint8_t alone             # it stands in the worker's list of those without a client
    uint8_t unanswerable      # its answer found no memory: a short one takes its place
    uint8_t asks              # bits of ASK_*
    uint8_t pin               # what it found may not be freed (base/era), 0: it looked nothing up
    int64_t started_us        # monotonic
    int op                    # OP_* it is counted under
    int status                # of the answer
    Buf out                   # the whole answer
    int64_t charged           # of it, in the budget (net/untaken)
    int64_t arriving          # bytes of its body, in the budget of what arrives (net/beside, net/unpack)
    int64_t held              # bytes of its arena, in the budget of its worker (net/held)
    uint8_t coding            # CODING_* of its body, as it came
    int64_t unpacks_to        # bytes its body may have, unpacked
    size_t head_size          # of it: status line and headers
    Grant* grant              # what its token allows, NULL: nobody asks
    Feed* feed                # that it was made for: its answer is a part of that one's
    void* job                 # what it has become: a Job of the engine, or a call of the bridge
    void (*on_gone)(Request* r) noexcept nogil     # the client left before the answer; may be NULL
    # the client sends no more: it may have left, or wait for this answer; may be NULL
    void (*on_end)(Request* r) noexcept nogil
    void (*on_unsent)(Request* r) noexcept nogil   # the client left before the answer went out; may be NULL

cdef struct RequestPool:
    Request* free_list
    int kept
    Buf[OUTS_KEEP] outs
    int outs_kept

cdef enum:                    # which timeout runs; one list per state, oldest first
    CONN_IDLE = 0             # between requests
    CONN_HEAD = 1             # a head has begun
    CONN_BODY = 2             # a body has begun
    CONN_BUSY = 3             # answers are owed: no timeout
    CONN_STALLED = 4          # the client does not take its answers
    CONN_LINGER = 5           # everything is said: waits for the client to close
    CONN_CLOSING = 6          # the handle is closing
    CONN_STATES = 7

cdef enum ConnReading:
    READ_HEAD = 0
    READ_FIXED = 1            # a body of known length
    READ_CHUNKED = 2
    READ_NOTHING = 3          # nothing that may come is a request: after an error or `Connection: close`
    # a request with a large body waits for its token to be verified; it is read from its head on then
    READ_LATER = 4
    READ_GONE = 5             # it is closed, and freed when its turn comes
    READ_FRAMES = 6           # of a WebSocket

cdef enum:
    OUT_MAX = 1 << 20         # bytes of answers a client may leave untaken before it is no longer read
    LINGER_MS = 2000
    LINGER_BYTES = 4 << 20    # swallowed at most after the last answer

cdef struct Pace:             # net/arriving
    uint32_t since            # loop time (ms, its lower half) when it began
    uint32_t mark_since       # when it was last looked at
    int64_t bytes             # done when it began
    int64_t mark_bytes
    bint running              # False: it begins at the next look

cdef struct Conn:
    uv_tcp_t tcp              # first: a handle is its connection
    Conn* prev                # in the list of its state
    Conn* next
    Conn* next_dirty
    Conn* unread_prev         # in the worker's list of those that are not read
    Conn* unread_next
    # in a list of those that go on in a later turn (net/worker); of the last one itself; NULL: it does not wait
    Conn* wait_next
    Worker* worker
    Request* first            # answers owed, in order
    Request* last
    Request* reading          # head complete, body not
    Request* unread_request   # complete, and not read while it waits for room; NULL: its next head or frame waits
    Conn* room_prev           # in the worker's list of those that wait for room
    Conn* room_next
    Feed* feed                # what its last request has become
    Buf head                  # bytes that are not a complete request yet; answers owed may hold some back, too
    size_t body_got           # READ_FIXED
    Chunked* chunked          # READ_CHUNKED
    size_t out_pending        # bytes handed to the loop and not yet taken by the kernel
    size_t out_mark           # write queue when the stall was last looked at
    uint64_t since            # loop time (ms) of the last change of state, or of the last progress of a body
    uint64_t half_since       # loop time (ms) when the end of its input was noticed
    int owed                  # requests in first..last
    uint8_t state             # ConnState; only conn_move writes it
    uint8_t mode              # ConnReading
    uint8_t greedy            # has more answers than it may
    uint8_t large             # the last body was: the next one is read where it belongs, not with its head
    uint8_t dirty             # stands in the worker's list of connections to look at
    uint8_t paused            # not read: too many requests or answers in hand, or nothing more comes
    uint8_t half              # the client has ended its side: it left, or waits for its answers (net/leaving)
    uint8_t read_out          # and all it had sent was read
    uint8_t owes_continue     # 100, once all earlier answers are out
    uint8_t admitted          # the token of the next request was just verified
    uint8_t asked             # requests of it that were taken: none, one, more
    uint8_t ended             # after the last answer owed: no more requests, close
    uint8_t beside            # its last request is being read beside the loop (net/beside)
    uint8_t waits_room        # it stands in the worker's list of those that wait for room (net/held)
    uint8_t has_room          # it stood there, and its large request may be read
    uint64_t from_            # whose it is (address_key), 0: it was never admitted
    int64_t arriving          # bytes of the budget it has (net/arriving)
    int64_t most              # bytes of the body that is read
    int64_t untaken           # bytes of its answers in the budget (net/untaken)
    int64_t held              # bytes of its requests in hand (net/held)
    int64_t handed            # ever, to the loop, of what the kernel did not take at once
    Pace pace                 # of its body, or of its answers

cdef struct ConnList:
    Conn* first
    Conn* last
    int n

cdef enum:
    INPUT_SIZE = 256 << 10    # bytes read at once
    INPUT_LARGE = 32 << 10    # a body from which on bytes are better not copied
    INPUT_HEAD = 2048         # read at once before such a body
    INPUT_LITTLE = 8192       # read at once in a turn that has read very much
    TICK_MS = 500             # timeouts are looked at

cdef struct Waits:            # net/worker
    Conn* first
    Conn* last

cdef enum:
    ARRIVING_FREE = 4096      # of an incomplete head, not counted
    PACE_ALL_MS = 30000       # for a whole body, or all answers, while room is short
    PACE_GRACE_MS = 2000

cdef enum Admission:
    ADMITTED = 0
    CROWDED = 1               # as many connections as there may be
    CROWDED_ADDRESS = 2       # of one address

cdef struct Budget:
    int64_t connections
    int64_t arriving          # bytes held for requests that are not complete
    int64_t parts             # bytes of WebSocket messages in parts that are not complete
    int64_t untaken           # bytes of answers that have not gone
    int64_t expected          # bytes that large pops are about to bring
    int64_t short_ms          # loop time when something found no room, 0: never
    uint64_t refused          # connections
    int most                  # connections
    int most_of_one           # of one address; 0: no bound
    int64_t most_arriving
    int64_t most_untaken
    uv_mutex_t lock           # for what stands below
    Table addresses           # connections of each
    int64_t told_us           # when the log was told of a refusal
