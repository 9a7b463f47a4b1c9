# The parameters of one statement while it is written. In: a statement of the table. Out: its parameters, as libpq takes
# them. Owner: a worker, which reuses one set of arrays. No locks.
# args_begin starts the parameters, the struct of the statement fills them, args_end completes them. An unwritten
# parameter is NULL, an unwritten array is empty.

cdef struct Args:
    const StatementDef* of
    PgArray[PARAMS_MAX] at

# ---- one struct per statement ----------------------------------------------------------------------------------------
# A struct names the parameters of a function in their order; their types are those of the signature (pg/statements).

cdef struct RowArgs:
    # rows for the log
    PgArray lanes, part, skip, n, kind, lo, hi, ids, body, meta

cdef struct ClaimArgs:
    # claims for waiters of a push
    PgArray row, group, take, whole, lease, lease_us

cdef struct KnownArgs:
    # how far ids are known, by row; places to look for some of them
    PgArray known, known_at, look_row, look_from, look_to

cdef struct AckedArgs:
    # acknowledgments, by partition, group and lease
    PgArray part, grp, lease, n, ids, status

cdef struct FailureArgs:
    PgArray row, idx, error

cdef struct PushArgs:
    PgArray version
    RowArgs rows
    PgArray hint, compares
    ClaimArgs claims
    KnownArgs known

cdef struct PopArgs:
    # first line: per candidate; then per request; ttl_us, rate_us and burst NULL: no candidate has one
    PgArray version, req, part, group, may_be_missing
    PgArray budget, parts, auto_ack, lease, lease_us, delay_us, window_us, ttl_us, rate_us, burst

cdef struct AckArgs:
    PgArray version
    AckedArgs acks
    PgArray retry_limit, retry_delay_us
    FailureArgs failures

cdef struct TxArgs:
    # required leases and their partitions and groups; dry: only checks
    PgArray version
    RowArgs rows
    AckedArgs acks
    FailureArgs failures
    PgArray required, part, group
    KnownArgs known
    PgArray dry

cdef struct KeptArgs:
    # claims of records in memory
    PgArray part, group, first, take, base, lease, lease_us

cdef struct TurnArgs:
    # acknowledgments by lease (leasedack_qualify takes only these), then claims
    PgArray version, acked_part, acked_group, acked_lease, acked_first, acked_last, acked_base, heads, acked_at
    KeptArgs claims

cdef struct KeptOnlyArgs:
    # claim
    PgArray version
    KeptArgs claims

cdef struct CycleArgs:
    # state: set, their ends, dropped; rows; the acknowledgment
    PgArray version, query, partition, key, value, end, unset
    RowArgs rows
    PgArray group, record, lease, count, dead, error, release, waited

cdef struct SourcesArgs:
    # stream_sources
    PgArray query, partition

cdef struct SpacesArgs:
    # queues_make
    PgArray queue, ns, task, max_queues

cdef struct PushedArgs:
    PgArray lanes, part, n, ids

cdef struct RenewArgs:
    PgArray lease, seconds, req, part, group

cdef struct LeaseArgs:
    # release
    PgArray part, group, lease

cdef struct SpanArgs:
    # take_back
    PgArray part, group, first, stop

cdef struct NamesArgs:
    # of look-ups by name
    PgArray first, second, max_queues, max_partitions

cdef struct GroupArgs:
    PgArray queue, name, mode, from_us, max_groups, conflates

cdef struct IdsArgs:
    # ids_stored
    PgArray part, id, known

cdef struct LearnArgs:
    # ids_learn
    PgArray part, known, known_at

cdef struct ScanArgs:
    # pop_scan
    PgArray queue, group, after, most

cdef struct RecentArgs:
    PgArray since_us, back_us

cdef struct WakingArgs:
    PgArray from_us, after, to_us, most

cdef struct RateArgs:
    # rates_take
    PgArray queue, group, want, back

cdef struct CursorArgs:
    # leases_ended
    PgArray part, group

cdef struct KvGetArgs:
    PgArray ns, key

cdef struct KvArgs:
    # operations of kv_write, and of kv_bundle with the last
    PgArray wave, op, ns, key, value, expect, ttl_us, delta, low, high, required

cdef struct LockArgs:
    PgArray op, name, owner, ttl_us, limit, token, slot

cdef struct TimerArgs:
    # timers_write
    PgArray op, queue, key, part, txn, payload, seal, delay_us, sub

cdef struct TxBundleArgs:
    # transaction_bundle
    TxArgs transaction
    KvArgs keys
    TimerArgs timers

