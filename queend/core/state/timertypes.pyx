# Operations on timers. In: what route/timerbody read. Out: results, where they stand in the answer of a statement. They
# stand in the request's arena. Owner: the request's worker. No locks.

cdef enum:
    TIMER_OPS_MOST = 256      # operations of a request
    TIMER_KEY_MOST = 512      # bytes of a key
    TIMER_PAYLOAD_MOST = 1048576         # bytes of a payload, unpacked
    TIMER_UNPACKED_MOST = 67108864       # bytes of the payloads of a request

# TimerOp.kind. The functions of sql/function/timers have the same numbers.
cdef enum TimerKind:
    TIMER_SCHEDULE = 0
    TIMER_CANCEL = 1

# Outcome of an operation, as those functions return it.
cdef enum TimerOutcome:
    TIMER_UNKNOWN = -1        # the answer of the statement was lost
    TIMER_SCHEDULED = 0
    TIMER_RESCHEDULED = 1
    TIMER_CANCELLED = 2
    TIMER_ABSENT = 3
    TIMER_TOO_LATE = 4
    TIMER_UNSEALED = 5        # the queue is encrypted and the payload is plain: nothing was done
    TIMER_FULL = 6            # there are too many timers: nothing was done

cdef struct TimerOp:
    uint8_t kind              # TIMER_SCHEDULE, TIMER_CANCEL
    bint again                # asked for as reschedule
    Slice queue
    Slice key
    Slice part
    Slice txn                 # p NULL: a cancellation without one
    Slice payload
    Slice seal                # id of the key that sealed the payload; p NULL: plain
    Slice sub                 # subject of the client; n 0: none
    int64_t delay_us
    int row                   # of the answer; -1: none

# Columns of a row of an answer, as timers_write and transaction_bundle return them.
cdef enum:                    # TIMER_ROW_*
    TIMER_ROW_ORD = 0
    TIMER_ROW_OUTCOME
    TIMER_ROW_DUE
    TIMER_ROW_ID
    TIMER_ROW_TXN
    TIMER_COLUMNS

cdef struct TimerReq:
    int n
    int room                  # operations for which there is memory
    TimerOp* ops
    size_t unpacked           # bytes of the payloads
    const char* code          # of a refusal, with its reason
    const char* reason
    int refused               # outcome that undid the request; 0: none
    PGresult* res             # while the answer is written; NULL: the results are not known
    const int* columns        # TIMER_ROW_* → column of `res`
