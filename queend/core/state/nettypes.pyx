# Connections, their requests, and the budgets of all clients together. In and out: fields. Owner: a connection and its
# requests belong to their worker's thread; the budgets to the process. Only conn_move writes the state of a connection.
# Locks: Budget.lock for the fields that say so.

cdef struct Conn
cdef struct HotRoute
cdef struct Writing

# ---- requests --------------------------------------------------------------------------------------------------------

cdef enum:
    BODY_PADDING = 80         # JSONWALK_ROOM
    REQUESTS_KEEP = 256       # free requests that a worker keeps
    OUTS_KEEP = 64            # buffers for answers that a worker keeps; requests that wait for an answer hold none
    OUT_KEEP = 65536          # largest kept buffer, bytes

cdef struct Request:
    # in its connection's order, or in the worker's list of requests without a client
    Request* before
    Request* next             # also in the worker's free list
    Conn* conn
    Worker* worker
    Arena arena
    int method                # METHOD_*
    Slice target              # as sent
    Slice path                # raw, of the target
    Slice query               # raw, without the question mark
    Slice headers_raw         # lines with their CRLF
    Slice authority           # the value of Host
    Slice subject             # whom the client's certificate names (net/tls); empty: no certificate
    const HotRoute* route     # NULL: the control plane handles the request
    Slice body                # NUL-terminated, BODY_PADDING readable bytes after it
    uint8_t http10
    uint8_t keep_alive
    uint8_t replied
    uint8_t early             # its body was not read yet: it waits for its token (READ_LATER)
    uint8_t queued            # its job counts among those of its address (govern/jobs)
    uint8_t clientless        # it is in the worker's list of requests without a client
    uint8_t unanswerable      # its answer got no memory: a short one replaces it
    uint8_t asks              # bits of ASK_*
    uint8_t pin               # pin of the epoch that protects the entries it found (base/epoch), 0: no look-up made
    int64_t started_us        # monotonic
    int op                    # OP_* that counts the request
    int status                # of the answer
    Buf out                   # the whole answer
    size_t out_room           # unused bytes before `out` in its memory (reply_large)
    int64_t charged           # bytes of the answer in the budget (net/budget)
    # bytes of its body in the budget of incomplete requests (net/held, net/offload, net/unpack)
    int64_t arriving
    int64_t arriving_share    # part of these that counts for the address of its connection
    int64_t held              # bytes of its arena in the worker's budget (net/held)
    uint8_t coding            # CODING_* of the received body
    int64_t unpacks_to        # most bytes that the unpacked body may have
    int64_t address_has       # bytes that its address had arriving when it was complete (net/unpack)
    size_t head_size          # bytes of the answer's status line and headers
    Grant* grant              # what its token allows, NULL: no token needed
    Feed* feed                # the feed that made the request: the answer becomes part of the feed
    void* job                 # a Job of the engine, or a call of the bridge
    void (*on_gone)(Request* r) noexcept nogil     # the client left before the answer; may be NULL
    # the client ended its side: it may have left, or it waits for this answer; may be NULL
    void (*on_end)(Request* r) noexcept nogil
    void (*on_unsent)(Request* r) noexcept nogil   # the client left before the answer went out; may be NULL

cdef struct RequestPool:
    Request* free_list
    int kept
    Buf[OUTS_KEEP] outs
    int outs_kept

# ---- connections -----------------------------------------------------------------------------------------------------

cdef enum:                    # which timeout runs; one list per state, oldest first
    CONN_IDLE = 0             # between requests
    CONN_HEAD = 1             # a head has begun
    CONN_BODY = 2             # a body has begun
    CONN_BUSY = 3             # answers are owed: no timeout
    CONN_STALLED = 4          # the client does not take its answers
    CONN_LINGER = 5           # everything was sent: waits for the client to close
    CONN_CLOSING = 6          # the handle is closing
    CONN_STATES = 7

cdef enum ConnReading:
    READ_HEAD = 0
    READ_FIXED = 1            # a body of known length
    READ_CHUNKED = 2
    READ_NOTHING = 3          # no further request is accepted: after an error or `Connection: close`
    # a request with a large body waits for the verification of its token, then is read again from its head
    READ_LATER = 4
    READ_GONE = 5             # closed; freed in its turn
    READ_FRAMES = 6           # frames of a WebSocket

cdef enum:
    OUT_MAX = 1 << 20         # bytes of unsent answers above which reading stops
    CONN_LINGER_MS = 2000
    CONN_LINGER_BYTES = 4 << 20  # most bytes discarded after the last answer

