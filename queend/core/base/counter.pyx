# Counters of a worker. In: events and durations. Out: numbers; each counter is a metric of its name (stats).
# Owner: the worker's thread, the only writer. Readers sum the blocks of all workers without a lock, so a value may be
# slightly old. Counters named live_… must be zero after a clean stop: the tests assert it.

cdef enum:
    OP_PUSH = 0
    OP_POP = 1
    OP_ACK = 2
    OP_TRANSACTION = 3
    OP_LEASE = 4
    OP_KV = 5
    OP_EPHEMERAL = 6
    OP_OTHER = 7
    OP_COUNT = 8
    LATENCY_BUCKETS = 32      # bucket i counts latencies below 2**i microseconds

cdef struct OpCounter:
    uint64_t requests         # answered
    uint64_t items            # messages or acknowledgments in them
    uint64_t errors           # answered with 4xx or 5xx
    uint64_t calls            # statements sent
    int limit                 # how many statements may be in flight, as of now
    uint64_t latency_sum_us
    uint64_t[LATENCY_BUCKETS] latency

cdef struct Times:            # bucket i counts times below 2**i microseconds
    uint64_t sum_us
    uint64_t[LATENCY_BUCKETS] n

cdef struct Counters:
    OpCounter[OP_COUNT] op
    Times age                 # of messages when they were delivered: of the oldest row of each pop's answer
    Times statement           # from a statement's first byte to the end of its answer
    uint64_t accepted         # connections
    uint64_t bytes_in
    uint64_t bytes_out
    uint64_t db_errors
    uint64_t duplicates
    uint64_t timers_scheduled
    uint64_t timers_cancelled
    uint64_t buffered         # messages answered as buffered
    uint64_t dead_lettered
    uint64_t empty_pops
    uint64_t from_memory      # messages delivered from the row cache
    uint64_t delivered_bytes  # of answers and streams with messages
    uint64_t acked_by_lease   # acknowledgments that needed no look into the log
    uint64_t streams_begun    # streams of messages that were begun
    uint64_t streamed         # messages delivered to streams
    uint64_t handed_over      # messages delivered by the push that stored them
    uint64_t sealed           # payloads, of encrypted queues
    uint64_t opened
    uint64_t not_sealed       # plain payloads found in encrypted queues
    uint64_t left_sealed      # delivered as they are stored: without their key, or changed
    uint64_t refused          # answered 503: a bound was reached, or the database is away
    uint64_t not_parked       # pops refused, because too many were waiting
    uint64_t not_taken        # connections closed, because their answers were not taken
    uint64_t no_room          # requests refused, because too much was being received
    uint64_t waited_room      # large requests that waited for room
    uint64_t trimmed          # times that free memory was given back to the system (net/held)
    uint64_t logged           # lines of the request log
    uint64_t spans            # spans of traces (net/spans)
    uint64_t spans_dropped    # spans without room
    uint64_t not_logged       # lines of the request log without room
    uint64_t too_slow         # requests whose bodies came too slowly
    uint64_t tls_handshakes   # completed
    uint64_t tls_resumed      # of these: sessions that were resumed
    uint64_t tls_failed
    uint64_t turn_bytes       # most that one turn of the loop read from clients
    uint64_t turn_delivered   # most bytes of messages that one turn of the loop delivered
    uint64_t read_beside      # bodies that were read off the loop
    uint64_t answered_beside  # requests answered while a body was read off the loop
    # monotonic ms, when a statement was sent after the last answer of the database; 0: no statement waits
    int64_t silent_since
    int64_t connected         # connections that serve
    int64_t live_connections
    int64_t live_requests
    int64_t live_streams      # of messages
    int64_t live_jobs
    int64_t live_slots
    int64_t live_handles
    int64_t parked
    int64_t held              # bytes of requests in hand (net/held)

cdef extern from *:
    int __builtin_clzll(unsigned long long v) noexcept nogil

cdef inline int counter_bucket(uint64_t us) noexcept nogil:
    cdef int b = 64 - __builtin_clzll(us) if us else 0
    return b if b < LATENCY_BUCKETS else LATENCY_BUCKETS - 1

cdef inline void counter_latency(OpCounter* c, int64_t us) noexcept nogil:
    cdef uint64_t v = <uint64_t>us if us > 0 else 0
    c.latency_sum_us += v
    c.latency[counter_bucket(v)] += 1

cdef inline void counter_add(Times* t, int64_t us) noexcept nogil:
    cdef uint64_t v = <uint64_t>us if us > 0 else 0
    t.sum_us += v
    t.n[counter_bucket(v)] += 1
