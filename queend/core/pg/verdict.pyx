# The table of SQLSTATEs: the meaning of each for the statement that met it. In: an error result. Out: a
# verdict. Every job uses it, and so does the control plane (_core.verdict); docs/failover.md says what each job does.
#
# Only DATA is ever the request's own fault, and only after a statement was split until one message stands alone.
# Every other error is retried, buffered, or answered 503. An unknown error is UNCLEAR.

cdef enum Blame:
    BLAME_AGAIN = 0           # an immediate retry may succeed: conflicts, locks, an outdated statement
    BLAME_AWAY                # the server cannot do it now: full, read-only, shutting down, out of resources
    BLAME_UNFIT               # the database does not fit this program: functions, columns, rights
    # may be tied to one message without being its fault: split, then 503
    BLAME_UNCLEAR
    BLAME_DATA                # cannot be stored as it is: split, then the message at fault is refused

cdef enum:
    UNCLEAR_TRIES = 3         # attempts of a statement whose retry may fail for ever
    PAUSE_MOST_US = 100000    # longest pause between two attempts

cdef struct Verdict:
    const char* code          # two characters stand for the whole class
    int blame
    bint anew                 # the connection is replaced: on the old one the error would repeat
    bint reload               # names or numbers may be outdated: the catalog is reloaded
    const char* meaning       # clause at the end of a refusal

cdef enum:
    VERDICTS_MOST = 48
    VERDICT_TEXT = 240

cdef Verdict[VERDICTS_MOST] verdicts
cdef int n_verdicts
cdef Verdict verdict_unknown

cdef void verdict_add(const char* code, int blame, bint anew, bint reload, const char* meaning) noexcept nogil:
    global n_verdicts
    verdicts[n_verdicts].code = code
    verdicts[n_verdicts].blame = blame
    verdicts[n_verdicts].anew = anew
    verdicts[n_verdicts].reload = reload
    verdicts[n_verdicts].meaning = meaning
    n_verdicts += 1

cdef void verdicts_open() noexcept nogil:
    # Fills the table once, when the module is loaded. Whole codes stand before their class.
    verdict_unknown.code = b""
    verdict_unknown.blame = BLAME_UNCLEAR
    verdict_unknown.anew = False
    verdict_unknown.reload = False
    verdict_unknown.meaning = b"the database met an error that has no class here"
    verdict_add(b"40001", BLAME_AGAIN, False, False, b"the database met a serialization failure")
    verdict_add(b"40P01", BLAME_AGAIN, False, False, b"the database met a deadlock")
    verdict_add(b"40", BLAME_AGAIN, False, False, b"the database rolled the transaction back")
    verdict_add(b"QD408", BLAME_AGAIN, False, False,
                b"the statement was executed after its moment: the clock has jumped")
    verdict_add(b"55P03", BLAME_AGAIN, False, False, b"a lock was not to be had in time")
    verdict_add(b"55006", BLAME_AGAIN, False, False, b"something that is needed is in use")
    verdict_add(b"55", BLAME_AWAY, False, False, b"the database is not in a state to do it")
    # One expensive statement; other statements are answered, so the database is available.
    verdict_add(b"57014", BLAME_UNCLEAR, False, False,
                b"the statement was cancelled, or took longer than statement_timeout")
    verdict_add(b"57P03", BLAME_AWAY, False, False, b"the database takes no connections: it starts, or ends")
    verdict_add(b"57", BLAME_AWAY, False, False, b"the server or somebody who runs it ended the session")
    verdict_add(b"26000", BLAME_AGAIN, True, False, b"the prepared statement is gone")
    verdict_add(b"0A000", BLAME_AGAIN, True, False, b"a function returns other columns than when it was prepared")
    verdict_add(b"23503", BLAME_AGAIN, False, True, b"a key of ours is gone")
    verdict_add(b"23505", BLAME_AGAIN, False, True, b"a key of ours is there already")
    verdict_add(b"23514", BLAME_DATA, False, False, b"a check of a table refuses what it would hold")
    verdict_add(b"23P01", BLAME_AGAIN, False, False, b"an exclusion of ours refuses it")
    verdict_add(b"25006", BLAME_AWAY, True, False,
                b"the database is read-only: a standby, or default_transaction_read_only")
    verdict_add(b"25", BLAME_AWAY, True, False,
                b"the session or its transaction ran into a time limit, or is in no state to go on")
    verdict_add(b"53100", BLAME_AWAY, False, False, b"the database has no space on its disk")
    verdict_add(b"53200", BLAME_AWAY, False, False, b"the database is out of memory")
    verdict_add(b"53300", BLAME_AWAY, False, False, b"the database has no connection left")
    verdict_add(b"53", BLAME_AWAY, False, False, b"the database is out of disk, memory or connections")
    verdict_add(b"58", BLAME_AWAY, False, False, b"the server's system failed: a file, a disk")
    verdict_add(b"08", BLAME_AWAY, True, False, b"the connection failed")
    verdict_add(b"3D", BLAME_AWAY, True, False, b"the database is gone")
    verdict_add(b"28", BLAME_UNFIT, True, False, b"the database does not let this daemon in")
    verdict_add(b"42501", BLAME_UNFIT, False, False, b"this daemon lacks a right in the database")
    verdict_add(b"42883", BLAME_UNFIT, False, False,
                b"the database lacks a function: it is another version's, or half restored")
    verdict_add(b"42703", BLAME_UNFIT, False, False, b"the database lacks a column")
    verdict_add(b"42", BLAME_UNFIT, False, False, b"the schema is another one, or a right is missing")
    verdict_add(b"3F", BLAME_UNFIT, False, False, b"the schema is gone")
    verdict_add(b"0L", BLAME_UNFIT, False, False, b"this daemon lacks a right in the database")
    verdict_add(b"0P", BLAME_UNFIT, False, False, b"the role of this daemon is gone")
    verdict_add(b"F0", BLAME_UNFIT, False, False, b"the server's configuration is broken")
    verdict_add(b"22", BLAME_DATA, False, False, b"the database cannot store a value of it")
    verdict_add(b"54", BLAME_DATA, False, False, b"it is larger than PostgreSQL can take")
    verdict_add(b"21", BLAME_UNCLEAR, False, False, b"the database has more than one row where there is one")
    verdict_add(b"23", BLAME_UNCLEAR, False, False, b"a rule of a table refuses it")
    verdict_add(b"P0", BLAME_UNCLEAR, False, False, b"a function of the database gave up")
    verdict_add(b"38", BLAME_UNCLEAR, False, False, b"a function of an extension gave up")
    verdict_add(b"39", BLAME_UNCLEAR, False, False, b"a function of an extension gave up")
    verdict_add(b"XX", BLAME_UNCLEAR, False, False,
                b"the database met an internal error, or data on its disk is damaged")

