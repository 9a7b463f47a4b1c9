# The table of SQLSTATEs. In: an error of the server. Out: a verdict: what the error means for the requests of the
# statement. Every job uses it, and so does the control plane (_core.verdict); docs/failover.md says what each job does.
# Owns the table, constant after the module is loaded. No locks.
# Only ERROR_DATA is ever the request's own fault, and only after a statement was split until one message stands alone.
# Every other error is retried, buffered, or answered 503. An unknown error is ERROR_UNCLEAR.

cdef enum ErrorClass:
    ERROR_AGAIN = 0           # an immediate retry may succeed: conflicts, locks, an outdated statement
    ERROR_AWAY                # the server cannot do it now: full, read-only, shutting down, out of resources
    ERROR_UNFIT               # the database does not fit this program: functions, columns, rights
    # may be tied to one message without being its fault: split, then 503
    ERROR_UNCLEAR
    ERROR_DATA                # cannot be stored as it is: split, then the message at fault is refused

cdef enum:
    UNCLEAR_TRIES = 3         # attempts of a statement whose retry may fail for ever
    PAUSE_MOST_US = 100000    # longest pause between two attempts

cdef struct Verdict:
    const char* code          # two characters stand for the whole class
    int error_class
    bint anew                 # the connection is replaced: on the old one the error would repeat
    bint reload               # names or numbers may be outdated: the catalog is reloaded
    const char* meaning       # clause at the end of a refusal

cdef enum:
    VERDICTS_MOST = 48
    VERDICT_TEXT = 240

cdef Verdict[VERDICTS_MOST] verdicts
cdef int n_verdicts
cdef Verdict verdict_unknown

cdef void sqlstate_add(const char* code, int blame, bint anew, bint reload, const char* meaning) noexcept nogil:
    global n_verdicts
    verdicts[n_verdicts].code = code
    verdicts[n_verdicts].error_class = blame
    verdicts[n_verdicts].anew = anew
    verdicts[n_verdicts].reload = reload
    verdicts[n_verdicts].meaning = meaning
    n_verdicts += 1

cdef void sqlstate_open() noexcept nogil:
    # Fills the table once, when the module is loaded. Whole codes stand before their class.
    verdict_unknown.code = b""
    verdict_unknown.error_class = ERROR_UNCLEAR
    verdict_unknown.anew = False
    verdict_unknown.reload = False
    verdict_unknown.meaning = b"the database met an error that has no class here"
    sqlstate_add(b"40001", ERROR_AGAIN, False, False, b"the database met a serialization failure")
    sqlstate_add(b"40P01", ERROR_AGAIN, False, False, b"the database met a deadlock")
    sqlstate_add(b"40", ERROR_AGAIN, False, False, b"the database rolled the transaction back")
    sqlstate_add(b"QD408", ERROR_AGAIN, False, False,
                 b"the statement was executed after its moment: the clock has jumped")
    sqlstate_add(b"55P03", ERROR_AGAIN, False, False, b"a lock was not to be had in time")
    sqlstate_add(b"55006", ERROR_AGAIN, False, False, b"something that is needed is in use")
    sqlstate_add(b"55", ERROR_AWAY, False, False, b"the database is not in a state to do it")
    # One expensive statement; other statements are answered, so the database is available.
    sqlstate_add(b"57014", ERROR_UNCLEAR, False, False,
                 b"the statement was cancelled, or took longer than statement_timeout")
    sqlstate_add(b"57P03", ERROR_AWAY, False, False, b"the database takes no connections: it starts, or ends")
    sqlstate_add(b"57", ERROR_AWAY, False, False, b"the server or somebody who runs it ended the session")
    sqlstate_add(b"26000", ERROR_AGAIN, True, False, b"the prepared statement is gone")
    sqlstate_add(b"0A000", ERROR_AGAIN, True, False, b"a function returns other columns than when it was prepared")
    sqlstate_add(b"23503", ERROR_AGAIN, False, True, b"a key of ours is gone")
    sqlstate_add(b"23505", ERROR_AGAIN, False, True, b"a key of ours is there already")
    sqlstate_add(b"23514", ERROR_DATA, False, False, b"a check of a table refuses what it would hold")
    sqlstate_add(b"23P01", ERROR_AGAIN, False, False, b"an exclusion of ours refuses it")
    sqlstate_add(b"25006", ERROR_AWAY, True, False,
                 b"the database is read-only: a standby, or default_transaction_read_only")
    sqlstate_add(b"25", ERROR_AWAY, True, False,
                 b"the session or its transaction ran into a time limit, or is in no state to go on")
    sqlstate_add(b"53100", ERROR_AWAY, False, False, b"the database has no space on its disk")
    sqlstate_add(b"53200", ERROR_AWAY, False, False, b"the database is out of memory")
    sqlstate_add(b"53300", ERROR_AWAY, False, False, b"the database has no connection left")
    sqlstate_add(b"53", ERROR_AWAY, False, False, b"the database is out of disk, memory or connections")
    sqlstate_add(b"58", ERROR_AWAY, False, False, b"the server's system failed: a file, a disk")
    sqlstate_add(b"08", ERROR_AWAY, True, False, b"the connection failed")
    sqlstate_add(b"3D", ERROR_AWAY, True, False, b"the database is gone")
    sqlstate_add(b"28", ERROR_UNFIT, True, False, b"the database does not let this daemon in")
    sqlstate_add(b"42501", ERROR_UNFIT, False, False, b"this daemon lacks a right in the database")
    sqlstate_add(b"42883", ERROR_UNFIT, False, False,
                 b"the database lacks a function: it is another version's, or half restored")
    sqlstate_add(b"42703", ERROR_UNFIT, False, False, b"the database lacks a column")
    sqlstate_add(b"42", ERROR_UNFIT, False, False, b"the schema is another one, or a right is missing")
    sqlstate_add(b"3F", ERROR_UNFIT, False, False, b"the schema is gone")
    sqlstate_add(b"0L", ERROR_UNFIT, False, False, b"this daemon lacks a right in the database")
    sqlstate_add(b"0P", ERROR_UNFIT, False, False, b"the role of this daemon is gone")
    sqlstate_add(b"F0", ERROR_UNFIT, False, False, b"the server's configuration is broken")
    sqlstate_add(b"22", ERROR_DATA, False, False, b"the database cannot store a value of it")
    sqlstate_add(b"54", ERROR_DATA, False, False, b"it is larger than PostgreSQL can take")
    sqlstate_add(b"21", ERROR_UNCLEAR, False, False, b"the database has more than one row where there is one")
    sqlstate_add(b"23", ERROR_UNCLEAR, False, False, b"a rule of a table refuses it")
    sqlstate_add(b"P0", ERROR_UNCLEAR, False, False, b"a function of the database gave up")
    sqlstate_add(b"38", ERROR_UNCLEAR, False, False, b"a function of an extension gave up")
    sqlstate_add(b"39", ERROR_UNCLEAR, False, False, b"a function of an extension gave up")
    sqlstate_add(b"XX", ERROR_UNCLEAR, False, False,
                 b"the database met an internal error, or data on its disk is damaged")