cdef struct Pace:             # net/budget
    uint32_t since            # loop time (ms, lower half) of its begin
    uint32_t mark_since       # loop time of the last look
    int64_t bytes             # bytes done at its begin
    int64_t mark_bytes
    bint running              # False: begins at the next look

cdef enum:
    ASKED_MANY = 2            # Conn.asked: more than one request

cdef struct ClientAddress:    # of one or more clients (net/budget)
    uint64_t key              # budget_key
    int connections           # guarded by budget.lock; the next sums, of its connections, are atomic
    int64_t arriving          # Conn.arriving, and Request.arriving_share of their requests
    int64_t untaken           # Conn.untaken
    int64_t long_polls        # Conn.long_polls
    int64_t parts             # Feed.parts_held
    int[2] bridged            # of calls to the control plane, as in Bridge; guarded by bridge.lock
    int64_t[2] bridged_bytes

cdef struct LocalAddress:     # the same clients in one worker (net/budget)
    ClientAddress* client
    int connections
    int64_t held              # Conn.held of its connections
    int64_t jobs              # their jobs that Engine.queued_jobs counts
    Conn* room_first          # its connections that wait for room (net/held)
    Conn* room_last
    LocalAddress* room_prev   # in the worker's list of addresses with such connections
    LocalAddress* room_next

cdef enum:
    INPUT_SIZE = 256 << 10    # bytes read at once
    INPUT_LARGE = 32 << 10    # from this body size on, copying is avoided
    INPUT_HEAD = 2048         # bytes read at once before such a body
    INPUT_LITTLE = 8192       # bytes read at once in a turn that has read TURN_CROWDED
    TICK_MS = 500             # interval between looks at timeouts

cdef enum TlsPhase:
    TLS_SHAKING = 0           # the handshake is not complete
    TLS_OPEN = 1
    TLS_ENDED = 2             # the client sent its close_notify; answers are still written
    TLS_CLOSED = 3            # this side sent its close_notify, or the session has failed

cdef enum:
    TLS_RECORD = 16384        # most bytes that a record holds
    TLS_RECORD_MOST = 17408   # most bytes of a record with its header, rounded up; a session keeps an incomplete one
    TLS_SHAKING_BYTES = 81920 # most that a session holds until its handshake is complete, measured
    TLS_MESSAGE_MOST = 16384  # most bytes of a client's first message, and of its certificates
    TLS_SUBJECT = 255         # most bytes of a subject
    TLS_SILENT_MOST = 64      # most records without data in one read: each new key costs some 10 us
    TLS_NOT_THERE = -1        # X509_get_ext_d2i: the certificate has no such extension
    TLS_ROUND = 8 * TLS_RECORD        # plain bytes that are encrypted at once
    TLS_OUTPUT = TLS_ROUND + 32768    # room for their records, one more, and what the session sends by itself

cdef struct TlsSpans:         # plain bytes that are not encrypted yet
    const uv_buf_t* at
    unsigned int n
    size_t used               # bytes of the first span that are encrypted

cdef struct Tls:              # a connection's session (net/tls)
    SSL* ssl
    Worker* worker
    uint8_t phase             # TlsPhase
    bint begun                # the client has sent something
    bint waited               # its handshake had to wait for a later turn, and may go on now
    bint too_large            # a message of its handshake is larger than TLS_MESSAGE_MOST
    bint deaf                 # bytes of the client were skipped: none is decrypted any more
    int record_left           # bytes of the record being read that are still to come
    int silent                # records of the last read that had no data, and the one being read
    int64_t uncounted         # bytes of the socket that bytes_in lacks; below 0: plain bytes that it has too much
    uint8_t header_got        # bytes of the header being read
    uint8_t[5] header
    int message_left          # bytes of the handshake's message being read that are still to come
    uint8_t message_got       # bytes of that message's header that were read
    uint8_t[4] message        # its header
    Writing* first            # plain answers that wait until the kernel takes those before them (net/tlswrite)
    Writing* last
    size_t waiting            # their bytes
    Slice subject             # whom the client's certificate names; owned

cdef struct TlsRoom:          # of a worker (net/tls)
    char[INPUT_SIZE] input    # encrypted bytes of the last read
    const char* at            # those of them that are not decrypted yet
    size_t left
    char[TLS_OUTPUT] output   # encrypted bytes that are not sent yet
    size_t used
    char[TLS_RECORD] joined   # short answers that become one record