cdef const Verdict* verdict_code(const char* code) noexcept nogil:
    cdef int i
    if code != NULL and strlen(code) == 5:
        for i in range(n_verdicts):
            if memcmp(code, verdicts[i].code, strlen(verdicts[i].code)) == 0:
                return &verdicts[i]
    return &verdict_unknown

cdef inline const Verdict* verdict_of(PGresult* res) noexcept nogil:
    return verdict_code(PQresultErrorField(res, PG_DIAG_SQLSTATE) if res != NULL else NULL)

cdef const char* verdict_text(char* out, const char* what, const Verdict* v) noexcept nogil:
    # Writes a refusal to out and returns it: what was not done, and why. out: VERDICT_TEXT bytes.
    snprintf(out, VERDICT_TEXT, b"%s: %s%s", what, v.meaning, b"" if v.blame == BLAME_DATA else b"; try again")
    return out

cdef inline bint blames_request(int blame) noexcept nogil:
    # Returns True if the error may be tied to one request. Then the jobs that share the statement are sent separately.
    return blame == BLAME_UNCLEAR or blame == BLAME_DATA

cdef inline bint blame_again(int blame, int tries, int64_t waited_us, int64_t patience_us) noexcept nogil:
    # Returns True if the same statement should be sent again.
    if blame == BLAME_DATA or waited_us > patience_us:
        return False
    return tries < UNCLEAR_TRIES or blame == BLAME_AGAIN or blame == BLAME_AWAY

cdef inline int64_t blame_pause_us(int tries) noexcept nogil:
    cdef int64_t pause = 1000 * <int64_t>tries * tries
    return pause if pause < PAUSE_MOST_US else PAUSE_MOST_US

verdicts_open()
BLAMES = ("again", "away", "unfit", "unclear", "data")

def verdict(code):
    """What an SQLSTATE means: "again", "away", "unfit", "unclear" or "data" (core/pg/verdict.pyx). None: no code, the
    connection failed."""
    if code is None:
        return "away"
    cdef bytes text = code.encode()
    return BLAMES[verdict_code(text).blame]

def verdict_meaning(code):
    """Why it was so, as a clause. None: no code, the connection failed."""
    cdef bytes text = b"08000" if code is None else code.encode()
    return verdict_code(text).meaning.decode()

def verdict_table():
    """The table as [(code or class, verdict, connection replaced, catalog reloaded, meaning)], in the order it is read.
    """
    return [(verdicts[i].code.decode(), BLAMES[verdicts[i].blame], verdicts[i].anew, verdicts[i].reload,
             verdicts[i].meaning.decode())
            for i in range(n_verdicts)]
