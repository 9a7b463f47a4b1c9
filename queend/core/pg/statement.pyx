# The statements of the hot path: one per function of sql/function, prepared on every connection, called by number. A
# signature has one letter per parameter: q bigint, i integer, s smallint, t text, y bytea, u uuid, j jsonb, b boolean;
# a capital is the array of it, S smallint[], B boolean[], D double precision[], P tid[]; v is the version of the
# catalog. Names: pg/args.

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
    STMT_COUNT

# Result columns, in the order of each function's RETURNS TABLE.
cdef enum:
    PUSH_ORD = 0
    PUSH_STATUS
    PUSH_BASE
    PUSH_CREATED_AT
    PUSH_DUP_OFFSET
    PUSH_DUP_AT
    PUSH_SEEN
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
    POP_BURIED
cdef enum:
    ACK_ORD = 0
    ACK_STATUS
    ACK_CODES
    ACK_RELEASED
    ACK_COMMITTED
    ACK_HEAD
    ACK_RETRY_UNTIL
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
cdef enum:
    PUSHED_ORD = 0
    PUSHED_BASE
    PUSHED_CREATED_AT
cdef enum:
    TURN_PART = 0
    TURN_GROUP
    TURN_PLACE                # of a claim's cursor
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

cdef struct StatementDef:
    const char* name
    char[420] text
    int n_params
    int n_args                # those that pg/args fills
    bint versioned            # the first is the version of the catalog
    bint fenced               # it changes something, and refuses to after a moment that slot_send gives it: the last
                              # parameter
    Oid[PARAMS_MAX] types
    Oid[PARAMS_MAX] elements  # of arrays; 0: it is none

cdef StatementDef[STMT_COUNT] STATEMENTS

cdef Oid statement_type(char letter) noexcept nogil:
    if letter == b'q' or letter == b'v': return OID_INT8
    if letter == b'i': return OID_INT4
    if letter == b's': return OID_INT2
    if letter == b't': return OID_TEXT
    if letter == b'y': return OID_BYTEA
    if letter == b'u': return OID_UUID
    if letter == b'j': return OID_JSONB
    if letter == b'b': return OID_BOOL
    if letter == b'Q': return OID_INT8_ARRAY
    if letter == b'I': return OID_INT4_ARRAY
    if letter == b'S': return OID_INT2_ARRAY
    if letter == b'B': return OID_BOOL_ARRAY
    if letter == b'D': return OID_FLOAT8_ARRAY
    if letter == b'T': return OID_TEXT_ARRAY
    if letter == b'Y': return OID_BYTEA_ARRAY
    if letter == b'P': return OID_TID_ARRAY
    return OID_UUID_ARRAY

cdef Oid statement_element(char letter) noexcept nogil:
    if letter == b'Q': return OID_INT8
    if letter == b'I': return OID_INT4
    if letter == b'S': return OID_INT2
    if letter == b'B': return OID_BOOL
    if letter == b'D': return OID_FLOAT8
    if letter == b'T': return OID_TEXT
    if letter == b'Y': return OID_BYTEA
    if letter == b'P': return OID_TID
    return OID_UUID if letter == b'U' else 0

cdef void statement_define(StatementDef* d, const char* name, const char* signature) noexcept nogil:
    cdef int i
    cdef size_t at
    d.name = name
    d.n_params = <int>strlen(signature)
    d.n_args = d.n_params
    d.versioned = signature[0] == b'v'
    at = <size_t>snprintf(d.text, sizeof(d.text), b"SELECT * FROM queend.%s(", name)
    for i in range(d.n_params):
        d.types[i] = statement_type(signature[i])
        d.elements[i] = statement_element(signature[i])
        at += <size_t>snprintf(d.text + at, sizeof(d.text) - at, b"$%d,", i + 1)
    if d.n_params:
        at -= 1               # the last comma
    snprintf(d.text + at, sizeof(d.text) - at, b")")

cdef inline bint statement_stores(int statement) noexcept nogil:
    # Does it need space on the server's disk?
    return (statement == STMT_PUSH or statement == STMT_PUSH_DUE or statement == STMT_PUSH_ONE
            or statement == STMT_TRANSACTION or statement == STMT_TRANSACTION_DUE or statement == STMT_CYCLE)

cdef void statement_fence(StatementDef* d) noexcept nogil:
    # It ends with a look at the clock, for every row it returns, after all its work and under its locks: a statement
    # that is executed after the moment is undone (sql/function/late.sql).
    cdef size_t at = strlen(d.text)
    d.fenced = True
    d.types[d.n_params] = OID_TIMESTAMPTZ
    d.n_params += 1
    snprintf(d.text + at, sizeof(d.text) - at, b" WHERE clock_timestamp() <= $%d OR queend.late($%d)", d.n_params,
             d.n_params)

