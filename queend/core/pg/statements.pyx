# The statements of the hot path: one per function of sql/function, prepared on every connection, called by number. In:
# the table's rows. Out: definitions, constant once the first worker starts. Parameters have their names in pg/args. No
# locks.
# A signature has one letter per parameter. Lower case: q bigint, i integer, s smallint, t text, y bytea, u uuid, j
# jsonb, b boolean, d double precision, p tid. A capital is an array; v is the catalog's version. A final ! means that
# the statement changes something, and refuses to run after a given time.

cdef enum:
    OID_BOOL = 16
    OID_BYTEA = 17
    OID_INT8 = 20
    OID_INT2 = 21
    OID_INT4 = 23
    OID_TEXT = 25
    OID_TID = 27
    OID_FLOAT8 = 701
    OID_TIMESTAMPTZ = 1184
    OID_UUID = 2950
    OID_JSONB = 3802
    OID_BOOL_ARRAY = 1000
    OID_BYTEA_ARRAY = 1001
    OID_INT2_ARRAY = 1005
    OID_INT4_ARRAY = 1007
    OID_TEXT_ARRAY = 1009
    OID_TID_ARRAY = 1010
    OID_INT8_ARRAY = 1016
    OID_FLOAT8_ARRAY = 1022
    OID_UUID_ARRAY = 2951

cdef enum:
    STMT_PUSH = 0
    STMT_POP
    STMT_ACK
    STMT_TRANSACTION
    STMT_RENEW
    STMT_RELEASE
    STMT_RESOLVE_WITHIN
    STMT_CATALOG_LOAD
    STMT_GROUP_WITHIN
    STMT_GROUPS_FIND
    STMT_PARTITIONS_FIND
    STMT_PARTITION_FIND
    STMT_POP_SCAN
    STMT_RECENT
    STMT_IDS_STORED
    STMT_TURN
    STMT_IDS_LEARN
    STMT_WAKING
    STMT_LEASES_ENDED
    STMT_QUEUE_SIZES
    STMT_PUSH_DUE
    STMT_PUSH_ONE
    STMT_TRANSACTION_DUE
    STMT_CYCLE
    STMT_TAKE_BACK
    STMT_PUSHED
    STMT_LEASE_QUEUES
    STMT_STREAM_SOURCES
    STMT_QUEUES_MAKE
    STMT_LOOK
    STMT_RATES_TAKE
    STMT_CLAIM
    STMT_ACK_LEASED
    STMT_KV_GET
    STMT_KV_WRITE
    STMT_KV_BUNDLE
    STMT_LOCKS
    STMT_TRANSACTION_BUNDLE
    STMT_POP_NEWEST
    STMT_TIMERS_WRITE
    STMT_COUNT

# Values of the first column of a row, besides the index of what the row is about.
cdef enum:
    ORD_STALE = -1            # the catalog's version is outdated: nothing was done
    ORD_NAMED = -2            # of push: all rows were stored at the heads that were named

# Result columns, in the order of each function's RETURNS TABLE.
cdef enum:
    PUSH_ORD = 0
    PUSH_STATUS
    PUSH_BASE
    PUSH_CREATED_AT
    PUSH_DUP_OFFSET
    PUSH_DUP_AT
    PUSH_SEEN
# PUSH_STATUS
cdef enum PushStatus:
    PUSH_WHOLE = 0            # stored as a whole
    PUSH_CHECKED = 1          # its ids were looked up: some records may be duplicates
    PUSH_CLAIMED = 2          # a claim for a waiting pop was made
    PUSH_REFUSED = 3          # nothing of the partition was stored
    PUSH_COMPARE = 4          # a row of the log that may hold records of the partition (push/results)
cdef enum:
    POP_ORD = 0
    POP_STATUS
    POP_ATTEMPT
    POP_FIRST
    POP_TAKE
    POP_BASE
    POP_N
    POP_CREATED_AT
    POP_IDS
    POP_BODY
    POP_META
    POP_HEAD
    POP_UNTIL
    POP_DEAD_LETTERED
    POP_SINCE                 # of pop_newest: the first offset of the claim
# POP_STATUS
cdef enum PopStatus:
    POP_ROW_NOTHING = 0       # nothing to deliver
    POP_ROW_CLAIMED = 1
    POP_ROW_LEASED = 2        # leased until POP_UNTIL, or locked
    POP_ROW_DELAYED = 3       # nothing may be delivered before POP_UNTIL
    POP_ROW_UNNEEDED = 4      # untouched: other candidates were enough
cdef enum:
    ACK_ORD = 0
    ACK_STATUS
    ACK_CODES
    ACK_RELEASED
    ACK_COMMITTED
    ACK_HEAD
    ACK_RETRY_UNTIL
