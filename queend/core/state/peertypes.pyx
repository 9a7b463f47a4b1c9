# Notices between daemons of one database about what they committed. In and out: fields. A notice is only a hint: its
# receiver looks in the database at once and not at the next look, a second later. A lost, late or false notice costs
# one look.
# Owner: the first worker. Locks: Outbox.lock, for any thread; Peers.lock for what Python reads and writes.

# ---- packets ---------------------------------------------------------------------------------------------------------

cdef enum:
    PACKET_VERSION = 2        # version 1 is the reference server's, with other contents
    PACKET_MOST = 1400        # bytes; small enough to pass any network unfragmented
    PACKET_HEAD = 108
    PACKET_TAG = 4            # offset of the HMAC
    PACKET_TAG_SIZE = 32
    PACKET_ENTRY = 8
    PACKET_ENTRIES = (PACKET_MOST - PACKET_HEAD) // PACKET_ENTRY
    PEER_NAME = 32            # bytes, with the final NUL

cdef enum NoticeFlag:
    NOTICE_LOOK = 1           # something was committed that no entry names
    NOTICE_MAINTENANCE = 2    # a maintenance switch of all daemons was changed

cdef enum:
    # instead of a group in an entry, which is a table_pair of a group whose lease ended, and the partition
    NOTICE_STORED = 0         # messages were stored in the partition

cdef struct Notice:
    # The head of a packet.
    int flags                 # NOTICE_*
    int n                     # entries
    uint64_t began            # when the sender started, wall clock; identifies the session together with `random`
    uint64_t random
    uint64_t sequence         # within the session, starting at 1
    uint64_t sent_us          # wall clock
    uint64_t database         # hash of the database that the sender serves
    char[PEER_NAME] name      # the sender's, host:port

cdef enum PacketVerdict:
    PACKET_GOOD = 0
    PACKET_BROKEN = 1         # not a packet
    PACKET_OTHER = 2          # another version
    PACKET_FORGED = 3         # its sender does not have the secret
    PACKET_OWN = 4            # sent by this daemon: its own name is in the list of peers
    PACKET_ELSEWHERE = 5      # its sender serves another database
    PACKET_STALE = 6          # sent too long ago, or by a clock that is far off
    PACKET_AGAIN = 7          # received before, or too far behind to tell
    PACKET_ENDED = 8          # from a session that a newer one replaced
    PACKET_CROWDED = 9        # the table of senders is full
    PACKET_UNLISTED = 10      # without a secret: the address is not one of the peers
    PACKET_VERDICTS = 11

# ---- senders ---------------------------------------------------------------------------------------------------------

cdef struct Window:
    # Which packets of a session were received: the last 64 are distinguished, in any order.
    uint64_t first
    uint64_t last
    uint64_t had              # bit i: packet `last` - i was received
    uint64_t taken

cdef enum:
    SENDERS_MOST = 64
    SENDER_SKEW_US = 60000000         # packets sent longer ago than this, or this far in the future, are refused

cdef struct Sender:
    char[PEER_NAME] name
    uint64_t began
    uint64_t random
    Window window
    int64_t received_us       # monotonic
    uint64_t packets          # received packets of all its sessions
    uint64_t lost             # lost packets of the sessions before this one
    uint64_t restarts
    bint alive                # as last logged

cdef struct Senders:
    Sender[SENDERS_MOST] all
    int n
    int64_t dead_us           # a sender that is silent for this long counts as gone
    bint verified             # there is a secret: the sender's name in a packet is authentic

# ---- notices that wait to leave --------------------------------------------------------------------------------------

cdef enum:
    OUTBOX_MOST = 4096        # entries waiting to leave; beyond: NOTICE_LOOK replaces them
    OUTBOX_CELLS = 8192
    PEERS_MOST = 64           # addresses
    PEER_GAP_US = 2000        # shortest interval between two sends
    PEER_LOOK_US = 5000       # shortest interval between two looks caused by notices
    PEER_LOG_US = 60000000    # between two log lines about refused packets of one verdict
    PEER_KEPT = 64            # packets waiting for HTTP; beyond: NOTICE_LOOK replaces them

cdef struct OutboxTable:
    uint64_t[OUTBOX_CELLS] cells      # entries, 0: free
    int[OUTBOX_MOST] at               # indexes of the used cells
    int n
    int flags                 # NOTICE_*

cdef struct Outbox:
    # Notices that wait to leave. Any thread writes. Locks: its own; only an inbox's lock may be taken under it.
    bint on                   # there are peers; written before the threads start
    uv_mutex_t lock
    OutboxTable* now          # one of `tables`; the first worker owns the other one
    OutboxTable* tables
    InboxMsg msg              # sent to the first worker
    bint posted               # it is in the inbox, or the first worker has not handled it yet

# ---- peers -----------------------------------------------------------------------------------------------------------

cdef struct PeerKept:
    size_t n
    char[PACKET_MOST] bytes

cdef struct PeerPosted:
    InboxMsg msg
    size_t n
    char[PACKET_MOST] bytes

cdef struct Peers:
    # Owner: the first worker. Locks: `lock` guards what Python reads and writes; no other lock is taken with it.
    uv_mutex_t lock
    uv_udp_t[2] sockets
    int[2] fds                # their descriptors until the loop takes them over, -1: none
    int[2] bound              # address families of the descriptors
    int[2] families           # address families of the usable sockets, 0: none
    uv_timer_t send_timer     # sends waiting notices
    uv_timer_t beat
    int handles
    bint armed                # `leaving` is armed
    int64_t left_us           # monotonic, time of the last send
    int beat_ms
    Slice secret
    Notice me                 # this session; its `sequence` is the last packet's
    int64_t incarnation       # the incarnation that me.database was computed from
    char[PACKET_MOST + 1] input       # the last received packet
    uint64_t[PACKET_ENTRIES] entries
    char[PACKET_MOST] out
    # guarded by `lock`:
    sockaddr_storage[PEERS_MOST] addresses
    int n_addresses
    bint posts                # packets are sent over HTTP as well
    PeerKept* kept            # PEER_KEPT entries
    int n_kept
    int fd                    # readable when Python has work
    bint maintenance          # a peer has changed a maintenance switch
    Senders senders
    uint64_t sent             # packets handed to the kernel
    uint64_t unsent           # packets that the kernel refused
    uint64_t posted           # packets kept for HTTP
    uint64_t notified         # entries in sent packets
    uint64_t heard            # entries and flags that were acted upon
    uint64_t beats            # heartbeats received
    uint64_t looks            # looks requested
    uint64_t[PACKET_VERDICTS] verdicts
    int64_t[PACKET_VERDICTS] logged_us

cdef Outbox outbox
cdef Peers peers

peers.fds[0] = peers.fds[1] = -1     # none; 0 would be a descriptor of another owner
