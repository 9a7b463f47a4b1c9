# When statements leave, and how many fly: one of each per job type and worker (govern/ decides). Owner: the worker.

cdef enum:
    LIMIT_STATIC = 0
    LIMIT_VEGAS = 1
    LIMIT_START = 4
    LIMIT_SPANS = 16          # the window of the fastest call moves in so many steps
    LIMIT_PROBE = 10          # calls of a probe, or as many as fit into an interval

cdef struct LimitConfig:
    int mode
    int max_concurrent        # of the type; the whole of a static limit
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
    int peak                  # most in flight since the last look
    int round                 # completions since the last look
    bint starting
    double recent             # moving mean, us; 0: no sample yet
    double fastest            # as of the last look, us: how far away the database is; 0: not known
    int64_t[LIMIT_SPANS] span_at        # start of each step's time, us
    double[LIMIT_SPANS] span_min        # fastest call in it
    double alone              # mean of the calls of the last probe, us
    int64_t alone_us          # when that was; 0: never
    int64_t probe_us          # when the probe that goes on began; 0: none does
    int probe_n               # its calls so far
    double probe_sum          # what they took
    bint lone                 # the call in flight is one of them
    int64_t looked_us
    int64_t halved_us

cdef struct HoldRule:
    # How clients that return are awaited; in jobs or in records, as its user counts.
    int least                 # answered and gathered, from which on it is worth it
    int share                 # of them are awaited, in eighths
    int enough                # of those have to come, in eighths: else nobody waits for a while
    int64_t slow_us           # a faster statement is not worth it
    int part                  # of the statement's time
    int64_t least_us
    int64_t most_us
    int most_misses           # nobody waits for 2 to the number of misses in a row, at most so many

cdef struct Hold:
    int preferred             # this many jobs need not wait any longer
    int max_jobs              # of one statement
    # the oldest job waits at most so long for others; -1: as long as a statement is in flight, unless the database is
    # far away (hold_for)
    int64_t wait_us
    bint patient              # also when none is in flight: the operator asked for it
    const HoldRule* rule      # NULL: no client is awaited
    int expected              # to go with; 0: nobody is awaited
    int64_t until_us
    int misses
    int skip                  # statements that wait for nobody