# ACK_STATUS
cdef enum AckRowStatus:
    ACK_ROW_DONE = 0
    ACK_ROW_NO_CURSOR = 2
cdef enum:
    TX_ORD = 0
    TX_KIND
    TX_STATUS
    TX_BASE
    TX_CREATED_AT
    TX_CODES
    TX_RELEASED
    TX_COMMITTED
    TX_HEAD
    TX_DUP_INDEX
    TX_SEEN
# TX_KIND
cdef enum TxRowKind:
    TX_ROW_PUSH = 0
    TX_ROW_ACK = 1
    TX_ROW_LEASE = 2          # a required lease that is not live
    TX_ROW_KEY = 3
    TX_ROW_TIMER = 4
# TX_STATUS of a push
cdef enum TxRowStatus:
    TX_ROW_STORED = 0
    TX_ROW_DUPLICATE = 1
    TX_ROW_REFUSED = 3        # nothing was done: ids have to be learned, or late_ids has to list more of them
cdef enum:
    PUSHED_ORD = 0
    PUSHED_BASE
    PUSHED_CREATED_AT
cdef enum:
    TURN_PART = 0
    TURN_GROUP
    TURN_PLACE                # the cursor of a claim
    TURN_RELEASED             # NULL: a claim
    TURN_HEAD
cdef enum:
    RENEW_ORD = 0
    RENEW_STATUS
    RENEW_EXPIRES_AT
    RENEW_RENEWED

cdef enum:
    CYCLE_ERROR = 0
    CYCLE_STALE
    CYCLE_QUEUE
    CYCLE_BASE
    CYCLE_CREATED_AT
    CYCLE_DUPS
    CYCLE_GROUP
    CYCLE_COMMITTED
    CYCLE_HEAD
    CYCLE_RELEASED
    CYCLE_WAITS
    CYCLE_GONE

cdef struct StatementDef:
    const char* name
    char[420] text
    int n_params
    int n_args                # parameters that pg/args fills
    bint versioned            # the first parameter is the catalog's version
    bint fenced  # the last parameter is a moment, set by slot_send, after which the statement refuses to run
    Oid[PARAMS_MAX] types
    Oid[PARAMS_MAX] elements  # element type of an array; 0: not an array

cdef StatementDef[STMT_COUNT] STATEMENTS

# The letters of a signature, and their types: of a value, and of an array of such values.
cdef const char* STATEMENT_LETTERS = b"qvistybdpuj"
cdef Oid[11] STATEMENT_TYPES
STATEMENT_TYPES = [OID_INT8, OID_INT8, OID_INT4, OID_INT2, OID_TEXT, OID_BYTEA, OID_BOOL, OID_FLOAT8, OID_TID, OID_UUID,
                   OID_JSONB]
cdef Oid[10] STATEMENT_ARRAYS
STATEMENT_ARRAYS = [OID_INT8_ARRAY, OID_INT8_ARRAY, OID_INT4_ARRAY, OID_INT2_ARRAY, OID_TEXT_ARRAY, OID_BYTEA_ARRAY,
                    OID_BOOL_ARRAY, OID_FLOAT8_ARRAY, OID_TID_ARRAY, OID_UUID_ARRAY]

cdef void statement_define(StatementDef* d, const char* name, const char* signature, const char* text) noexcept nogil:
    # Fills in the definition. text NULL: calls the function of that name.
    cdef size_t at
    cdef int i
    memset(d, 0, sizeof(StatementDef))
    d.name = name
    d.versioned = signature[0] == b'v'
    while signature[d.n_args] and signature[d.n_args] != b'!':
        i = <int>(strchr(STATEMENT_LETTERS, signature[d.n_args] | LETTER_SMALL) - STATEMENT_LETTERS)
        d.types[d.n_args] = STATEMENT_TYPES[i]
        if signature[d.n_args] < b'a':
            d.elements[d.n_args] = STATEMENT_TYPES[i]
            d.types[d.n_args] = STATEMENT_ARRAYS[i]
        d.n_args += 1
    d.n_params = d.n_args
    at = <size_t>snprintf(d.text, sizeof(d.text), b"SELECT * FROM queend.%s(", name)
    for i in range(d.n_args):
        at += <size_t>snprintf(d.text + at, sizeof(d.text) - at, b"$%d," if i + 1 < d.n_args else b"$%d", i + 1)
    at += <size_t>snprintf(d.text + at, sizeof(d.text) - at, b")")
    if text != NULL:
        at = <size_t>snprintf(d.text, sizeof(d.text), b"%s", text)
    if signature[d.n_args] == b'!':
        # Ends the statement with a check of the clock for every returned row, after its work and under its locks. A
        # statement executed after the moment is undone (sql/function/fence.sql).
        d.fenced = True
        d.types[d.n_params] = OID_TIMESTAMPTZ
        d.n_params += 1
        snprintf(d.text + at, sizeof(d.text) - at, b" WHERE clock_timestamp() <= $%d OR queend.late($%d)", d.n_params,
                 d.n_params)

