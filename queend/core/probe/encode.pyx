# Test seams for binary parameters.

def probe_array(str kind, list values, bint late=False):
    """An array parameter. kind: int2 int4 int8 bool uuid bytea text; values: int, bool or bytes, None for NULL.

    late: variable elements are written as those whose length is known only afterwards. The same memory is used for a
    longer array first, so that what was there before would show.
    """
    cdef PgArray a
    cdef Params p
    cdef size_t mark
    cdef bytes raw
    oids = {"int2": OID_INT2, "int4": OID_INT4, "int8": OID_INT8, "bool": OID_BOOL, "uuid": OID_UUID,
            "bytea": OID_BYTEA,
            "text": OID_TEXT}
    memset(&a, 0, sizeof(a))
    pgarray_begin(&a, OID_BYTEA)
    pgarray_null(&a)
    raw = b"\xff" * 999
    pgarray_bytes(&a, <const char*>raw, 999)
    pgarray_end(&a)
    pgarray_begin(&a, oids[kind])
    for value in values:
        if value is None: pgarray_null(&a)
        elif kind == "int2": pgarray_int2(&a, value)
        elif kind == "int4": pgarray_int4(&a, value)
        elif kind == "int8": pgarray_int8(&a, value)
        elif kind == "bool": pgarray_bool(&a, value)
        elif kind == "uuid": pgarray_uuid(&a, <const unsigned char*><bytes>value)
        elif late:
            raw = value
            mark = pgarray_open(&a)
            buf_put(&a.buf, <const char*>raw, <size_t>len(raw))
            pgarray_close(&a, mark)
        else:
            raw = value
            pgarray_bytes(&a, <const char*>raw, <size_t>len(raw))
    args_param_begin(&p)
    args_param_array(&p, &a)
    out = p.values[0][:p.lengths[0]]
    pgarray_free(&a)
    return out

def probe_scalars(int64_t big, int32_t small, bytes text):
    """Parameters that are no arrays: (bigint, integer, text or bytea, the empty one, NULL)."""
    cdef Params p
    cdef uint32_t wire = htobe32(<uint32_t>small)
    args_param_begin(&p)
    args_param_int8(&p, big)
    args_param_bytes(&p, <const char*>&wire, 4)
    args_param_bytes(&p, <const char*>text, <size_t>len(text))
    args_param_bytes(&p, NULL, 0)
    args_param_null(&p)
    return [None if p.values[i] == NULL else p.values[i][:p.lengths[i]] for i in range(p.n)]

def probe_statements():
    """The statement table: (name, text, parameter types as OIDs)."""
    cdef const StatementDef* s = statements_open()
    cdef int i
    return [(s[i].name.decode(), (<const char*>s[i].text).decode(), [s[i].types[k] for k in range(s[i].n_params)])
            for i in range(STMT_COUNT)]

def probe_columns():
    """Where the core looks for the result columns of the statements it reads by constant: {statement: {column:
    position}}."""
    keys = {"ord": KV_ROW_ORD, "outcome": KV_ROW_OUTCOME, "version": KV_ROW_VERSION, "expires_at": KV_ROW_EXPIRES_AT,
            "updated_at": KV_ROW_UPDATED_AT, "value": KV_ROW_VALUE, "key": KV_ROW_KEY}
    pops = {"ord": POP_ORD, "status": POP_STATUS, "attempt": POP_ATTEMPT, "first": POP_FIRST, "take": POP_TAKE,
            "base": POP_BASE, "n": POP_N, "created_at": POP_CREATED_AT, "ids": POP_IDS, "body": POP_BODY,
            "meta": POP_META, "head": POP_HEAD, "until": POP_UNTIL, "buried": POP_DEAD_LETTERED}
    return {
        "kv_get": keys, "kv_write": keys, "kv_bundle": keys,
        "timers_write": {"ord": TIMER_ROW_ORD, "outcome": TIMER_ROW_OUTCOME, "due": TIMER_ROW_DUE,
                         "message_id": TIMER_ROW_ID, "txn": TIMER_ROW_TXN},
        "locks": {"ord": LOCK_ROW_ORD, "outcome": LOCK_ROW_OUTCOME, "slot": LOCK_ROW_SLOT, "token": LOCK_ROW_TOKEN,
                  "owner": LOCK_ROW_OWNER, "since": LOCK_ROW_SINCE, "expires_at": LOCK_ROW_EXPIRES_AT,
                  "renewed_at": LOCK_ROW_RENEWED_AT},
        "push": {"ord": PUSH_ORD, "status": PUSH_STATUS, "base": PUSH_BASE, "created_at": PUSH_CREATED_AT,
                 "dup_offset": PUSH_DUP_OFFSET, "dup_at": PUSH_DUP_AT, "seen": PUSH_SEEN},
        "pop": pops,
        "pop_newest": {**pops, "since": POP_SINCE},
        "ack": {"ord": ACK_ORD, "status": ACK_STATUS, "codes": ACK_CODES, "released": ACK_RELEASED,
                "committed": ACK_COMMITTED, "head": ACK_HEAD, "retry_until": ACK_RETRY_UNTIL},
        "transaction": {"ord": TX_ORD, "kind": TX_KIND, "status": TX_STATUS, "base": TX_BASE,
                        "created_at": TX_CREATED_AT,
                        "codes": TX_CODES, "released": TX_RELEASED, "committed": TX_COMMITTED, "head": TX_HEAD,
                        "dup_index": TX_DUP_INDEX, "seen": TX_SEEN},
        "turn": {"part": TURN_PART, "grp": TURN_GROUP, "at": TURN_PLACE, "released": TURN_RELEASED,
                 "head": TURN_HEAD},
        "claim": {"part": TURN_PART, "grp": TURN_GROUP, "at": TURN_PLACE},
        "ack_leased": {"part": TURN_PART, "grp": TURN_GROUP, "at": TURN_PLACE, "released": TURN_RELEASED,
                       "head": TURN_HEAD},
        "stream_cycle": {"error": CYCLE_ERROR, "stale": CYCLE_STALE, "queue": CYCLE_QUEUE, "base": CYCLE_BASE,
                         "created_at": CYCLE_CREATED_AT,
                         "dups": CYCLE_DUPS, "group_id": CYCLE_GROUP, "committed": CYCLE_COMMITTED,
                         "head": CYCLE_HEAD, "released": CYCLE_RELEASED,
                         "waits": CYCLE_WAITS, "gone": CYCLE_GONE},
        "renew": {"ord": RENEW_ORD, "status": RENEW_STATUS, "expires_at": RENEW_EXPIRES_AT, "renewed": RENEW_RENEWED},
    }
