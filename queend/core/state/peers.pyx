# Daemons of one database tell each other what they committed. A notice is only a hint: what it names is looked at in
# the database at once, and not with the next second's look. Whatever is lost, late or false costs a look.

cdef enum:
    PACKET_VERSION = 2        # 1 is the reference server's, which says other things
    PACKET_MOST = 1400        # bytes; no network on the way cuts it
    PACKET_HEAD = 108
    PACKET_TAG = 4            # where its HMAC stands
    PACKET_TAG_SIZE = 32
    PACKET_ENTRY = 8
    PACKET_ENTRIES = (PACKET_MOST - PACKET_HEAD) // PACKET_ENTRY
    PEER_NAME = 32            # with the NUL behind it

cdef enum NoticeFlag:
    NOTICE_LOOK = 1           # something was committed that no entry names
    NOTICE_MAINTENANCE = 2    # a switch of all daemons was turned

cdef struct NoticeEntry:
    int32_t partition
    int32_t group             # whose lease of it ended; 0: messages were stored in it

cdef struct Notice:
    # The head of a packet.
    int flags                 # NOTICE_*
    int n                     # entries
    uint64_t began            # when its sender started, wall clock: with `random` the session
    uint64_t random
    uint64_t sequence         # of the session, from 1 on
    uint64_t sent_us          # wall clock
    uint64_t database         # which it serves, as a hash
    char[PEER_NAME] name      # of the sender, host:port

cdef enum PacketVerdict:
    PACKET_GOOD = 0
    PACKET_BROKEN = 1         # no packet
    PACKET_OTHER = 2          # of another version
    PACKET_FORGED = 3         # not of somebody who has the secret
    PACKET_OWN = 4            # this daemon's: its own name is in the list
    PACKET_ELSEWHERE = 5      # of a daemon on another database
    PACKET_STALE = 6          # sent too long ago, or by a clock that is far off
    PACKET_AGAIN = 7          # had before, or too far behind to tell
    PACKET_ENDED = 8          # of a session that another has followed
    PACKET_CROWDED = 9        # more senders than are remembered
    PACKET_STRANGE = 10       # without a secret: from an address that is none of the peers'
    PACKET_VERDICTS = 11

cdef struct Window:
    # Which packets of a session were had: its last 64 are told apart, whatever their order.
    uint64_t first
    uint64_t last
    uint64_t had              # bit i: `last` - i was
    uint64_t taken

cdef enum:
    SENDERS_MOST = 64
    SENDER_SKEW_US = 60000000         # packets sent longer ago than that, or later than now, are not taken

cdef struct Sender:
    char[PEER_NAME] name
    uint64_t began
    uint64_t random
    Window window
    int64_t heard_us          # monotonic
    uint64_t packets          # of all its sessions that were had
    uint64_t lost             # of those before this one that were not
    uint64_t restarts
    bint alive                # as last told to the log

cdef struct Senders:
    Sender[SENDERS_MOST] all
    int n
    int64_t dead_us           # one that is silent for so long is gone
    bint verified             # there is a secret: a packet is of whom it names

cdef enum:
    TOLD_MOST = 4096          # entries that wait to leave; beyond: NOTICE_LOOK stands for them
    TOLD_CELLS = 8192
    PEERS_MOST = 64           # addresses
    PEER_GAP_US = 2000        # between two times at which something leaves
    PEER_LOOK_US = 5000       # between two looks because of notices
    PEER_LOG_US = 60000000    # between two lines of the log about packets of one kind that are not taken
    PEER_KEPT = 64            # packets that wait to leave over HTTP; beyond: NOTICE_LOOK stands for them

cdef struct ToldTable:
    uint64_t[TOLD_CELLS] cells        # group and partition of an entry, 0: free
    int[TOLD_MOST] at                 # the cells that are not
    int n
    int flags                 # NOTICE_*

cdef struct Told:
    # What is to leave. Any thread; guarded by its lock, below which there is an inbox's alone.
    bint on                   # there are peers; written before the threads start
    uv_mutex_t lock
    ToldTable* now            # of `tables`; the first worker owns the other one
    ToldTable* tables
    InboxMsg msg              # to the first worker
    bint posted               # it is in the inbox, or the first worker has not yet done what it says

cdef struct PeerKept:
    size_t n
    char[PACKET_MOST] bytes

cdef struct PeerPosted:
    InboxMsg msg
    size_t n
    char[PACKET_MOST] bytes

cdef struct Peers:
    # Owner: the first worker. `lock` guards what Python reads and writes; it is taken alone.
    uv_mutex_t lock
    uv_udp_t[2] sockets
    int[2] fds                # their descriptors until the loop has them, -1: none
    int[2] bound              # of which family these are
    int[2] families           # of the sockets that can be used, 0: none
    uv_timer_t leaving        # what was told leaves
    uv_timer_t beat
    int handles
    bint armed                # `leaving` is
    int64_t left_us           # monotonic, when something last left
    int beat_ms
    Slice secret
    Notice me                 # this session; its `sequence` is of the last packet
    int64_t server            # the incarnation that me.database was made of
    char[PACKET_MOST + 1] input       # what was received last
    NoticeEntry[PACKET_ENTRIES] entries
    char[PACKET_MOST] out
    # guarded
    sockaddr_storage[PEERS_MOST] addresses
    int n_addresses
    bint posts                # packets leave over HTTP as well
    PeerKept* kept            # PEER_KEPT of them
    int n_kept
    int fd                    # readable when Python has something to do
    bint maintenance          # somebody has switched it
    Senders senders
    uint64_t sent             # packets handed to the kernel
    uint64_t unsent           # that it did not take
    uint64_t posted           # that were kept for HTTP
    uint64_t told             # entries in packets
    uint64_t heard            # entries and flags that were heeded
    uint64_t beats            # heard
    uint64_t looks            # asked for
    uint64_t[PACKET_VERDICTS] verdicts
    int64_t[PACKET_VERDICTS] logged_us

cdef Told told
cdef Peers peers

peers.fds[0] = peers.fds[1] = -1     # none; 0 is a descriptor of somebody else