cdef inline bint statement_transacts(int statement) noexcept nogil:
    return (statement == STMT_TRANSACTION or statement == STMT_TRANSACTION_DUE
            or statement == STMT_TRANSACTION_BUNDLE)

cdef inline bint statement_stores(int statement) noexcept nogil:
    # Returns True if the statement needs space on the server's disk.
    return (statement == STMT_PUSH or statement == STMT_PUSH_DUE or statement == STMT_PUSH_ONE
            or statement_transacts(statement) or statement == STMT_CYCLE)

cdef inline bint statement_delivers(int statement) noexcept nogil:
    # Returns True if messages are delivered when the statement ends.
    return (statement == STMT_POP or statement == STMT_CLAIM or statement == STMT_TURN
            or statement == STMT_ACK_LEASED or statement == STMT_POP_NEWEST)

cdef inline bint statement_stored(int statement, PGresult* res) noexcept nogil:
    # Returns True if a statement that stores (statement_stores) changed something, by the rows of its answer. A refused
    # or stale statement, or one with duplicates only, changed nothing: it may be answered while commits hang.
    cdef int row
    if statement == STMT_CYCLE:
        return pg_null(res, 0, CYCLE_ERROR) and pg_null(res, 0, CYCLE_STALE) and not pg_bool(res, 0, CYCLE_GONE)
    for row in range(PQntuples(res)):
        if statement_tx_stored(res, row) if statement_transacts(statement) else statement_pushed(res, row):
            return True
    return False

cdef inline bint statement_pushed(PGresult* res, int row) noexcept nogil:
    # Returns True if this row of a push says that a record was stored.
    cdef int status = pg_int2(res, row, PUSH_STATUS)
    return status == PUSH_WHOLE or status == PUSH_CHECKED and pg_int8(res, row, PUSH_BASE) >= 0

cdef inline bint statement_tx_stored(PGresult* res, int row) noexcept nogil:
    # Returns True if this row of a transaction says that a record was stored or an acknowledgment applied. Only a
    # transaction that was done tells offsets and heads.
    if pg_int2(res, row, TX_KIND) == TX_ROW_PUSH:
        return pg_int2(res, row, TX_STATUS) == TX_ROW_STORED and pg_int8(res, row, TX_BASE) >= 0
    return pg_int8_or(res, row, TX_HEAD, 0) > 0