cdef const StatementDef* statements_open() noexcept nogil:
    # The table of STMT_COUNT definitions. Filled once, before the first worker starts.
    cdef StatementDef* s = STATEMENTS
    statement_define(&s[STMT_PUSH], b"push", b"vIIIISUUYYYQIIIBUQQQIQQ")
    statement_define(&s[STMT_PUSH_DUE], b"push_due", b"vIIIISUUYYYQIIIBUQQQIQQ")
    statement_define(&s[STMT_PUSH_ONE], b"push_one", b"viiiisuuyyyqiiibuqqq")    # those of push, but for places to look
    statement_define(&s[STMT_POP], b"pop", b"vIIIBIIBUQQQQQI")
    statement_define(&s[STMT_ACK], b"ack", b"vIIUIYYIQIIT")
    statement_define(&s[STMT_TRANSACTION], b"transaction", b"vIIIISUUYYYIIUIYYIITUIIQQIQQb")
    statement_define(&s[STMT_TRANSACTION_DUE], b"transaction_due", b"vIIIISUUYYYIIUIYYIITUIIQQIQQb")
    statement_define(&s[STMT_RENEW], b"renew", b"UIIII")
    statement_define(&s[STMT_RELEASE], b"release", b"IIU")
    statement_define(&s[STMT_RESOLVE_WITHIN], b"resolve_within", b"TTii")
    statement_define(&s[STMT_CATALOG_LOAD], b"catalog_load", b"")
    statement_define(&s[STMT_GROUP_WITHIN], b"group_within", b"ittqi")
    statement_define(&s[STMT_GROUPS_FIND], b"groups_find", b"IT")
    statement_define(&s[STMT_PARTITIONS_FIND], b"partitions_find", b"I")
    statement_define(&s[STMT_PARTITION_FIND], b"partition_find", b"IT")
    statement_define(&s[STMT_POP_SCAN], b"pop_scan", b"iiii")
    statement_define(&s[STMT_RECENT], b"recent", b"qq")
    statement_define(&s[STMT_IDS_STORED], b"ids_stored", b"IYQ")
    statement_define(&s[STMT_TURN], b"turn", b"vIIUQQQbPIIQIQUQ")
    statement_define(&s[STMT_IDS_LEARN], b"ids_learn", b"iqq")
    statement_define(&s[STMT_WAKING], b"waking", b"qiqi")
    statement_define(&s[STMT_LEASES_ENDED], b"leases_ended", b"II")
    statement_define(&s[STMT_QUEUE_SIZES], b"queue_sizes", b"I")
    statement_define(&s[STMT_CYCLE], b"stream_cycle", b"vuiTTDTIIIISUUYYYtyuibtb")
    statement_define(&s[STMT_TAKE_BACK], b"take_back", b"IIQQ")
    statement_define(&s[STMT_PUSHED], b"pushed", b"IIIY")
    statement_define(&s[STMT_LEASE_QUEUES], b"lease_queues", b"U")
    # acknowledgments and claims of one moment in one transaction; where there is only the one or the other, their
    # function alone, with the same columns: to call a function for nothing is a tenth of what a call costs
    statement_define(&s[STMT_CLAIM], b"claim", b"vIIQIQUQ")
    statement_define(&s[STMT_ACK_LEASED], b"ack_leased", b"vIIUQQQbP")
    snprintf(s[STMT_ACK_LEASED].text, sizeof(s.text),
             b"SELECT part, grp, NULL::tid AS at, released, head FROM queend.ack_leased($1,$2,$3,$4,$5,$6,$7,$8,$9)")
    snprintf(s[STMT_TURN].text, sizeof(s.text),
             b"SELECT * FROM (SELECT part, grp, NULL::tid AS at, released, head"
             b" FROM queend.ack_leased($1,$2,$3,$4,$5,$6,$7,$8,$9)"
             b" UNION ALL SELECT part, grp, at, NULL, 0 FROM queend.claim($1,$10,$11,$12,$13,$14,$15,$16)) AS t")
    # whose are these leases?
    snprintf(s[STMT_LEASE_QUEUES].text, sizeof(s.text),
             b"SELECT l.ord::int - 1 AS ord, n.name AS queue FROM unnest($1) WITH ORDINALITY AS l (lease, ord)"
             b" CROSS JOIN LATERAL queend.leases_find(ARRAY[l.lease], '{}', '{}') AS f"
             b" CROSS JOIN LATERAL"
             b" (SELECT x.queue_id FROM queend.partitions x WHERE x.id = f.partition_id OFFSET 0) AS p"
             b" CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = p.queue_id OFFSET 0) AS n")
    # stream_sources: the source queue of a query, and the queue of a partition
    statement_define(&s[STMT_STREAM_SOURCES], b"stream_sources", b"ui")
    snprintf(s[STMT_STREAM_SOURCES].text, sizeof(s.text),
             b"SELECT (SELECT q.source_queue FROM queend.stream_queries q WHERE q.query_uuid = $1) AS query,"
             b" (SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = $2)"
             b" AS partition")
    statement_define(&s[STMT_QUEUES_MAKE], b"queues_make", b"TTTt")
    snprintf(s[STMT_QUEUES_MAKE].text, sizeof(s.text),
             b"SELECT queend.queues_make($1,$2,$3) FROM set_config('queend.max_queues', $4, true)")
    statement_define(&s[STMT_RATES_TAKE], b"rates_take", b"IIII")
    statement_define(&s[STMT_LOOK], b"look", b"")
    snprintf(s[STMT_LOOK].text, sizeof(s.text),
             b"SELECT pg_current_snapshot()::text, version, queend.now_us() FROM queend.catalog")
    statement_fence(&s[STMT_PUSH])
    statement_fence(&s[STMT_PUSH_DUE])
    statement_fence(&s[STMT_PUSH_ONE])
    statement_fence(&s[STMT_POP])
    statement_fence(&s[STMT_ACK])
    statement_fence(&s[STMT_TRANSACTION])
    statement_fence(&s[STMT_TRANSACTION_DUE])
    statement_fence(&s[STMT_RENEW])
    statement_fence(&s[STMT_RELEASE])
    statement_fence(&s[STMT_RESOLVE_WITHIN])
    statement_fence(&s[STMT_GROUP_WITHIN])
    statement_fence(&s[STMT_TURN])
    statement_fence(&s[STMT_CLAIM])
    statement_fence(&s[STMT_ACK_LEASED])
    statement_fence(&s[STMT_CYCLE])
    statement_fence(&s[STMT_TAKE_BACK])
    statement_fence(&s[STMT_RATES_TAKE])
    return s
