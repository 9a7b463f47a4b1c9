# libpq of PostgreSQL 15 or later: only what the core uses.
cdef extern from "<libpq-fe.h>" nogil:
    ctypedef unsigned int Oid
    ctypedef struct PGconn:
        pass
    ctypedef struct PGresult:
        pass
    ctypedef enum ConnStatusType:
        CONNECTION_BAD
    ctypedef enum PostgresPollingStatusType:
        PGRES_POLLING_FAILED
        PGRES_POLLING_READING
        PGRES_POLLING_WRITING
        PGRES_POLLING_OK
    ctypedef enum ExecStatusType:
        PGRES_COMMAND_OK
        PGRES_TUPLES_OK
        PGRES_PIPELINE_SYNC
    ctypedef void (*PQnoticeProcessor)(void*, const char*) noexcept nogil
    int PG_DIAG_SQLSTATE, PG_DIAG_MESSAGE_PRIMARY, PG_DIAG_MESSAGE_DETAIL

    ctypedef struct PQconninfoOption:
        char* keyword
        char* val
    PQconninfoOption* PQconninfoParse(const char*, char**)
    void PQconninfoFree(PQconninfoOption*)

    PGconn* PQconnectStart(const char*)
    PGconn* PQconnectStartParams(const char* const*, const char* const*, int)
    PostgresPollingStatusType PQconnectPoll(PGconn*)
    void PQfinish(PGconn*)
    ConnStatusType PQstatus(const PGconn*)
    char* PQerrorMessage(const PGconn*)
    int PQsocket(const PGconn*)
    PQnoticeProcessor PQsetNoticeProcessor(PGconn*, PQnoticeProcessor, void*)

    ctypedef enum PGVerbosity:
        PQERRORS_DEFAULT
        PQERRORS_VERBOSE
    PGVerbosity PQsetErrorVerbosity(PGconn*, PGVerbosity)
    int PQsetnonblocking(PGconn*, int)
    int PQenterPipelineMode(PGconn*)
    int PQpipelineSync(PGconn*)
    int PQsendPrepare(PGconn*, const char*, const char*, int, const Oid*)
    int PQsendQueryPrepared(PGconn*, const char*, int, const char* const*, const int*, const int*, int)
    int PQsendQueryParams(PGconn*, const char*, int, const Oid*, const char* const*, const int*, const int*, int)
    int PQflush(PGconn*)
    int PQconsumeInput(PGconn*)
    int PQisBusy(PGconn*)
    PGresult* PQgetResult(PGconn*)

    ExecStatusType PQresultStatus(const PGresult*)
    char* PQresultErrorField(const PGresult*, int)
    int PQntuples(const PGresult*)
    int PQnfields(const PGresult*)
    Oid PQftype(const PGresult*, int)
    char* PQfname(const PGresult*, int)
    char* PQgetvalue(const PGresult*, int, int)
    int PQgetlength(const PGresult*, int, int)
    size_t PQresultMemorySize(const PGresult*)
    int PQgetisnull(const PGresult*, int, int)
    void PQclear(PGresult*)