cdef const StatementDef* statements_open() noexcept nogil:
    # The table of STMT_COUNT definitions. Filled once, before the first worker starts.
    cdef StatementDef* s = STATEMENTS
    # The last parameter of all three follows the hint here: push_one has no parameters for the places to look.
    statement_define(&s[STMT_PUSH], b"push", b"vIIIISUUYYYQbIIIBUQQQIQQ!",
                     b"SELECT * FROM queend.push($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$14,$15,$16,$17,$18,$19,$20,"
                     b"$21,$22,$23,$24,$13)")
    statement_define(&s[STMT_PUSH_DUE], b"push_due", b"vIIIISUUYYYQbIIIBUQQQIQQ!",
                     b"SELECT * FROM queend.push_due($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$14,$15,$16,$17,$18,$19,"
                     b"$20,$21,$22,$23,$24,$13)")
    statement_define(&s[STMT_PUSH_ONE], b"push_one", b"viiiisuuyyyqbiiibuqqq!",
                     b"SELECT * FROM queend.push_one($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$14,$15,$16,$17,$18,$19,"
                     b"$20,$21,$13)")
    statement_define(&s[STMT_POP], b"pop", b"vIIIBIIBUQQQQQI!", NULL)
    statement_define(&s[STMT_POP_NEWEST], b"pop_newest", b"vIIIBIIBUQQQQQI!", NULL)
    statement_define(&s[STMT_ACK], b"ack", b"vIIUIYYIQIIT!", NULL)
    statement_define(&s[STMT_TRANSACTION], b"transaction", b"vIIIISUUYYYIIUIYYIITUIIQQIQQb!", NULL)
    statement_define(&s[STMT_TRANSACTION_DUE], b"transaction_due", b"vIIIISUUYYYIIUIYYIITUIIQQIQQb!", NULL)
    statement_define(&s[STMT_RENEW], b"renew", b"UIIII!", NULL)
    statement_define(&s[STMT_RELEASE], b"release", b"IIU!", NULL)
    statement_define(&s[STMT_RESOLVE_WITHIN], b"resolve_within", b"TTii!", NULL)
    statement_define(&s[STMT_CATALOG_LOAD], b"catalog_load", b"", NULL)
    statement_define(&s[STMT_GROUP_WITHIN], b"group_within", b"ittqib!", NULL)
    statement_define(&s[STMT_GROUPS_FIND], b"groups_find", b"IT", NULL)
    statement_define(&s[STMT_PARTITIONS_FIND], b"partitions_find", b"I", NULL)
    statement_define(&s[STMT_PARTITION_FIND], b"partition_find", b"IT", NULL)
    statement_define(&s[STMT_POP_SCAN], b"pop_scan", b"iiii", NULL)
    statement_define(&s[STMT_RECENT], b"recent", b"qq", NULL)
    statement_define(&s[STMT_IDS_STORED], b"ids_stored", b"IYQ", NULL)
    # Acknowledgments and claims of one moment share a transaction. If there is only one kind, its function is called
    # alone, with the same columns: an unneeded function call costs a tenth of the call.
    statement_define(&s[STMT_CLAIM], b"claim", b"vIIQIQUQ!", NULL)
    statement_define(&s[STMT_ACK_LEASED], b"ack_leased", b"vIIUQQQbP!",
                     b"SELECT part, grp, NULL::tid AS at, released, head"
                     b" FROM queend.ack_leased($1,$2,$3,$4,$5,$6,$7,$8,$9)")
    statement_define(&s[STMT_TURN], b"turn", b"vIIUQQQbPIIQIQUQ!",
                     b"SELECT * FROM (SELECT part, grp, NULL::tid AS at, released, head"
                     b" FROM queend.ack_leased($1,$2,$3,$4,$5,$6,$7,$8,$9)"
                     b" UNION ALL SELECT part, grp, at, NULL, 0"
                     b" FROM queend.claim($1,$10,$11,$12,$13,$14,$15,$16)) AS t")
    statement_define(&s[STMT_IDS_LEARN], b"ids_learn", b"iqq", NULL)
    statement_define(&s[STMT_WAKING], b"waking", b"qiqi", NULL)
    statement_define(&s[STMT_LEASES_ENDED], b"leases_ended", b"II", NULL)
    statement_define(&s[STMT_QUEUE_SIZES], b"queue_sizes", b"I", NULL)
    statement_define(&s[STMT_CYCLE], b"stream_cycle", b"vuiTTDTIIIISUUYYYtyuibtbi!", NULL)
    statement_define(&s[STMT_TAKE_BACK], b"take_back", b"IIQQ!", NULL)
    statement_define(&s[STMT_PUSHED], b"pushed", b"IIIY", NULL)
    # lease_queues: queue and group of each partition that is leased under one of these leases
    statement_define(&s[STMT_LEASE_QUEUES], b"lease_queues", b"U",
                     b"SELECT l.ord::int - 1 AS ord, (SELECT q.name FROM queend.queues q WHERE q.id ="
                     b" (SELECT p.queue_id FROM queend.partitions p WHERE p.id = f.partition_id)) AS queue,"
                     b" (SELECT g.name FROM queend.consumer_groups g WHERE g.id = f.group_id) AS grp"
                     b" FROM unnest($1) WITH ORDINALITY AS l (lease, ord)"
                     b" CROSS JOIN LATERAL queend.leases_find(ARRAY[l.lease], '{}', '{}') AS f")
    # stream_sources: the source queue of a query, and the queue of a partition
    statement_define(&s[STMT_STREAM_SOURCES], b"stream_sources", b"ui",
                     b"SELECT (SELECT q.source_queue FROM queend.stream_queries q WHERE q.query_uuid = $1) AS query,"
                     b" (SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                     b" WHERE p.id = $2) AS partition")
    statement_define(&s[STMT_QUEUES_MAKE], b"queues_make", b"TTTt",
                     b"SELECT queend.queues_make($1,$2,$3) FROM set_config('queend.max_queues', $4, true)")
    statement_define(&s[STMT_RATES_TAKE], b"rates_take", b"IIII!", NULL)
    statement_define(&s[STMT_TRANSACTION_BUNDLE], b"transaction_bundle",
                     b"vIIIISUUYYYIIUIYYIITUIIQQIQQbISTTTQQTTTBSTTTTTTQT!", NULL)
    statement_define(&s[STMT_KV_GET], b"kv_get", b"TT", NULL)
    statement_define(&s[STMT_KV_WRITE], b"kv_write", b"ISTTTQQTTT!", NULL)
    statement_define(&s[STMT_KV_BUNDLE], b"kv_bundle", b"ISTTTQQTTTB!", NULL)
    statement_define(&s[STMT_TIMERS_WRITE], b"timers_write", b"STTTTTTQT!", NULL)
    statement_define(&s[STMT_LOCKS], b"locks", b"STTQIQI!", NULL)
    statement_define(&s[STMT_LOOK], b"look", b"",
                     b"SELECT pg_current_snapshot()::text, version, queend.now_us() FROM queend.catalog")
    return s