# ---- parameters written ----------------------------------------------------------------------------------------------

cdef void args_begin(Args* a, const StatementDef* statement) noexcept nogil:
    # Starts the parameters of a statement: arrays are empty, the other parameters are NULL.
    cdef int i
    a.of = statement
    for i in range(statement.n_args):
        if statement.elements[i]:
            pgarray_begin(&a.at[i], statement.elements[i])
        else:
            arg_null(&a.at[i])

cdef inline void arg_null(PgArray* a) noexcept nogil:
    # Sets the parameter to NULL, also if it is an array.
    buf_clear(&a.buf)
    a.n = 0
    a.elem_oid = 0

cdef inline void arg_bytes(PgArray* a, const void* data, size_t n) noexcept nogil:
    # Sets text, bytea or uuid.
    buf_clear(&a.buf)
    buf_put(&a.buf, data, n)
    a.n = 1

cdef inline void arg_slice(PgArray* a, Slice s) noexcept nogil:
    arg_bytes(a, s.p, s.n)

cdef inline void arg_int8(PgArray* a, int64_t v) noexcept nogil:
    cdef uint64_t w = htobe64(<uint64_t>v)
    arg_bytes(a, &w, 8)

cdef inline void arg_int4(PgArray* a, int32_t v) noexcept nogil:
    cdef uint32_t w = htobe32(<uint32_t>v)
    arg_bytes(a, &w, 4)

cdef inline void arg_bool(PgArray* a, bint v) noexcept nogil:
    cdef uint8_t w = 1 if v else 0
    arg_bytes(a, &w, 1)

# ---- parameters completed, as libpq takes them -----------------------------------------------------------------------

cdef void args_end(Args* a, Params* p, int64_t version) noexcept nogil:
    # Completes the parameters in p, ready to be sent. version: the catalog's, for versioned statements.
    cdef int i
    cdef PgArray* arg
    args_param_begin(p)
    for i in range(a.of.n_args):
        arg = &a.at[i]
        if a.of.versioned and i == 0:
            args_param_int8(p, version)
        elif arg.elem_oid and a.of.elements[i]:
            args_param_array(p, arg)
        elif arg.elem_oid:
            args_param_element(p, arg)
        elif arg.n:
            p.failed = p.failed or arg.buf.failed
            args_param_bytes(p, arg.buf.data, arg.buf.len)
        else:
            args_param_null(p)

cdef inline void args_param_begin(Params* p) noexcept nogil:
    p.n = 0
    p.failed = False
    p.too_large = False

cdef inline void args_param_bytes(Params* p, const void* data, size_t n) noexcept nogil:
    # Adds text, bytea or uuid. An empty value gets a pointer as well, because NULL means SQL NULL.
    p.values[p.n] = <const char*>data
    if data == NULL:
        p.values[p.n] = b""
    p.lengths[p.n] = <int>n
    p.n += 1

cdef inline void args_param_null(Params* p) noexcept nogil:
    p.values[p.n] = NULL
    p.lengths[p.n] = 0
    p.n += 1

cdef inline bint args_param_takes(Params* p, PgArray* a) noexcept nogil:
    # Returns True if the array got its memory and PostgreSQL accepts its size, less than 1 GiB. Sets failed and
    # too_large.
    if not a.buf.failed and a.buf.len <= 0x3fffffff:
        return True
    p.failed = True
    p.too_large = not a.buf.failed
    return False

cdef inline void args_param_array(Params* p, PgArray* a) noexcept nogil:
    # Ends the array and adds it as a parameter.
    pgarray_end(a)
    args_param_takes(p, a)
    args_param_bytes(p, a.buf.data, a.buf.len)

cdef inline void args_param_element(Params* p, PgArray* a) noexcept nogil:
    # Adds the array's single element as a parameter; NULL if it has no element or a NULL.
    if not args_param_takes(p, a) or a.n == 0 or a.has_null:
        args_param_null(p)
    else:
        args_param_bytes(p, a.buf.data + PGARRAY_HEADER + 4, be32(a.buf.data + PGARRAY_HEADER))

cdef inline void args_param_int8(Params* p, int64_t v) noexcept nogil:
    p.scalar[p.n] = htobe64(<uint64_t>v)
    args_param_bytes(p, &p.scalar[p.n], 8)

cdef void args_free(Args* a) noexcept nogil:
    cdef int i
    for i in range(PARAMS_MAX):
        pgarray_free(&a.at[i])
