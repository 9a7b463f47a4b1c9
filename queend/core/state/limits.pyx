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

cdef struct Policy:
    int preferred             # this many jobs need not wait any longer
    int max_jobs              # of one statement
    int max_items             # messages or acknowledgments of one statement
    int64_t max_bytes         # of their bodies
    int64_t hold_us           # the oldest job waits at most this long for company; -1: as long as a statement is in flight,
                              # unless the database is far away (policy_hold)
    bint patient              # hold even when no statement of the type is in flight (the operator asked for the hold)

cdef enum:
    COMPANY_US = 1000         # no job waits longer
    COMPANY_LEAST = 4         # jobs, answered and gathered, from which on it is worth it
    COMPANY_SKIPS = 6         # nobody waits for 2 to the number of misses in a row, at most so many, of the following statements

cdef struct Company:
    int expected              # jobs to go with; 0: nobody is awaited
    int misses
    int skip
    int64_t until_us