cdef struct Conn:
    uv_tcp_t tcp              # must stay first: a handle is its connection
    Conn* prev                # in the list of its state
    Conn* next
    Conn* next_dirty
    Conn* unread_prev         # in the worker's list of unread connections
    Conn* unread_next
    # in a list of connections that continue in a later turn (net/worker); the last entry points to itself; NULL: in no
    # list
    Conn* wait_next
    Worker* worker
    Tls* tls                  # NULL: plain
    Request* first            # requests that await their answers, in order
    Request* last
    Request* reading          # its head is complete, its body is not
    # complete request that waits for room before it is processed; NULL: the next head or frame waits
    Request* unread_request
    Conn* room_prev           # in its address's list of connections that wait for room
    Conn* room_next
    Feed* feed                # the stream that its last request became
    Buf head                  # bytes of an incomplete request; may also hold requests that unanswered ones delay
    size_t body_got           # READ_FIXED
    Chunked* chunked          # READ_CHUNKED
    size_t out_pending        # bytes handed to the loop that the kernel has not taken yet
    size_t out_mark           # write queue at the last look for a stall
    uint64_t since            # loop time (ms) of the last change of state, or of the last progress of a body
    uint64_t half_since       # loop time (ms) at which the end of input was noticed
    int owed                  # requests in first..last
    int long_polls            # its long polls, as their bound counts them (govern/jobs)
    uint8_t state             # CONN_*; only conn_move writes it
    uint8_t mode              # ConnReading
    uint8_t greedy            # exceeds its own bound of unsent answers
    uint8_t large  # the last body was large: the next one is read directly into its place, separately from its head
    uint8_t dirty             # stands in the worker's list of connections to look at
    uint8_t paused            # reading stopped: too many requests or answers in hand, or the input has ended
    uint8_t in_pieces         # paused because too many requests come in pieces (net/worker); its time goes on
    uint8_t half              # the client ended its side: it left, or waits for its answers (net/connection)
    uint8_t read_out          # all input before that end was read
    uint8_t owes_continue     # `100 Continue` is due after all earlier answers
    uint8_t admitted          # the token of the next request was just verified
    uint8_t asked             # requests taken so far, at most ASKED_MANY
    uint8_t ended             # closes after the last due answer; takes no more requests
    # its last request is read off the loop (net/offload), or waits for its token (bridge): the next request waits
    uint8_t last_is_away
    uint8_t waits_room        # it is in the list of connections that wait for room (net/held)
    uint8_t has_room          # it waited there, and its large request may now be read
    LocalAddress* address     # of the client; counts this connection
    int64_t arriving          # bytes counted in the budget of incomplete requests (net/budget)
    int64_t most              # most bytes of the body being read
    int64_t untaken           # bytes of unsent answers in the budget (net/budget)
    int64_t held              # bytes of its unanswered requests (net/held)
    int64_t handed            # bytes ever given to the loop because the kernel did not take them at once
    Pace pace                 # of its body, or of its answers

cdef struct ConnList:
    Conn* first
    Conn* last
    int n

cdef struct Waits:            # net/worker
    Conn* first
    Conn* last
    Conn* put                 # the last one that was put back in this turn, NULL: none was

# ---- budgets of all clients ------------------------------------------------------------------------------------------

cdef enum:
    ARRIVING_FREE = 4096      # bytes of an incomplete head that are not counted
    PACE_ALL_MS = 30000       # time for a whole body, or all answers, while room is short
    PACE_GRACE_MS = 2000

cdef enum Admission:
    ADMITTED = 0
    CROWDED = 1               # the daemon has its most connections
    CROWDED_ADDRESS = 2       # the address has its most connections

cdef struct Budget:
    int64_t connections
    int64_t arriving          # bytes held for incomplete requests
    int64_t parts             # bytes of incomplete WebSocket messages
    int64_t untaken           # bytes of unsent answers
    int64_t expected          # bytes that large pops are expected to bring
    int64_t short_ms          # loop time of the last lack of room, 0: never
    uint64_t refused          # refused connections
    int most                  # bound of connections
    int most_of_one           # bound per address; 0: unbounded
    int64_t most_arriving
    int64_t most_untaken
    int64_t most_all          # bound of all bytes above together (budget_part)
    uv_mutex_t lock           # guards the fields below
    Table addresses           # ClientAddress by its key
    int64_t told_us           # when a refusal was last logged
