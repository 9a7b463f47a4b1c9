# A statement on its way: one per statement in flight (govern/call). Owner: the worker.

cdef struct Call
cdef struct Engine
cdef struct Limit

cdef struct CallTexts:
    # what the jobs of a call that failed are told
    const char* event         # in the log
    const char* unknown       # no answer
    const char* refused       # nothing took effect, nor will it; NULL: as the next
    const char* put_off       # nothing took effect now

cdef enum:
    ANSWER_MS = 5000          # how long the first try of a push, or of names it makes, may take

ctypedef void (*call_done)(Call* c, PGresult* res, int outcome) noexcept nogil

cdef struct Call:
    Engine* engine
    int statement             # STMT_*
    Limit* limit              # of which it has a permit; NULL: none
    bint kept                 # it stands in something that outlives it
    Arena arena               # its own memory
    JobList jobs              # what it is for
    int64_t forgets           # book.forgets when it was sent
    int deadline_ms
    int64_t sent_us
    int64_t ended_us
    call_done done