# ---- errors judged ---------------------------------------------------------------------------------------------------

cdef const Verdict* sqlstate_find(const char* code) noexcept nogil:
    cdef int i
    if code != NULL and strlen(code) == 5:
        for i in range(n_verdicts):
            if memcmp(code, verdicts[i].code, strlen(verdicts[i].code)) == 0:
                return &verdicts[i]
    return &verdict_unknown

cdef inline const Verdict* sqlstate_of(PGresult* res) noexcept nogil:
    return sqlstate_find(PQresultErrorField(res, PG_DIAG_SQLSTATE))

cdef const char* sqlstate_text(char* out, const char* what, const Verdict* v) noexcept nogil:
    # Writes a refusal to out and returns it: what was not done, and why. out: VERDICT_TEXT bytes.
    snprintf(out, VERDICT_TEXT, b"%s: %s%s", what, v.meaning, b"" if v.error_class == ERROR_DATA else b"; try again")
    return out

cdef inline bint sqlstate_isolates(int blame) noexcept nogil:
    # Returns True if the error may be tied to one request. Then the jobs that share the statement are sent separately.
    return blame == ERROR_UNCLEAR or blame == ERROR_DATA

cdef inline bint sqlstate_retries(int blame, int tries, int64_t waited_us, int64_t patience_us) noexcept nogil:
    # Returns True if the same statement should be sent again.
    if blame == ERROR_DATA or waited_us > patience_us:
        return False
    return tries < UNCLEAR_TRIES or blame == ERROR_AGAIN or blame == ERROR_AWAY

cdef inline int64_t sqlstate_pause_us(int tries) noexcept nogil:
    cdef int64_t pause = 1000 * <int64_t>tries * tries
    return pause if pause < PAUSE_MOST_US else PAUSE_MOST_US

sqlstate_open()

# ---- for the control plane -------------------------------------------------------------------------------------------

BLAMES = ("again", "away", "unfit", "unclear", "data")

def verdict(code):
    """What an SQLSTATE means: "again", "away", "unfit", "unclear" or "data" (core/pg/sqlstate.pyx). None: no code, the
    connection failed."""
    if code is None:
        return "away"
    cdef bytes text = code.encode()
    return BLAMES[sqlstate_find(text).error_class]

def verdict_meaning(code):
    """Why it was so, as a clause. None: no code, the connection failed."""
    cdef bytes text = b"08000" if code is None else code.encode()
    return sqlstate_find(text).meaning.decode()

def verdict_table():
    """The table as [(code or class, verdict, connection replaced, catalog reloaded, meaning)], in the order it is read.
    """
    return [(verdicts[i].code.decode(), BLAMES[verdicts[i].error_class], verdicts[i].anew, verdicts[i].reload,
             verdicts[i].meaning.decode())
            for i in range(n_verdicts)]
