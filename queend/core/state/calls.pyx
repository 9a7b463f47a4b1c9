# A statement on its way (govern/call): one Call per statement in flight. Owner: the worker.

cdef struct Call
cdef struct Engine
cdef struct Limit

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
    Limit* limit              # gave the call its permit; NULL: none
    bint kept                 # embedded in a longer-lived struct: not freed at its end
    Arena arena               # memory of the call
    JobList jobs              # jobs that the call serves
    int64_t forgets           # book.forgets when the call was sent
    int deadline_ms
    int64_t sent_us
    int64_t ended_us
    call_done done
