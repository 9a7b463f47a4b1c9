# Call: a statement in flight (govern/call). Limit: how many statements of a type may be in flight (govern/limit).
# Linger: how long a statement waits for more jobs (govern/linger). In and out: fields. Owner: a worker. No locks.

cdef struct Call
cdef struct Limit

# ---- a statement in flight -------------------------------------------------------------------------------------------

cdef struct CallTexts:
    # Texts for the jobs of a failed call.
    const char* event         # log event
    const char* unknown       # the outcome is unknown
    const char* refused       # nothing took effect or will; NULL: put_off applies
    const char* put_off       # nothing took effect yet

cdef enum:
    ANSWER_MS = 5000          # limit for the first attempt of a push, or of the names it creates

ctypedef void (*call_done)(Call* c, PGresult* res, int outcome) noexcept nogil

cdef struct Call:
    Engine* engine
    int statement             # STMT_*
    # gave the call its permit; NULL: it needs none, and is embedded in a longer-lived struct: not freed at its end
    Limit* limit
    Arena arena               # memory of the call
    JobList jobs              # jobs that the call serves
    int64_t forgets           # book.forgets when the call was sent
    int deadline_ms
    int64_t sent_us
    int64_t ended_us
    call_done done

# ---- limit of statements in flight -----------------------------------------------------------------------------------

cdef enum:
    LIMIT_STATIC = 0
    LIMIT_VEGAS = 1
    LIMIT_START = 4
    LIMIT_SPANS = 16          # steps in which the window of the fastest call moves
    LIMIT_PROBE = 10          # calls of a probe; fewer if the interval ends first

cdef struct LimitConfig:
    int mode
    int max_concurrent        # of the job type; the whole of a static limit
    int min_limit
    int max_limit
    int alpha
    int beta
    int window_samples        # of the moving mean of recent calls
    int64_t fastest_window_us
    int64_t interval_us

cdef struct Limit:
    LimitConfig config
    int limit
    int in_flight
    int peak                  # most statements in flight since the last look
    int round                 # calls completed since the last look
    bint starting
    double recent             # moving mean, us; 0: no sample yet
    double fastest            # fastest call as of the last look, us: shows how far away the database is; 0: unknown
    int64_t[LIMIT_SPANS] span_at        # start of each step's time, us
    double[LIMIT_SPANS] span_min        # fastest call in each step
    double probe_mean         # mean of the last probe's calls, us
    int64_t alone_us          # when the last probe ended; 0: never
    int64_t probe_us          # when the running probe began; 0: none runs
    int probe_n               # calls of the running probe so far
    double probe_sum          # their total time
    bint lone                 # the call in flight belongs to the probe
    int64_t looked_us
    int64_t halved_us

# ---- linger ----------------------------------------------------------------------------------------------------------

cdef struct LingerRule:
    # How long a statement waits for clients that return. Counts are jobs or records, as its user counts.
    int least                 # fewest answered and gathered for which waiting pays
    int share                 # share of them that is expected, in eighths
    int enough                # share of the expected that must come, in eighths; fewer is a miss
    int64_t slow_us           # waiting pays only after statements at least this slow
    int part                  # waits for the statement's time divided by this
    int64_t least_us
    int64_t most_us
    int most_misses           # after a miss 2^misses statements do not wait; most misses counted

# Values of Linger.wait_us and Engine.hold_us that are no time.
cdef enum:
    HOLD_FLIGHT = -1          # as long as a statement is in flight
    HOLD_NONE = -1            # no linger ends by time alone

cdef struct Linger:
    int preferred             # with this many jobs a statement leaves at once
    int max_jobs              # jobs in one statement
    int64_t wait_us           # longest wait of the oldest job, or HOLD_FLIGHT: shorter if the database is far away
    bint patient              # waits also when no statement is in flight: the operator asked for it
    const LingerRule* rule    # NULL: does not wait for returning clients
    int expected              # jobs or records to wait for; 0: does not wait
    int64_t until_us
    int misses
    int skip                  # statements that leave without waiting
